/* spaces_prove.c: what no way of spreading bodies over spaces can cost less than, and the search of
 * all ways where they are few.
 *
 * Idea of the bound: every moment of a limited space gets a price for a byte. A body then costs
 * what its space does and the prices of what it covers, and may go where that is least; the sum of
 * those, less the prices of all capacities, is at most the cost of any placement, for prices of 0
 * and more. Prices rise where the cheapest ways overfill a moment (subgradients: Held and Karp,
 * 1971; steps as of Polyak, 1969).
 *
 * Idea of the search: bodies in the order of what their space matters; each space in turn, the
 * cheapest first, cut off by sums, by the bound with and without prices, and by sets that were
 * proved not to fit one space: a set that holds one of these doesn't either.
 *
 * Invariant: prices are finite and not negative, so every bound holds.
 * Cost: of the bound, some hundred times bodies x spaces + moments; of the search, exponential. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "place/spaces/spaces.h"

enum { STEPS = 300, STEPS_LEAST = 32, STALLED_MAX = 15, BODIES_MAX = 64, NOGOODS_MAX = 4096 };

/* ---- the bound ---- */

typedef struct pricing {
    double *price, *sums; /* [spaces][cliques], [spaces][cliques + 1]: of prices before */
    double *best_price;
    double *over; /* [spaces][cliques]: how far the cheapest ways overfill a moment */
} pricing;

static void add_sums(const mnem__spaces *x, const pricing *p) {
    const size_t n = (size_t)x->cliques.count;
    for (size_t s = 0; s < x->count; s++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++) {
            p->sums[s * (n + 1) + t] = sum;
            sum += p->price[s * n + t];
        }
        p->sums[s * (n + 1) + n] = sum;
    }
}

/* What a body costs in a space with the prices of what it covers. */
static double priced(const mnem__spaces *x, const pricing *p, uint32_t body, uint32_t space) {
    double cost = (double)mnem__spaces_cost(x, body, space);
    const int32_t at = x->movers[body].item;
    if (at < 0 || x->spaces[space].capacity_bytes == 0) return cost;
    const mnem__item *item = &x->cliques.items[at];
    const double *sums = p->sums + (size_t)space * ((size_t)x->cliques.count + 1);
    for (int32_t i = 0; i < mnem__spans_of(item); i++) {
        const mnem__span span = mnem__span_get(&x->cliques, item, i);
        cost += (sums[span.to] - sums[span.from]) * (double)item->bytes;
    }
    return cost;
}

static bool may_hold(const mnem__spaces *x, uint32_t body, uint32_t space) {
    const uint64_t capacity = x->spaces[space].capacity_bytes;
    return (x->movers[body].allowed >> space & 1) &&
           (capacity == 0 || (uint64_t)x->b.bodies[body].bytes <= capacity);
}

/* The cheapest space of a body at the prices; MNEM__NOWHERE where none can hold it. */
static uint32_t cheapest(const mnem__spaces *x, const pricing *p, uint32_t body, double *cost) {
    uint32_t best = MNEM__NOWHERE;
    *cost = INFINITY;
    for (uint32_t s = 0; s < x->count; s++) {
        if (!may_hold(x, body, s)) continue;
        const double c = priced(x, p, body, s);
        if (c < *cost) best = s, *cost = c;
    }
    return best;
}

static void add_over(const mnem__spaces *x, const pricing *p, uint32_t body, uint32_t space) {
    const int32_t at = x->movers[body].item;
    if (at < 0) return;
    const mnem__item *item = &x->cliques.items[at];
    double *over = p->over + (size_t)space * (size_t)x->cliques.count;
    for (int32_t i = 0; i < mnem__spans_of(item); i++) {
        const mnem__span span = mnem__span_get(&x->cliques, item, i);
        for (int32_t t = span.from; t < span.to; t++) over[t] += (double)item->bytes;
    }
}

/* The bound at the prices, less what rounding could add; fills over. INFINITY: nothing fits. */
static double relax(const mnem__spaces *x, const pricing *p) {
    const size_t n = (size_t)x->cliques.count;
    double sum = 0, size = 0;
    add_sums(x, p);
    for (size_t s = 0; s < x->count; s++) {
        const double capacity = (double)x->spaces[s].capacity_bytes;
        for (size_t t = 0; t < n; t++) p->over[s * n + t] = -capacity;
        if (capacity == 0) continue;
        sum -= capacity * p->sums[s * (n + 1) + n];
        size += capacity * p->sums[s * (n + 1) + n];
    }
    for (uint32_t i = 0; i < x->b.count; i++) {
        double cost;
        const uint32_t space = cheapest(x, p, i, &cost);
        if (space == MNEM__NOWHERE) return INFINITY;
        sum += cost;
        size += cost;
        add_over(x, p, i, space);
    }
    return sum - 1e-9 * size;
}

