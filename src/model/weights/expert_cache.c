/* expert_cache.c: the tables of experts in memory.
 *
 * Invariant: place and slot say the same of each other.
 * Cost: a use is a pass over one mixture's scores; making room one over all slots. */
#include "model/weights/expert_cache.h"

#include "base/checked.h"

/* A step's worth after another one of its layer. Replayed routing says: 0.9 to 0.98 are within a
 * hundredth of the best, where memory holds a tenth to a half of the experts. */
static const float worth_kept = 0.95f;

uint64_t mnem__expert_cache_lay_out(mnem__expert_cache *c, int32_t mixtures, int32_t experts,
                                    int32_t slots, void *base) {
    const uint64_t all = (uint64_t)mixtures * (uint64_t)experts;
    const uint64_t place = mnem__align_up((uint64_t)slots * sizeof *c->slot, 16);
    const uint64_t score = mnem__align_up(place + all * sizeof *c->place, 16);
    if (base) {
        *c = (mnem__expert_cache){.mixtures = mixtures, .experts = experts, .slots = slots};
        c->slot = base;
        c->place = (void *)((uint8_t *)base + place);
        c->score = (void *)((uint8_t *)base + score);
    }
    return mnem__align_up(score + all * sizeof *c->score, 16);
}

void mnem__expert_cache_init(mnem__expert_cache *c) {
    for (int32_t i = 0; i < c->slots; i++) c->slot[i] = (mnem__expert_slot){.mixture = -1};
    for (int64_t i = 0; i < (int64_t)c->mixtures * c->experts; i++) {
        c->place[i] = -1;
        c->score[i] = 0;
    }
    c->releases = 0;
}

void mnem__expert_cache_use(mnem__expert_cache *c, int32_t mixture, const int32_t *numbers,
                            int32_t count) {
    float *score = c->score + (int64_t)mixture * c->experts;
    for (int32_t i = 0; i < c->experts; i++) score[i] *= worth_kept;
    for (int32_t i = 0; i < count; i++) score[numbers[i]] += 1;
}

static int64_t expert_of(const mnem__expert_cache *c, const mnem__expert_slot *slot) {
    return (int64_t)slot->mixture * c->experts + slot->number;
}

/* a makes room rather than b. */
static bool is_worth_less(const mnem__expert_cache *c, const mnem__expert_slot *a,
                          const mnem__expert_slot *b) {
    const float of_a = a->mixture < 0 ? -1 : c->score[expert_of(c, a)];
    const float of_b = b->mixture < 0 ? -1 : c->score[expert_of(c, b)];
    if (of_a != of_b) return of_a < of_b;
    return a->released > b->released;
}

int32_t mnem__expert_cache_take(mnem__expert_cache *c, int32_t mixture, int32_t number) {
    int32_t best = -1;
    for (int32_t i = 0; i < c->slots; i++) {
        if (c->slot[i].kept) continue;
        if (best < 0 || is_worth_less(c, &c->slot[i], &c->slot[best])) best = i;
    }
    if (best < 0) return -1;
    mnem__expert_cache_drop(c, best);
    c->slot[best] = (mnem__expert_slot){.mixture = mixture, .number = number, .kept = true};
    c->place[expert_of(c, &c->slot[best])] = best;
    return best;
}

void mnem__expert_cache_drop(mnem__expert_cache *c, int32_t slot) {
    if (c->slot[slot].mixture >= 0) c->place[expert_of(c, &c->slot[slot])] = -1;
    c->slot[slot] = (mnem__expert_slot){.mixture = -1};
}

void mnem__expert_cache_release(mnem__expert_cache *c, int32_t slot) {
    c->slot[slot].kept = false;
    c->slot[slot].released = ++c->releases;
}
