/* engine_parts.h: what planning decides, and the bytes of all parts of an engine.
 *
 * The same code measures and allocates: mnem__engine_measure computes the bytes of every part for a
 * choice; plan_make adds them up, and create takes the same numbers from the ledger. */
#ifndef MNEM_SRC_ENGINE_ENGINE_PARTS_H
#define MNEM_SRC_ENGINE_ENGINE_PARTS_H

#include "base/minmax.h"
#include "engine/pages/kv_pages.h"
#include "engine/relay/relay.h"
#include "mnem/session.h"
#include "model/architecture/adapter_set.h"
#include "model/weights/weights.h"
#include "plan/plan_parts.h"

/* What every planner (engine, split, ranks) tries where the options leave it open. */
enum { MNEM__CONTEXT_MODEST = 1024, MNEM__CONTEXT_MOST = 4096 };
enum { MNEM__CHUNK_MODEST = 32, MNEM__CHUNK_MOST = 512 };
static inline int32_t mnem__context_most(const mnem_transformer *t) {
    return t->context < 1 ? MNEM__CONTEXT_MOST : mnem__min_i32(t->context, MNEM__CONTEXT_MOST);
}
/* The first of MNEM__CHUNK_MOST, half of it, ... 1 that is no larger than the context. */
static inline int32_t mnem__chunk_most(int32_t context) {
    int32_t chunk = MNEM__CHUNK_MOST;
    while (chunk > context) chunk /= 2;
    return chunk;
}

/* What planning chooses. */
typedef struct mnem__choice {
    int32_t context, chunk;
    int32_t pages; /* for all sequences (mnem__engine_pages) */
    int32_t states,
        snapshots; /* live states of all sequences, and kept states of earlier positions;
                                  0 where the model has none */
    mnem_kv_choice kv;
    int32_t resident, order; /* how many matrices, and their order: mnem__residency */
    int32_t expert_slots;    /* used where experts are not resident; 0: the least */
    int32_t slots;
    uint64_t slot_bytes;
    bool embedding_packed; /* follows from resident and order */
} mnem__choice;

/* The choice of a plan; embedding_packed is not set. */
mnem__choice mnem__engine_choice(const mnem_engine_plan *plan);

/* The inputs of planning and of creation. */
typedef struct mnem__setup {
    const mnem_model *model;
    const mnem_engine_options *options;
    mnem_device *device; /* NULL while planning without a device: the host's rounding */
    mnem__transformer_map *map;
    mnem__adapter_set *adapters; /* NULL: none */
    bool *flags;                 /* [matrices], scratch and result of mnem__residency */
    int32_t matrices, threads, logits_rows, sequences;
    int32_t draft;         /* tokens of a draft; a chunk has one more at the least */
    bool apart;            /* mnem__device_is_apart(device) */
    uint64_t gather_bytes; /* of the widest row that ranks gather; 0: they gather none (relay.h) */
} mnem__setup;
mnem_status mnem__setup_init(mnem__setup *setup, const mnem_model *model,
                             const mnem_engine_options *options);
void mnem__setup_fini(mnem__setup *setup);
/* Sets the draft, and the rows of logits that it needs. */
void mnem__setup_draft(mnem__setup *setup, int32_t draft);

/* Sets which matrices are resident: count of them, spread evenly over the order of use by bit
 * reversal, so that a larger count keeps all matrices of a smaller one. Routers are always
 * resident, because predictions of experts use them too. Of the other matrices, the output
 * matrix comes last (order 0) or first (1), then those of experts; a separate embedding matrix
 * comes after all. */
void mnem__residency(const mnem__transformer_map *map, int32_t order, int32_t count, bool *flags);
/* The matrix that the next larger count adds; *at: 0 at first. Returns each matrix at most once. */
int32_t mnem__residency_next(const mnem__transformer_map *map, int32_t order, uint32_t *at);
/* The number of experts' matrices; either all of them are resident, or none. */
int32_t mnem__residency_experts(const mnem__transformer_map *map);
int32_t mnem__residency_routers(const mnem__transformer_map *map);

