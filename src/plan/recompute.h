/* recompute.h: chooses which values of a chain of stages are kept until the backward pass, and
 * which are recomputed. Works on numbers only.
 *
 * Stages run forward in order, then backward in reverse. Each has options: the bytes kept from its
 * forward to its backward pass, and their cost. Not here: which tensors an option keeps.
 * Threads: no state; any thread.
 *
 *     const mnem__recompute_option o[2] = {{.kept_bytes = 100, .work_bytes = 120, .seconds = 0},
 *                                         {.kept_bytes = 10, .work_bytes = 130, .seconds = 1}};
 *     mnem__recompute_stage s[2] = {{.options = o, .count = 2}, {.options = o, .count = 2}};
 *     mnem__recompute_result r;
 *     mnem__plan_recompute(s, 2, 150, &r);   // s[0].chosen 1, s[1].chosen 0: 10 + 120, 1 second
 */
#ifndef MNEM_SRC_PLAN_RECOMPUTE_H
#define MNEM_SRC_PLAN_RECOMPUTE_H

#include "mnem/base.h"

typedef struct mnem__recompute_option {
    uint64_t kept_bytes; /* from the stage's forward pass to its backward pass */
    uint64_t work_bytes; /* the most alive of this stage at one time, forward or backward, kept and
                            recomputed values and gradients together */
    double seconds;      /* in addition to the fastest option; 0 or above */
} mnem__recompute_option;

typedef struct mnem__recompute_stage {
    const mnem__recompute_option *options; /* borrowed */
    int32_t count;                         /* 1 to 64 */
    int32_t chosen;                        /* out */
} mnem__recompute_stage;

typedef struct mnem__recompute_result {
    uint64_t peak_bytes;  /* max over stages: kept of the stages before it + its work */
    uint64_t kept_bytes;  /* of all stages */
    double seconds;       /* sum over the chosen options */
    uint64_t least_bytes; /* the least capacity that any choice fits */
    bool exact;           /* no choice within the capacity takes less time */
} mnem__recompute_result;

/* Chooses an option for every stage so that the peak is at most the capacity and the sum of seconds
 * is least; among equals, the fewest bytes kept. Dynamic programming over the chain; its state is
 * the bytes kept so far, of which only those that nothing beats in bytes and seconds stay (for
 * chains: Beaumont et al., Optimal checkpointing for heterogeneous chains, 2019; with options per
 * stage: Korthikanti et al., Reducing activation recomputation, 2022). More than 8192 such states
 * are thinned: then exact is false, and the choice is valid all the same. 16 bytes of heap per
 * stage and state while it runs.
 * MNEM_OVER_BUDGET when nothing fits: chosen is then the choice with the least peak. MNEM_INVALID
 * without stages, for work below what is kept, seconds below 0 or not finite, sums past 2^62. */
mnem_status mnem__plan_recompute(mnem__recompute_stage *stages, size_t n, uint64_t capacity_bytes,
                                 mnem__recompute_result *result);

#endif
