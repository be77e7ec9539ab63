/* walk_private.h: a walk over a model's layers, shared by its files.
 *
 *     walk_plan.c     the choice of a way, and the bytes of everything
 *     walk_states.c   hidden states, in memory or in a file
 *     walk_inputs.c   the inputs of matrices, passed to the watcher
 *     walk_replace.c  weights changed by a watcher
 *     walk_run.c      the walk */
#ifndef MNEM_SRC_COMPRESS_WALK_PRIVATE_H
#define MNEM_SRC_COMPRESS_WALK_PRIVATE_H

#include "mnem/compress.h"
#include "mnem/graph.h"
#include "model/architecture/transformer_graph.h"
#include "model/weights/weights.h"
#include "plan/plan_parts.h"

/* The choice of a plan. */
typedef struct mnem__walk_way {
    int32_t pass;      /* tokens per pass */
    bool streamed;     /* a layer's weights are read in chunks, in every pass */
    int64_t in_memory; /* sequences with states in memory; the others share one more place */
} mnem__walk_way;

typedef struct mnem__walk_states {
    uint8_t *base; /* in host memory on every device */
    uint64_t sequence_bytes;
    int64_t in_memory;
    int fd; /* below 0: none */
    char path[256];
} mnem__walk_states;

typedef struct mnem__walker {
    const mnem_model *model;
    const mnem_walk_options *options;
    const mnem_walk_watcher *watcher;
    const int32_t *ids; /* [sequences][chunk] */
    int64_t sequences;
    int32_t chunk, threads;
    mnem__transformer_map *map;
    mnem_kv_layout kv;
    int32_t matrices_most; /* of a layer */
    /* chosen, and taken */
    mnem__walk_way way;
    mnem__parts parts;
    mnem__taken taken;
    mnem_team *team;
    mnem__walk_states states;
    /* tables, in one allocation */
    bool *resident;         /* [matrices_most]: all equal */
    mnem_tensor_info *info; /* [matrices_most] of the layer */
    int32_t *same;          /* [matrices_most] as mnem_walk_input says */
    int32_t *pages;         /* [chunk / page]: 0, 1, 2, ... */
    int32_t *rows;          /* [chunk]: 0, 1, 2, ... */
    int32_t *positions;     /* [chunk] of a pass */
    /* the current layer; -1: the embedding */
    int32_t layer;
    mnem_graph *graph;
    mnem__weights *weights;
    mnem_status seen; /* the first error while a pass's rows were shown, set by worker 0 */
    bool kept;        /* its states stay: the results of this run are shown and dropped */
    int64_t sequence;
    int32_t position;
    uint64_t done; /* tokens times layers */
} mnem__walker;

/* ---- walk_plan.c ---- */

/* The first handle of a layer, and the number of its matrices. */
static inline int32_t mnem__walk_layer_matrices(const mnem__walker *w, int32_t layer,
                                                int32_t *first) {
    *first = w->map->layer_first[layer];
    return w->map->layer_first[layer + 1] - *first;
}
/* Whether each layer runs a second time. */
static inline bool mnem__walk_again(const mnem__walker *w) {
    return w->watcher && w->watcher->again;
}
mnem__transformer_graph_options mnem__walk_graph_options(const mnem__walker *w, int32_t pass);
/* The options for a layer's matrices; w->resident: whether they are resident. */
mnem__weights_options mnem__walk_weights_options(const mnem__walker *w, int32_t layer);
/* Sets w->way, w->parts and the report. MNEM_OVER_BUDGET names a sufficient budget. */
mnem_status mnem__walk_choose(mnem__walker *w, mnem_walk_report *report);

/* ---- walk_states.c ---- */

/* Makes the file, if states need it. MNEM_IO. */
mnem_status mnem__walk_states_open(mnem__walk_states *states, const char *spill);
void mnem__walk_states_close(mnem__walk_states *states);
/* Gives the states of a sequence; read: reads them if they are in the file. */
mnem_status mnem__walk_states_get(mnem__walk_states *states, int64_t sequence, bool read,
                                  float **rows);
/* Copies them to the additional place. */
mnem_status mnem__walk_states_copy(mnem__walk_states *states, int64_t sequence, float **rows);
/* Stores changed states. */
mnem_status mnem__walk_states_put(mnem__walk_states *states, int64_t sequence);

/* ---- walk_replace.c ---- */

/* The host's scratch between runs: the program's block, or separate memory. */
static inline mnem__part mnem__walk_scratch(const mnem__walker *w) {
    return w->taken.apart ? MNEM__PART_STAGING : MNEM__PART_ACTIVATIONS;
}
/* The scratch bytes for replacing rows of this many columns. */
uint64_t mnem__walk_replace_bytes(int64_t columns, bool apart);

/* ---- walk_inputs.c ---- */

/* Sets info and same for the layer whose graph is built. */
void mnem__walk_find_inputs(mnem__walker *w);
/* The bytes to copy a pass's rows for a host that can't access them. */
static inline uint64_t mnem__walk_seen_bytes(int32_t pass, int64_t columns) {
    return (uint64_t)pass * (uint64_t)columns * sizeof(float);
}
/* The tap of the graph; context: the walker. */
void mnem__walk_see(void *context, const mnem_graph_tapped *tapped, const mnem_worker *worker);

#endif
