/* expert_cache.h: the experts of all mixtures that are in memory, and the choice of the one to
 * evict.
 *
 * It has only slots and scores, no bytes and no threads, so recorded routing can be replayed
 * through it (bench_experts). An expert's score is the number of steps that used it, where each
 * later step of its layer multiplies a use by a constant factor below 1: between least recently
 * and least frequently used (Lee et al. 2001, "LRFU"). The slot with the lowest score is
 * evicted; of equal ones the one that was released last, since all are needed again after a
 * round of all layers. A layer's time advances only with its own steps: when a prompt uses all
 * experts, an earlier layer's don't lose against a later one's, and frequently used ones stay. */
#ifndef MNEM_SRC_MODEL_WEIGHTS_EXPERT_CACHE_H
#define MNEM_SRC_MODEL_WEIGHTS_EXPERT_CACHE_H

#include "mnem/base.h"

typedef struct mnem__expert_slot {
    int32_t mixture, number; /* of the expert; mixture -1: empty */
    uint32_t released;       /* its time, counted in releases */
    bool kept;               /* must not be evicted */
} mnem__expert_slot;

typedef struct mnem__expert_cache {
    int32_t mixtures, experts, slots;
    mnem__expert_slot *slot; /* [slots] */
    int32_t *place;          /* [mixtures][experts] slot, or -1 */
    float *score;            /* [mixtures][experts] */
    uint32_t releases;
} mnem__expert_cache;

/* Lays the tables out from base (NULL: only measures); returns the bytes. */
uint64_t mnem__expert_cache_lay_out(mnem__expert_cache *cache, int32_t mixtures, int32_t experts,
                                    int32_t slots, void *base);
/* Makes it empty, with nothing used yet. */
void mnem__expert_cache_init(mnem__expert_cache *cache);

/* Counts a step of a mixture that uses these experts, each once. */
void mnem__expert_cache_use(mnem__expert_cache *cache, int32_t mixture, const int32_t *numbers,
                            int32_t count);
/* The slot of an expert; -1: none. */
static inline int32_t mnem__expert_cache_find(const mnem__expert_cache *cache, int32_t mixture,
                                              int32_t number) {
    return cache->place[(int64_t)mixture * cache->experts + number];
}
/* Gives the expert the slot that is evicted, and keeps it; -1: all slots are kept. */
int32_t mnem__expert_cache_take(mnem__expert_cache *cache, int32_t mixture, int32_t number);
/* Empties a slot whose expert is gone or was never read. */
void mnem__expert_cache_drop(mnem__expert_cache *cache, int32_t slot);
/* Allows the slot to be evicted. */
void mnem__expert_cache_release(mnem__expert_cache *cache, int32_t slot);

#endif