/* A step along what is overfilled, of Polyak's length. False where the prices are the best. */
static bool step(const mnem__spaces *x, const pricing *p, double length) {
    const size_t n = (size_t)x->cliques.count;
    double square = 0;
    for (size_t s = 0; s < x->count; s++)
        for (size_t t = 0; t < n && x->spaces[s].capacity_bytes; t++) {
            const double over = p->over[s * n + t];
            if (over > 0 || p->price[s * n + t] > 0) square += over * over;
        }
    if (!(square > 0)) return false;
    for (size_t s = 0; s < x->count; s++)
        for (size_t t = 0; t < n && x->spaces[s].capacity_bytes; t++) {
            double *price = &p->price[s * n + t];
            *price = fmax(0, *price + length / square * p->over[s * n + t]);
        }
    return true;
}

/* The most that a placement can cost. */
static double dearest(const mnem__spaces *x) {
    double sum = 0;
    for (uint32_t i = 0; i < x->b.count; i++) {
        double most = 0;
        for (uint32_t s = 0; s < x->count; s++)
            if (may_hold(x, i, s)) most = fmax(most, (double)mnem__spaces_cost(x, i, s));
        sum += most;
    }
    return sum;
}

static void rise(mnem__spaces *x, const pricing *p) {
    const size_t cells = (size_t)x->cliques.count * x->count;
    const double most = dearest(x);
    const double target = x->best.over ? 1.01 * most + 1 : (double)x->best.cost;
    double best = -INFINITY, eagerness = 1;
    int stalled = 0;
    for (int i = 0; i < STEPS && (i < STEPS_LEAST || !x->limits.reached); i++) {
        const double bound = relax(x, p);
        if (bound > best) {
            best = bound;
            stalled = 0;
            memcpy(p->best_price, p->price, cells * sizeof *p->price);
        } else if (++stalled == STALLED_MAX) {
            eagerness /= 2;
            stalled = 0;
        }
        if (best > most * (1 + 1e-9) + 1) { /* nothing costs so much: nothing fits */
            x->proved = x->best.over > 0;
            break;
        }
        if (!x->best.over && ceil(best) >= (double)x->best.cost) break;
        if (!step(x, p, eagerness * (target - bound))) break;
        if (i % 16 == 15) mnem__search_limits_check(&x->limits, x->b.count);
    }
    const double bound = fmin(ceil(fmax(0, best)), most);
    if (bound > (double)x->bound) x->bound = (uint64_t)bound;
    if (!x->best.over && x->bound > x->best.cost) x->bound = x->best.cost;
    memcpy(p->price, p->best_price, cells * sizeof *p->price);
    add_sums(x, p);
}

static bool pricing_make(mnem__spaces *x, pricing *p) {
    const size_t cells = (size_t)x->cliques.count * x->count;
    p->price = mnem__calloc("plan", 4 * cells + x->count + 1, sizeof *p->price);
    if (!p->price) {
        x->status = mnem__heap_status();
        x->limits.reached = true;
        return false;
    }
    p->best_price = p->price + cells;
    p->over = p->best_price + cells;
    p->sums = p->over + cells;
    return true;
}

/* What the cheapest space saves, for the price of what is covered there. */
static void set_worth(mnem__spaces *x, const pricing *p, uint32_t body) {
    uint32_t best = MNEM__NOWHERE;
    uint64_t most = 0;
    for (uint32_t k = 0; k < x->count; k++) {
        const uint32_t space = x->cheapest[k];
        if (!may_hold(x, body, space)) continue;
        if (best == MNEM__NOWHERE) best = space;
        most = mnem__spaces_cost(x, body, space);
    }
    if (best == MNEM__NOWHERE) return;
    const double cost = (double)mnem__spaces_cost(x, body, best);
    const double covered = priced(x, p, body, best) - cost;
    x->movers[body].worth = ((double)most - cost) / (covered + 1e-6 * (double)most + 1e-9);
}

void mnem__spaces_bound(mnem__spaces *x) {
    pricing p;
    if (x->status != MNEM_OK || !pricing_make(x, &p)) return;
    rise(x, &p);
    for (uint32_t i = 0; i < x->b.count; i++) set_worth(x, &p, i);
    mnem__free(p.price);
}

/* ---- every way ---- */

typedef struct nogood { /* bodies that can't be in one space together */
    uint64_t bodies;
    uint32_t space;
} nogood;

typedef struct spreading {
    mnem__spaces *x;
    pricing p;
    uint32_t order[BODIES_MAX];
    double weight[BODIES_MAX];
    uint64_t rest_cost[BODIES_MAX + 1]; /* of the bodies from here on, each where it is cheapest */
    double rest_priced[BODIES_MAX + 1]; /* the same with prices */
    double prices;                      /* of all capacities */
    uint64_t in[MNEM_PLACE_SPACES_MAX]; /* bodies of each space */
    nogood *nogoods;
    uint32_t nogood_count;
    uint64_t nodes, nodes_max;
    bool open; /* something was left out */
} spreading;

static bool is_nogood(const spreading *s, uint32_t space) {
    for (uint32_t i = 0; i < s->nogood_count; i++)
        if (s->nogoods[i].space == space && !(s->nogoods[i].bodies & ~s->in[space])) return true;
    return false;
}

