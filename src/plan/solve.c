/* solve.c: the best placement that can be found in the time, and what is known about it.
 *
 * Idea: many short dives of the exact search (skyline.c), each with another rule and another order
 * of candidates, because a dive either succeeds almost at once or is lost in an early mistake
 * (Gomes & Selman, "Heavy-tailed phenomena", 2000). Orders are random mixtures of size, life and
 * the blame that items earned in failed dives; now and then a dive is given more nodes, so that
 * infeasible capacities are proved in the end. Parts of time that nothing crosses are solved apart.
 * Without a capacity, capacities between the bound and the best so far are tried in turn, with
 * growing effort: a lower one is sometimes the easier.
 *
 * Invariant: the buffers' offsets are always the best valid placement so far; greedy comes first.
 * Cost: time up to the limit; about (3 items + 64)^2 / 16 bytes while it runs. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/thread.h"
#include "plan/skyline.h"

enum { EXACT_MAX = 4096, MEMBERS_MAX = 1 << 22, LONG_DIVE_EVERY = 16 };
static const double seconds_default = 1;

typedef struct solver {
    mnem_plan_buffer *buffers;
    size_t n;
    mnem_plan_result *result;
    mnem__sections sections;
    mnem__skyline *skyline;
    double *priority; /* [items] */
    uint64_t random, seed;
    double deadline;
    bool late; /* the deadline passed */
} solver;

static double uniform(solver *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (double)(s->random >> 11) * 0x1p-53;
}

/* ---- one capacity ---- */

/* A random mixture of size, life and blame, in the items of sections [from, to). */
static void mix_priorities(solver *s, int32_t from, int32_t to, uint64_t attempt) {
    static const double blame_weights[] = {0, 1, 1.0 / 3};
    double *blame = mnem__skyline_blame(s->skyline), most = 0;
    const double by_size = attempt == 0 ? 1 : uniform(s), by_life = attempt == 1 ? 1 : uniform(s);
    const double by_blame = blame_weights[attempt % 3];
    const int32_t first = s->sections.starts[from], end = s->sections.starts[to];
    for (int32_t i = first; i < end; i++) most = fmax(most, blame[i]);
    for (int32_t i = first; i < end; i++) {
        const mnem__item *item = &s->sections.items[i];
        const mnem_plan_buffer *b = &s->buffers[item->source];
        const double life = (double)((uint64_t)b->upper - (uint64_t)b->lower);
        s->priority[i] =
            by_size * log((double)item->bytes) + by_life / 2 * log(life) + 0.8 * uniform(s);
        if (most > 0) s->priority[i] += by_blame * log(1 + 20 * blame[i] / most);
        blame[i] *= 0.9;
    }
}

/* Dives into one part until one ends with an answer, tries are used up, or it is late. */
static mnem__dive_end fit_part(solver *s, int64_t capacity, int32_t from, int32_t to,
                               uint64_t tries) {
    static const mnem__valley_rule rules[] = {MNEM__VALLEY_FEWEST, MNEM__VALLEY_NEAREST,
                                              MNEM__VALLEY_FEWEST, MNEM__VALLEY_LOWEST};
    const uint64_t items = (uint64_t)(s->sections.starts[to] - s->sections.starts[from]);
    mnem__dive dive = {.capacity = capacity, .from = from, .to = to, .priority = s->priority};
    for (uint64_t attempt = 0; attempt < tries; attempt++) {
        const bool is_long = attempt % LONG_DIVE_EVERY == LONG_DIVE_EVERY - 1;
        dive.rule = rules[attempt % (sizeof rules / sizeof *rules)];
        dive.nodes_max = (items * 3 / 2 + 20) * (is_long ? attempt : 1);
        mix_priorities(s, from, to, attempt);
        dive.nodes = 0;
        const mnem__dive_end end = mnem__skyline_dive(s->skyline, &dive);
        s->result->nodes += dive.nodes;
        if (end != MNEM__DIVE_LIMIT) return end;
        if (mnem__seconds() > s->deadline) {
            s->late = true;
            break;
        }
    }
    return MNEM__DIVE_LIMIT;
}

/* Where the part that begins at from ends: nothing lives on both sides. */
static int32_t part_end(const mnem__sections *s, int32_t from) {
    int32_t end = from + 1;
    for (int32_t i = s->starts[from]; i < s->starts[end]; i++)
        if (s->items[i].end > end) end = s->items[i].end;
    return end;
}

static mnem__dive_end fit(solver *s, int64_t capacity, uint64_t tries) {
    s->random = s->seed;
    for (int32_t from = 0, to; from < s->sections.count; from = to) {
        to = part_end(&s->sections, from);
        const mnem__dive_end end = fit_part(s, capacity, from, to, tries);
        if (end != MNEM__DIVE_FOUND) return end;
    }
    return MNEM__DIVE_FOUND;
}

