/* walk_private.h: a walk, shared by its files.
 *
 *     walk_plan.c     which way fits, and the bytes of everything
 *     walk_states.c   hidden states, in memory or in a file
 *     walk_inputs.c   what matrices are multiplied with, told to the watcher
 *     walk_replace.c  weights that a watcher changed
 *     walk_run.c      the walk itself */
#ifndef MNEM_SRC_COMPRESS_WALK_PRIVATE_H
#define MNEM_SRC_COMPRESS_WALK_PRIVATE_H

#include "mnem/compress.h"
#include "mnem/graph.h"
#include "model/architecture/transformer_graph.h"
#include "model/weights/weights.h"
#include "plan/plan_parts.h"

/* What planning chooses. */
typedef struct mnem__walk_way {
    int32_t pass;      /* tokens run together */
    bool streamed;     /* a layer's weights come in chunks, for every pass again */
    int64_t in_memory; /* sequences whose states are; the others share one more place */
} mnem__walk_way;

typedef struct mnem__walk_states {
    uint8_t *base; /* for the host, whatever the device */
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
    int32_t matrices_most; /* that a layer has */
    /* chosen, and taken */
    mnem__walk_way way;
    mnem__parts parts;
    mnem__taken taken;
    mnem_team *team;
    mnem__walk_states states;
    /* tables, in one allocation */
    bool *resident;         /* [matrices_most]: all alike */
    mnem_tensor_info *info; /* [matrices_most] of the layer */
    int32_t *same;          /* [matrices_most] as mnem_walk_input says */
    int32_t *pages;         /* [chunk / page]: 0, 1, 2, ... */
    int32_t *rows;          /* [chunk]: so too */
    int32_t *positions;     /* [chunk] of a pass */
    /* the layer that runs; -1: the embedding */
    int32_t layer;
    mnem_graph *graph;
    mnem__weights *weights;
    mnem_status seen; /* of showing a pass's rows: the first failure, by the team's worker 0 */
    bool kept;        /* its states stay: what comes of this run is seen and forgotten */
    int64_t sequence;
    int32_t position;
    uint64_t done; /* tokens times layers */
} mnem__walker;

/* ---- walk_plan.c ---- */

/* The first handle of a layer, and how many it has. */
static inline int32_t mnem__walk_layer_matrices(const mnem__walker *w, int32_t layer,
                                                int32_t *first) {
    *first = w->map->layer_first[layer];
    return w->map->layer_first[layer + 1] - *first;
}
/* Does each layer run a second time? */
static inline bool mnem__walk_again(const mnem__walker *w) {
    return w->watcher && w->watcher->again;
}
mnem__transformer_graph_options mnem__walk_graph_options(const mnem__walker *w, int32_t pass);
/* Of a layer's matrices, which w->resident says to be resident or not. */
mnem__weights_options mnem__walk_weights_options(const mnem__walker *w, int32_t layer);
/* Fills w->way and w->parts, and the report. MNEM_OVER_BUDGET says what would do. */
mnem_status mnem__walk_choose(mnem__walker *w, mnem_walk_report *report);

/* ---- walk_states.c ---- */

/* Makes the file, if states are to be there. MNEM_IO. */
mnem_status mnem__walk_states_open(mnem__walk_states *states, const char *spill);
void mnem__walk_states_close(mnem__walk_states *states);
/* Where a sequence's states are now; read from the file where they are in it and wanted. */
mnem_status mnem__walk_states_get(mnem__walk_states *states, int64_t sequence, bool read,
                                  float **rows);
/* A copy of them, in the place for one more. */
mnem_status mnem__walk_states_copy(mnem__walk_states *states, int64_t sequence, float **rows);
/* They were changed. */
mnem_status mnem__walk_states_put(mnem__walk_states *states, int64_t sequence);

/* ---- walk_replace.c ---- */

/* What the host uses between runs: of the program's block, or of memory of its own. */
static inline mnem__part mnem__walk_scratch(const mnem__walker *w) {
    return w->taken.apart ? MNEM__PART_STAGING : MNEM__PART_ACTIVATIONS;
}
/* What replacing takes of it, for rows of so many columns. */
uint64_t mnem__walk_replace_bytes(int64_t columns, bool apart);

/* ---- walk_inputs.c ---- */

/* Fills info and same of the layer whose graph is built. */
void mnem__walk_find_inputs(mnem__walker *w);
/* Bytes to show the host a pass's rows of so many columns, where it doesn't reach them. */
static inline uint64_t mnem__walk_seen_bytes(int32_t pass, int64_t columns) {
    return (uint64_t)pass * (uint64_t)columns * sizeof(float);
}
/* A tap of the graph; its context is the walker. */
void mnem__walk_see(void *context, const mnem_graph_tapped *tapped, const mnem_worker *worker);

#endif