/* Do the bodies of a space fit? Where nothing limits it, the first offsets do. */
static bool fits(spreading *s, uint32_t space) {
    mnem__spaces *x = s->x;
    const bool limited = x->spaces[space].capacity_bytes > 0;
    const uint64_t steps = limited ? 1000 + 64 * s->nodes_max : 1;
    const mnem__packed packed = mnem__spaces_try_pack(x, space, steps);
    if (packed == MNEM__PACKED) return true;
    if (packed == MNEM__PACKED_UNKNOWN)
        s->open = true;
    else if (s->nogood_count < NOGOODS_MAX)
        s->nogoods[s->nogood_count++] = (nogood){s->in[space], space};
    return false;
}

/* Every body has a space. */
static void try_whole(spreading *s) {
    for (int limited = 1; limited >= 0; limited--)
        for (uint32_t space = 0; space < s->x->count; space++)
            if ((s->x->spaces[space].capacity_bytes > 0) == limited && !fits(s, space)) return;
    mnem__spaces_keep(s->x);
}

/* Can the bodies from depth on be added for less than the best? */
static bool is_promising(const spreading *s, uint32_t depth, double priced_so_far) {
    const mnem__spaces *x = s->x;
    if (x->best.over) return true;
    if (x->score.cost + s->rest_cost[depth] >= x->best.cost) return false;
    const double sum = priced_so_far + s->rest_priced[depth] - s->prices;
    const double size = priced_so_far + s->rest_priced[depth] + s->prices;
    return ceil(sum - 1e-9 * size) < (double)x->best.cost;
}

static void spread(spreading *s, uint32_t depth, double priced_so_far) {
    mnem__spaces *x = s->x;
    if (!is_promising(s, depth, priced_so_far)) return;
    if (++s->nodes > s->nodes_max || mnem__search_limits_check(&x->limits, 1)) {
        s->open = true;
        return;
    }
    if (depth == x->b.count) {
        try_whole(s);
        return;
    }
    const uint32_t body = s->order[depth];
    for (uint32_t k = 0; k < x->count; k++) {
        const uint32_t space = x->cheapest[k];
        const bool fixed = x->b.bodies[body].fixed; /* is there already */
        if (!may_hold(x, body, space)) continue;
        if (!fixed && !mnem__spaces_has_room(x, body, space)) continue;
        s->in[space] |= UINT64_C(1) << body;
        if (!is_nogood(s, space)) {
            if (!fixed) mnem__spaces_put(x, body, space);
            spread(s, depth + 1, priced_so_far + priced(x, &s->p, body, space));
            if (!fixed) mnem__spaces_take(x, body);
        }
        s->in[space] &= ~(UINT64_C(1) << body);
    }
}

static bool heavier(const void *context, uint32_t a, uint32_t b) {
    const double *weight = context;
    return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
}

/* Those whose space matters most first. Costs of what is fixed count from the start. */
static void order_bodies(spreading *s) {
    mnem__spaces *x = s->x;
    const uint32_t n = x->b.count;
    for (uint32_t i = 0; i < n; i++) {
        const mnem__body *body = &x->b.bodies[i];
        const double moments = (double)body->upper - (double)body->lower;
        s->weight[i] = (x->movers[i].density * moments + 1e-9) * (double)body->bytes;
        s->order[i] = i;
    }
    mnem__sort(s->order, n, heavier, s->weight);
    s->rest_cost[n] = 0;
    s->rest_priced[n] = 0;
    for (uint32_t i = n; i-- > 0;) {
        const uint32_t body = s->order[i];
        double least;
        uint64_t cost = UINT64_MAX;
        cheapest(x, &s->p, body, &least);
        for (uint32_t space = 0; space < x->count; space++)
            if (may_hold(x, body, space) && mnem__spaces_cost(x, body, space) < cost)
                cost = mnem__spaces_cost(x, body, space);
        if (cost == UINT64_MAX || x->b.bodies[body].fixed) cost = 0;
        s->rest_cost[i] = s->rest_cost[i + 1] + cost;
        s->rest_priced[i] = s->rest_priced[i + 1] + least;
    }
    for (uint32_t space = 0; space < x->count; space++)
        if (x->spaces[space].capacity_bytes)
            s->prices += (double)x->spaces[space].capacity_bytes *
                         s->p.sums[(space + 1) * ((size_t)x->cliques.count + 1) - 1];
}

static void take_nogoods(mnem__spaces *x, spreading *s) {
    s->nogoods = mnem__calloc("plan", NOGOODS_MAX, sizeof *s->nogoods);
    if (s->nogoods) return;
    x->status = mnem__heap_status();
    x->limits.reached = true;
}

void mnem__spaces_prove(mnem__spaces *x, uint64_t nodes_max) {
    if (x->b.count > BODIES_MAX) return;
    spreading s = {.x = x, .nodes_max = nodes_max};
    if (!pricing_make(x, &s.p)) return;
    rise(x, &s.p);
    take_nogoods(x, &s);
    if (s.nogoods && !x->proved) {
        order_bodies(&s);
        mnem__spaces_clear(x);
        spread(&s, 0, 0);
        x->proved = !s.open && !x->limits.reached;
        x->nodes += s.nodes;
    }
    mnem__free(s.nogoods);
    mnem__free(s.p.price);
}
