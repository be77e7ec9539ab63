/* adapt.h: from the profile of a run to the next configuration. Knows numbers only.
 *
 * Not here: what a batch is (sequences, a chunk of a prompt, a micro-batch), what saves memory (a
 * q8_0 KV cache, recomputation), and who measures.
 * Threads: no state but the caller's; any thread.
 *
 *     mnem__adapt a = {.batch = 32};
 *     bool changed;
 *     do {
 *         run(a.batch, a.saving, &profile);
 *         mnem__adapt_next(&a, &(mnem__adapt_options){0}, &profile, &changed);
 *     } while (changed);                    // ends, whatever the profiles say
 */
#ifndef MNEM_SRC_PLAN_ADAPT_H
#define MNEM_SRC_PLAN_ADAPT_H

#include "mnem/base.h"

/* Zero means default. */
typedef struct mnem__adapt_options {
    double pressure_high;  /* above it the batch goes down, and saving on (0.8) */
    double pressure_room;  /* below it there is room to spare (pressure_high / up) */
    double efficiency_low; /* below it, with room, the batch goes up, and saving off (0.6) */
    double down, up;       /* factors of the batch (0.5, 1.5) */
    int32_t batch_least, batch_most; /* (1, 2^20) */
} mnem__adapt_options;

typedef struct mnem__adapt_profile {
    double pressure;   /* peak / budget; above 1: it didn't fit */
    double efficiency; /* achieved / limit */
} mnem__adapt_profile;

/* A configuration, and what was learned on the way to it. Start with batch and saving set and zeros
 * else. */
typedef struct mnem__adapt {
    int32_t batch;
    bool saving;           /* q8_0 KV, or recomputation, on */
    int32_t pressed_at[2]; /* [saving]: such batches and larger ones were under pressure; 0: none */
} mnem__adapt;

/* Replaces the configuration by the next one to run, given the profile of a run of it; changed is
 * false when it stays. What was under pressure once isn't proposed again, nor anything larger. Each
 * pressure lowers what may be proposed by a constant factor, so after O(log batch_most) changes
 * none follows, even if the profiles contradict each other.
 * MNEM_INVALID, with nothing changed, for profiles that are negative or no numbers, for options out
 * of order, or a batch outside its bounds. */
mnem_status mnem__adapt_next(mnem__adapt *adapt, const mnem__adapt_options *options,
                             const mnem__adapt_profile *profile, bool *changed);

#endif
