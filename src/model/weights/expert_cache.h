/* expert_cache.h: which experts of which mixtures are in memory, and which one makes room.
 *
 * Numbers only: slots, scores, no bytes and no threads, so that recorded routing can be replayed
 * through it (bench_experts). An expert's score is the number of steps that used it, each worth
 * less by a constant factor for every step of its layer since: between the most recently and the
 * most often used (Lee et al. 2001, "LRFU"). The slot of the lowest score makes room; of equal ones
 * the one that was released last, since all are wanted again after a round of all layers.
 * A layer's time stands still while other layers run: when a prompt uses all experts, none is worth
 * less than another for having its turn earlier, and what is often used stays. */
#ifndef MNEM_SRC_MODEL_WEIGHTS_EXPERT_CACHE_H
#define MNEM_SRC_MODEL_WEIGHTS_EXPERT_CACHE_H

#include "mnem/base.h"

typedef struct mnem__expert_slot {
    int32_t mixture, number; /* whose; mixture -1: nobody's */
    uint32_t released;       /* when, in releases */
    bool kept;               /* must stay */
} mnem__expert_slot;

typedef struct mnem__expert_cache {
    int32_t mixtures, experts, slots;
    mnem__expert_slot *slot; /* [slots] */
    int32_t *place;          /* [mixtures][experts] slot, or -1 */
    float *score;            /* [mixtures][experts] */
    uint32_t releases;
} mnem__expert_cache;

/* Lays the tables out from base (NULL measures); returns the bytes. */
uint64_t mnem__expert_cache_lay_out(mnem__expert_cache *cache, int32_t mixtures, int32_t experts,
                                    int32_t slots, void *base);
/* Empty, nothing used yet. */
void mnem__expert_cache_init(mnem__expert_cache *cache);

/* A step of a mixture uses these experts, each once. */
void mnem__expert_cache_use(mnem__expert_cache *cache, int32_t mixture, const int32_t *numbers,
                            int32_t count);
/* The slot that an expert is in; -1. */
static inline int32_t mnem__expert_cache_find(const mnem__expert_cache *cache, int32_t mixture,
                                              int32_t number) {
    return cache->place[(int64_t)mixture * cache->experts + number];
}
/* Gives the expert the slot that makes room, which is kept from then on; -1: all are kept. */
int32_t mnem__expert_cache_take(mnem__expert_cache *cache, int32_t mixture, int32_t number);
/* The slot's expert isn't there any more, or never came. */
void mnem__expert_cache_drop(mnem__expert_cache *cache, int32_t slot);
/* The slot may make room. */
void mnem__expert_cache_release(mnem__expert_cache *cache, int32_t slot);

#endif
