/* engine_search.h: the ways to run a model that a plan considers, with their bytes and times.
 * plan_ways.h chooses one of them. */
#ifndef MNEM_SRC_ENGINE_ENGINE_SEARCH_H
#define MNEM_SRC_ENGINE_ENGINE_SEARCH_H

#include "engine/engine_parts.h"
#include "plan/plan_ways.h"

/* Graphs measured for one context, KV type and chunk. */
typedef struct mnem__graph_point {
    int32_t context, chunk;
    int32_t pages; /* the least that the options allow */
    mnem_kv_choice kv;
    mnem_graph_sizes body, head;
} mnem__graph_point;

/* Weights measured for one order and number of resident matrices, and of slots for experts. */
typedef struct mnem__residency_point {
    int32_t order, resident;
    bool embedding_packed;
    uint64_t resident_bytes, streamed_bytes_body, streamed_bytes_head;
    int32_t expert_slots; /* 0: no experts, or all are resident */
    uint64_t expert_bytes, expert_host_bytes;
    double expert_hits;           /* assumed share of a token's experts that are in memory */
    uint64_t expert_misses_bytes; /* read per token */
} mnem__residency_point;

/* Weights measured for one ring; other fields of sizes don't depend on what is resident. */
typedef struct mnem__ring_point {
    int32_t slots;
    uint64_t slot_bytes;
    mnem__weights_sizes sizes;
} mnem__ring_point;

typedef struct mnem__search {
    mnem__setup *setup;
    uint64_t bytes_live; /* charged before the engine */
    mnem_machine_profile profile;
    /* Per token. macs: those of dense products that take as long; bytes: of packed weights. */
    double body_macs, head_macs, body_bytes, head_bytes;
    double state_bytes;             /* of states, read and written per token of a sequence */
    double file_bytes, expert_part; /* expert_part: the share of all experts that a token uses */
    mnem__weights_sizes experts;    /* where no expert is resident: expert_* */
    int32_t reference_prompt, reference_generate; /* tokens of the reference job */
    int32_t together; /* sequences that each run that job, in the same passes; 0: one */
    mnem__graph_point *graphs;
    int32_t graph_count;
    mnem__residency_point *residency;
    int32_t residency_count;
    mnem__ring_point *rings;
    int32_t ring_count;
    int32_t pages;  /* of all ways; 0: the least that the options allow */
    int32_t states; /* live states and snapshots, likewise */
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

/* bytes_live: the ledger's charge before planning. */
mnem_status mnem__search_init(mnem__search *search, mnem__setup *setup, uint64_t bytes_live);
void mnem__search_fini(mnem__search *search);
/* Sets a reference job that fits a context; the first measured context does so. */
void mnem__search_reference(mnem__search *search, int32_t context);
/* Measures the graphs for a context, unless they are measured already. */
mnem_status mnem__search_context(mnem__search *search, int32_t context);
/* The fastest way with this context that takes at most budget bytes. */
mnem__way mnem__search_fastest(const mnem__search *search, int32_t context, uint64_t budget);
/* The smallest way with this context whose job takes less than `seconds`. */
mnem__way mnem__search_smallest(const mnem__search *search, int32_t context, double seconds);
/* The fastest way with this context that has small chunks and slots and nothing resident. A larger
 * context is chosen only if the budget allows at least this way. */
mnem__way mnem__search_modest(const mnem__search *search, int32_t context);

/* The ways with one context, as a list to choose from: graphs x rings x residency, each up to a
 * limit. */
typedef struct mnem__search_ways {
    const mnem__search *search;
    int32_t graph_first, graph_count; /* of the context: measured one after another */
    int32_t chunk_most, resident_most;
    uint64_t slot_most;
    /* The graphs measured last, with their parts without weights: a search visits all ways with the
     * same graphs one after another. */
    const mnem__graph_point *measured;
    mnem__engine_parts parts;
} mnem__search_ways;
/* Fills *list, which the result borrows. */
mnem__plan_ways mnem__search_ways_of(const mnem__search *search, int32_t context,
                                     mnem__search_ways *list);
/* The way that was found in the list; graphs is NULL for index -1. */
mnem__way mnem__search_way(const mnem__search_ways *list, const mnem__plan_way *found);

/* Gives a way this many states, the live ones first. */
void mnem__way_set_states(const mnem__search *search, mnem__way *way, int32_t states);
/* Computes bytes and seconds; false: another way is better in every respect. */
bool mnem__way_complete(const mnem__search *search, mnem__way *way);
mnem__choice mnem__way_choice(const mnem__way *way);
mnem__weights_sizes mnem__way_weights(const mnem__way *way);
/* For a pass of `tokens` tokens with `slots` slots: the share of its experts that is in memory; the
 * bytes of experts that are read, including wrong predictions. */
double mnem__expert_hits(const mnem__search *search, int32_t slots, double tokens);
double mnem__expert_bytes(const mnem__search *search, int32_t slots, double tokens);
/* Seconds of the reference job. */
double mnem__way_seconds(const mnem__search *search, const mnem__way *way);
/* Seconds of a pass over `tokens` tokens with `logits` rows of logits (0 for a chunk of a
 * prompt). */
double mnem__way_pass_seconds(const mnem__search *search, const mnem__way *way, int32_t tokens,
                              int32_t logits);

/* mnem_engine_plan_make with just the draft of the options (engine_plan.c). */
mnem_status mnem__engine_plan_fixed(const mnem_model *model, const mnem_engine_options *options,
                                    mnem_engine_plan *plan);

#endif