typedef struct mnem__graph_pair {
    mnem_graph *body, *head;
    mnem_graph_sizes body_sizes, head_sizes;
} mnem__graph_pair;
/* Builds both graphs for a choice; destroy accepts a zeroed pair. */
mnem_status mnem__graphs_build(const mnem__setup *setup, const mnem__choice *choice,
                               mnem__graph_pair *pair);
void mnem__graphs_destroy(mnem__graph_pair *pair);
mnem_kv_layout mnem__engine_kv(const mnem__setup *setup, mnem_kv_choice kv);
/* The types that options.kv allows, the best one first; returns their number. */
int mnem__engine_kv_types(const mnem__setup *setup, mnem_kv_choice types[2]);
/* The pages that all sequences share by the options: the least, and the most that are of use. */
int32_t mnem__engine_pages(const mnem__setup *setup, int32_t context);
int32_t mnem__engine_pages_most(const mnem__setup *setup, int32_t context);
/* The states that the options ask for: the most live ones; the least in all; the most in all,
 * snapshots included. */
int32_t mnem__engine_states_live(const mnem__setup *setup);
int32_t mnem__engine_states(const mnem__setup *setup, int32_t context);
int32_t mnem__engine_states_most(const mnem__setup *setup, int32_t context);
int32_t mnem__engine_snapshot_tokens(const mnem__setup *setup);
/* The pages of the layers with this need per sequence: layers with windows never hold all
 * positions. Of states: the live ones. */
static inline uint64_t mnem__engine_pages_of(const mnem__setup *setup, const mnem__choice *choice,
                                             const mnem__kv_need *need) {
    const uint64_t all = (uint64_t)need->pages * (uint64_t)setup->sequences;
    return mnem__min_u64((uint64_t)(need->one ? choice->states : choice->pages), all);
}
mnem__weights_options mnem__engine_weights_options(const mnem__setup *setup,
                                                   const mnem__choice *choice);

typedef struct mnem__engine_parts {
    mnem__parts all;
    uint64_t hidden_bytes; /* at the start of the activations; the graphs' block follows */
    /* Where the ring lies. When nothing is streamed, the ring is used only while weights are
     * loaded, and lies in the largest block that a pass fills: that block is idle until then,
     * and at least as large as the ring. */
    mnem__part ring;
    uint64_t idle_bytes;       /* of that block, without the ring */
    uint64_t ring_extra_bytes; /* that the ring adds to it */
} mnem__engine_parts;
/* Bytes of hidden rows, at the start of the activations; bytes of logits, 0 where this rank neither
 * makes nor receives any. */
uint64_t mnem__engine_hidden_bytes(const mnem__setup *setup, int32_t chunk);
uint64_t mnem__engine_logits_bytes(const mnem__setup *setup);
/* The shape of the messages between ranks. */
mnem__relay_shape mnem__engine_relay(const mnem__setup *setup, const mnem__choice *choice);
/* Whether no embedding rows are read from the file: the matrix is resident, or another rank's. */
static inline bool mnem__embedding_packed(const mnem__setup *setup) {
    return setup->map->embedding < 0 || setup->flags[setup->map->embedding];
}
/* Computes the bytes of every part from the measured graphs and weights. */
void mnem__engine_measure(const mnem__setup *setup, const mnem__choice *choice,
                          const mnem_graph_sizes *body, const mnem_graph_sizes *head,
                          const mnem__weights_sizes *weights, mnem__engine_parts *parts);
/* The same in two steps, for a search over many weights with the same graphs. The first computes
 * what depends on context, chunk, KV type and pages only, the second adds the rest. */
void mnem__engine_measure_graphs(const mnem__setup *setup, const mnem__choice *choice,
                                 const mnem_graph_sizes *body, const mnem_graph_sizes *head,
                                 mnem__engine_parts *parts);
void mnem__engine_measure_weights(const mnem__setup *setup, const mnem__choice *choice,
                                  const mnem__weights_sizes *weights, mnem__engine_parts *parts);

#endif
