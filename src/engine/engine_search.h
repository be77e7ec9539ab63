/* engine_search.h: every way to run a model that is worth a thought, with its bytes and its time.
 * How one is chosen among them: plan_ways.h. */
#ifndef MNEM_SRC_ENGINE_ENGINE_SEARCH_H
#define MNEM_SRC_ENGINE_ENGINE_SEARCH_H

#include "engine/engine_parts.h"
#include "plan/plan_ways.h"

/* Graphs measured for one context, KV type and chunk. */
typedef struct mnem__graph_point {
    int32_t context, chunk;
    int32_t pages; /* the least that options ask for */
    mnem_type kv_type;
    mnem_graph_sizes body, head;
} mnem__graph_point;

/* Weights measured for one order and number of resident matrices, and of slots for experts. */
typedef struct mnem__residency_point {
    int32_t order, resident;
    bool embedding_packed;
    uint64_t resident_bytes, streamed_bytes_body, streamed_bytes_head;
    int32_t expert_slots; /* 0: there are none, or all are resident */
    uint64_t expert_bytes, expert_host_bytes;
    double expert_hits;           /* of the experts that a token uses, assumed */
    uint64_t expert_misses_bytes; /* read for a token */
} mnem__residency_point;

/* Weights measured for one ring; the rest of sizes doesn't depend on what is resident. */
typedef struct mnem__ring_point {
    int32_t slots;
    uint64_t slot_bytes;
    mnem__weights_sizes sizes;
} mnem__ring_point;

typedef struct mnem__search {
    mnem__setup *setup;
    uint64_t bytes_live; /* charged before the engine */
    mnem_machine_profile profile;
    /* Of one token; macs: of dense products that take as long; bytes packed. */
    double body_macs, head_macs, body_bytes, head_bytes;
    double state_bytes;                           /* that a sequence's tokens read and write */
    double file_bytes, expert_part;               /* of all experts, those that a token uses */
    mnem__weights_sizes experts;                  /* where none is resident: expert_* */
    int32_t reference_prompt, reference_generate; /* tokens that the time is counted for */
    int32_t together; /* sequences that each do that, in the same passes; 0: one */
    mnem__graph_point *graphs;
    int32_t graph_count;
    mnem__residency_point *residency;
    int32_t residency_count;
    mnem__ring_point *rings;
    int32_t ring_count;
    int32_t pages;  /* of all ways; 0: the least that options ask for */
    int32_t states; /* live ones and snapshots, so too */
} mnem__search;

typedef struct mnem__way {
    const mnem__graph_point *graphs; /* NULL: none */
    const mnem__residency_point *residency;
    const mnem__ring_point *ring;
    int32_t pages;
    int32_t states, snapshots;
    double seconds;
    uint64_t peak_bytes;
} mnem__way;

/* bytes_live: what the ledger holds before anything is planned. */
mnem_status mnem__search_init(mnem__search *search, mnem__setup *setup, uint64_t bytes_live);
void mnem__search_fini(mnem__search *search);
/* Sets the reference job to one that a context has room for; the first context measured does so. */
void mnem__search_reference(mnem__search *search, int32_t context);
/* Measures the graphs for a context, if that hasn't been done. */
mnem_status mnem__search_context(mnem__search *search, int32_t context);
/* The fastest way with this context of at most budget bytes. */
mnem__way mnem__search_fastest(const mnem__search *search, int32_t context, uint64_t budget);
/* The smallest way with this context that takes less than this many seconds. */
mnem__way mnem__search_smallest(const mnem__search *search, int32_t context, double seconds);
/* The fastest way with this context that keeps chunks and slots small and nothing resident: what a
 * budget should at least allow before it buys a larger context. */
mnem__way mnem__search_modest(const mnem__search *search, int32_t context);

/* The ways with one context as a list for choosing: graphs x rings x residency, of each up to a
 * limit. */
typedef struct mnem__search_ways {
    const mnem__search *search;
    int32_t graph_first, graph_count; /* of the context: they were measured in a row */
    int32_t chunk_most, resident_most;
    uint64_t slot_most;
    /* Measured last, and what it takes without weights: a walk asks for all ways of it in a row. */
    const mnem__graph_point *measured;
    mnem__engine_parts parts;
} mnem__search_ways;
/* Fills *list, which the ways borrow. */
mnem__plan_ways mnem__search_ways_of(const mnem__search *search, int32_t context,
                                     mnem__search_ways *list);
/* What was found among them; graphs NULL for index -1. */
mnem__way mnem__search_way(const mnem__search_ways *list, const mnem__plan_way *found);

/* Gives a way so many states, live ones first. */
void mnem__way_set_states(const mnem__search *search, mnem__way *way, int32_t states);
/* Fills bytes and seconds; false when another way is better whatever is wanted. */
bool mnem__way_complete(const mnem__search *search, mnem__way *way);
mnem__choice mnem__way_choice(const mnem__way *way);
mnem__weights_sizes mnem__way_weights(const mnem__way *way);
/* Of the experts that a pass of so many tokens uses, the part in memory with so many slots; the
 * bytes of those that are read, with wrong guesses. */
double mnem__expert_hits(const mnem__search *search, int32_t slots, double tokens);
double mnem__expert_bytes(const mnem__search *search, int32_t slots, double tokens);
/* Seconds of the reference job. */
double mnem__way_seconds(const mnem__search *search, const mnem__way *way);
/* Seconds for a pass over tokens, and rows of logits of them: a chunk of a prompt has none. */
double mnem__way_pass_seconds(const mnem__search *search, const mnem__way *way, int32_t tokens,
                              int32_t logits);

#endif
