/* spaces_greedy.c: several spaces filled in one go, and made better by hand.
 *
 * Idea: bodies by value density, each at the lowest offset in the cheapest space that has one.
 * Then, again and again: a body that isn't where it is cheapest and some that live with it are
 * taken out and put back in another order ("ruin and recreate", Schrimpf et al. 2000); what isn't
 * worse stays. Where the sums would leave room for a body but no offset is free, the space is
 * packed anew.
 *
 * Invariant: bodies with a space have offsets that agree, within its capacity.
 * Cost: of a round, O(bodies) for each body that is put back, and now and then a packing. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "place/spaces/spaces.h"

enum { OUT_MAX = 12, PACK_EVERY = 4, GREEDY_PASSES = 8 };

typedef struct saved { /* how it was, for bodies of spaces that are packed anew */
    uint32_t *space_of;
    int64_t *offset;
    double *priority;
    uint32_t *order;
} saved;

/* A free offset in space, within its capacity; false: there is none. */
static bool find_offset(mnem__spaces *x, uint32_t body, uint32_t space) {
    mnem__body *b = &x->b.bodies[body];
    const uint64_t capacity = x->spaces[space].capacity_bytes;
    x->space_of[body] = space;
    b->offset = mnem__bodies_lowest(&x->b, b, x->space_of, &x->ranges);
    x->limits.reached = x->limits.reached || x->ranges.no_memory;
    return capacity == 0 || b->offset + b->bytes <= (int64_t)capacity;
}

/* To the cheapest space where there is an offset. With dirty, sums suffice; the spaces without an
 * offset are added to it. */
static void settle(mnem__spaces *x, uint32_t body, uint32_t *dirty) {
    for (uint32_t k = 0; k < x->count; k++) {
        const uint32_t space = x->cheapest[k];
        if (!(x->movers[body].allowed >> space & 1)) continue;
        if (!mnem__spaces_has_room(x, body, space)) continue;
        const bool packed = dirty && (*dirty >> space & 1);
        if (!packed && !find_offset(x, body, space)) {
            if (!dirty) continue;
            *dirty |= 1u << space;
        }
        mnem__spaces_put(x, body, space);
        return;
    }
    mnem__spaces_put(x, body, MNEM__NOWHERE);
}

/* ---- in one go ---- */

static bool higher(const void *context, uint32_t a, uint32_t b) {
    const double *priority = context;
    return priority[a] != priority[b] ? priority[a] > priority[b] : a < b;
}

static void place_in_order(mnem__spaces *x, const saved *s) {
    mnem__spaces_clear(x);
    for (uint32_t i = 0; i < x->b.count; i++) s->order[i] = i;
    mnem__sort(s->order, x->b.count, higher, s->priority);
    for (uint32_t i = 0; i < x->b.count; i++)
        if (!x->b.bodies[s->order[i]].fixed) settle(x, s->order[i], NULL);
    mnem__search_limits_check(&x->limits, x->b.count);
    mnem__spaces_keep(x);
}

/* By density; then, as long as something has no space, that goes first. */
static void place_by_density(mnem__spaces *x, const saved *s) {
    for (uint32_t i = 0; i < x->b.count; i++) s->priority[i] = x->movers[i].density;
    for (int pass = 0; pass < GREEDY_PASSES; pass++) {
        place_in_order(x, s);
        if (x->score.over == 0 || x->limits.reached) return;
        for (uint32_t i = 0; i < x->b.count; i++)
            if (x->space_of[i] == MNEM__NOWHERE) s->priority[i] = 2 * fabs(s->priority[i]) + 1;
    }
}

static void place_by_worth(mnem__spaces *x, const saved *s) {
    for (uint32_t i = 0; i < x->b.count; i++) s->priority[i] = x->movers[i].worth;
    place_in_order(x, s);
}

/* The largest first, and the largest savings first. */
static void place_by_size(mnem__spaces *x, const saved *s) {
    for (int by_saving = 0; by_saving < 2 && !x->limits.reached; by_saving++) {
        for (uint32_t i = 0; i < x->b.count; i++) {
            const double bytes = (double)x->b.bodies[i].bytes;
            s->priority[i] = by_saving ? x->movers[i].density * bytes : bytes;
        }
        place_in_order(x, s);
    }
}

/* ---- by hand ---- */

static bool is_unhappy(const mnem__spaces *x, uint32_t body) {
    if (x->b.bodies[body].fixed) return false;
    if (x->space_of[body] == MNEM__NOWHERE) return true;
    const uint64_t cost = x->spaces[x->space_of[body]].cost;
    for (uint32_t s = 0; s < x->count; s++)
        if ((x->movers[body].allowed >> s & 1) && x->spaces[s].cost < cost) return true;
    return false;
}

static uint32_t draw(mnem__spaces *x, uint32_t below) {
    return (uint32_t)(mnem__search_uniform(&x->random) * below);
}