static void keep(solver *s) {
    const int64_t *offsets = mnem__skyline_offsets(s->skyline);
    uint64_t peak = 0;
    for (int32_t i = 0; i < s->sections.item_count; i++) {
        mnem_plan_buffer *b = &s->buffers[s->sections.items[i].source];
        b->offset = (uint64_t)offsets[i];
        if (b->offset + b->bytes > peak) peak = b->offset + b->bytes;
    }
    s->result->peak_bytes = peak;
}

/* ---- all capacities ---- */

static mnem_status try_capacity(solver *s, uint64_t capacity, uint64_t tries) {
    switch (fit(s, (int64_t)capacity, tries)) {
    case MNEM__DIVE_FOUND: keep(s); break;
    case MNEM__DIVE_EXHAUSTED: s->result->lower_bound_bytes = capacity + 1; break;
    case MNEM__DIVE_LIMIT: break;
    case MNEM__DIVE_NO_MEMORY: return mnem__heap_status();
    }
    return MNEM_OK;
}

static bool is_open(const solver *s, uint64_t capacity) {
    const mnem_plan_result *r = s->result;
    return !s->late && r->lower_bound_bytes < r->peak_bytes && r->lower_bound_bytes <= capacity &&
           r->peak_bytes > capacity;
}

/* A capacity is asked for: dives until it is met, proved impossible, or late. */
static mnem_status meet(solver *s, uint64_t capacity) {
    mnem_status status = MNEM_OK;
    for (uint64_t tries = 64; status == MNEM_OK && is_open(s, capacity); tries *= 4, s->seed += 2)
        status = try_capacity(s, capacity, tries);
    return status;
}

/* As low as the time allows. */
static mnem_status minimise(solver *s) {
    static const double steps[] = {0, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1};
    mnem_status status = MNEM_OK;
    for (uint64_t tries = 8; is_open(s, 0) || !s->late; tries *= 2, s->seed += 2) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps && status == MNEM_OK; i++) {
            const uint64_t low = s->result->lower_bound_bytes, peak = s->result->peak_bytes;
            if (s->late || low >= peak) return MNEM_OK;
            status = try_capacity(s, low + (uint64_t)((double)(peak - 1 - low) * steps[i]), tries);
        }
        if (status != MNEM_OK) return status;
    }
    return status;
}

static void judge(mnem_plan_result *r, uint64_t capacity) {
    if (r->peak_bytes <= r->lower_bound_bytes) r->verdict = MNEM_PLAN_OPTIMAL;
    if (capacity && r->lower_bound_bytes > capacity) r->verdict = MNEM_PLAN_INFEASIBLE;
}

static mnem_status search(solver *s, uint64_t capacity) {
    mnem_status status = mnem__skyline_create(&s->sections, &s->skyline);
    if (status != MNEM_OK) return status;
    s->priority = mnem__calloc("plan", (size_t)s->sections.item_count, sizeof *s->priority);
    status = s->priority ? (capacity ? meet(s, capacity) : minimise(s)) : mnem__heap_status();
    mnem__free(s->priority);
    mnem__skyline_destroy(s->skyline);
    return status;
}

mnem_status mnem_plan_solve(mnem_plan_buffer *buffers, size_t n, const mnem_plan_options *options,
                            mnem_plan_result *result) {
    static const mnem_plan_options defaults;
    if (!options) options = &defaults;
    if (!(options->seconds >= 0) || options->capacity_bytes > INT64_MAX)
        return mnem__fail(MNEM_INVALID, "plan: %g seconds, capacity of %llu bytes",
                          options->seconds, (unsigned long long)options->capacity_bytes);
    const double begin = mnem__seconds();
    mnem_status status = mnem_plan_place(buffers, n, result);
    if (status != MNEM_OK) return status;
    judge(result, options->capacity_bytes);
    const bool enough = result->verdict != MNEM_PLAN_FEASIBLE ||
                        (options->capacity_bytes && result->peak_bytes <= options->capacity_bytes);
    if (enough || n > EXACT_MAX || result->total_bytes > INT64_MAX / 2) return MNEM_OK;
    solver s = {.buffers = buffers, .n = n, .result = result};
    s.seed = s.random = (options->seed * 2 + 1) * UINT64_C(0x9e3779b97f4a7c15);
    s.deadline = begin + (options->seconds > 0 ? options->seconds : seconds_default);
    status = mnem__sections_create(buffers, n, MEMBERS_MAX, &s.sections);
    if (status == MNEM_UNSUPPORTED) return MNEM_OK;
    if (status != MNEM_OK) return status;
    status = search(&s, options->capacity_bytes);
    judge(result, options->capacity_bytes);
    mnem__sections_destroy(&s.sections);
    return status;
}