/* An unhappy one and some that live with it. Returns how many; 0: all are happy. */
static uint32_t choose(mnem__spaces *x, uint32_t out[OUT_MAX]) {
    uint32_t count = 0, centre = draw(x, x->b.count);
    for (uint32_t i = 0; i < x->b.count && !is_unhappy(x, centre); i++)
        centre = (centre + 1) % x->b.count;
    if (!is_unhappy(x, centre)) return 0;
    out[count++] = centre;
    const uint32_t most = 2 + draw(x, OUT_MAX - 1);
    const mnem__body *c = &x->b.bodies[centre];
    for (uint32_t tries = 0; tries < 8 * OUT_MAX && count < most; tries++) {
        const uint32_t i = draw(x, x->b.count);
        const mnem__body *b = &x->b.bodies[i];
        bool there = b->fixed || b->lower >= c->upper || c->lower >= b->upper;
        for (uint32_t k = 0; k < count; k++) there = there || out[k] == i;
        if (!there) out[count++] = i;
    }
    return count;
}

/* By noisy worth or density; often what was unhappy first. */
static void shuffle(mnem__spaces *x, uint32_t *out, uint32_t count) {
    double key[OUT_MAX];
    const bool centre_first = mnem__search_uniform(&x->random) < 0.7;
    const bool by_worth = mnem__search_uniform(&x->random) < 0.5;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t body = out[i];
        const mnem__mover *m = &x->movers[body];
        const double value = by_worth ? m->worth : m->density;
        double mine = log(1e-300 + value) + 2 * mnem__search_uniform(&x->random);
        if (i == 0 && centre_first) mine = INFINITY;
        uint32_t at = i;
        for (; at > 0 && key[at - 1] < mine; at--) {
            key[at] = key[at - 1];
            out[at] = out[at - 1];
        }
        key[at] = mine;
        out[at] = body;
    }
}

static void remember(const mnem__spaces *x, const saved *s) {
    memcpy(s->space_of, x->space_of, x->b.count * sizeof *s->space_of);
    for (uint32_t i = 0; i < x->b.count; i++) s->offset[i] = x->b.bodies[i].offset;
}

static void go_back(mnem__spaces *x, const saved *s, const uint32_t *out, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) mnem__spaces_take(x, out[i]);
    for (uint32_t i = 0; i < x->b.count; i++) x->b.bodies[i].offset = s->offset[i];
    for (uint32_t i = 0; i < count; i++) mnem__spaces_put(x, out[i], s->space_of[out[i]]);
}

static bool pack_all(mnem__spaces *x, uint32_t dirty) {
    for (uint32_t space = 0; space < x->count; space++)
        if ((dirty >> space & 1) &&
            mnem__spaces_try_pack(x, space, 40 * (uint64_t)x->b.count + 1000) != MNEM__PACKED)
            return false;
    return true;
}

/* One round; false: there is nothing to do. */
static bool ruin_and_recreate(mnem__spaces *x, const saved *s, bool pack) {
    uint32_t out[OUT_MAX], dirty = 0;
    const uint32_t count = choose(x, out);
    if (count == 0) return false;
    const mnem__score before = x->score;
    remember(x, s);
    for (uint32_t i = 0; i < count; i++) mnem__spaces_take(x, out[i]);
    shuffle(x, out, count);
    for (uint32_t i = 0; i < count; i++) settle(x, out[i], pack ? &dirty : NULL);
    mnem__search_limits_check(&x->limits, count);
    const bool good = dirty ? mnem__spaces_less(x->score, before) && pack_all(x, dirty)
                            : !mnem__spaces_less(before, x->score);
    if (!good)
        go_back(x, s, out, count);
    else
        mnem__spaces_keep(x);
    return true;
}

/* ---- memory ---- */

static bool make(mnem__spaces *x, saved *s) {
    const size_t n = x->b.count;
    s->offset = mnem__calloc("plan", n,
                             sizeof *s->offset + sizeof *s->priority + sizeof *s->space_of +
                                 sizeof *s->order);
    if (!s->offset) {
        x->status = mnem__heap_status();
        x->limits.reached = true;
        return false;
    }
    s->priority = (double *)(s->offset + n);
    s->space_of = (uint32_t *)(s->priority + n);
    s->order = s->space_of + n;
    return true;
}

void mnem__spaces_greedy(mnem__spaces *x) {
    saved s;
    if (!make(x, &s)) return;
    place_by_density(x, &s);
    mnem__free(s.offset);
}

void mnem__spaces_greedy_again(mnem__spaces *x) {
    saved s;
    if (x->limits.reached || !make(x, &s)) return;
    place_by_worth(x, &s);
    place_by_size(x, &s);
    mnem__free(s.offset);
}

void mnem__spaces_improve(mnem__spaces *x, uint64_t rounds) {
    saved s;
    if (x->limits.reached || !make(x, &s)) return;
    mnem__spaces_clear(x);
    for (uint32_t i = 0; i < x->b.count; i++) {
        if (x->b.bodies[i].fixed) continue;
        x->b.bodies[i].offset = x->best_offset[i];
        mnem__spaces_put(x, i, x->best_space_of[i]);
    }
    for (uint64_t round = 0; round < rounds && !x->limits.reached; round++) {
        if (!ruin_and_recreate(x, &s, round % PACK_EVERY == PACK_EVERY - 1)) break;
        if (x->best.over == 0 && x->best.cost <= x->bound) break;
    }
    mnem__free(s.offset);
}
