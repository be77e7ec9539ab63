/* solve.c: the best placement that can be found in the time, and what is known about it.
 *
 * Idea: first some placements in one go over the skyline (skyline_greedy.c), each with another
 * order; what sticks out goes earlier in the next (Joslin & Clements, "Squeaky wheel optimization",
 * 1999). That suffices for most graphs. Then many short dives of the exact search (skyline_dive.c),
 * each with another rule and order, because a dive either succeeds almost at once or is lost in an
 * early mistake (Gomes & Selman, "Heavy-tailed phenomena", 2000). Orders are random mixtures of
 * size, life and the blame that items earned in failed dives; now and then a dive may fail as often
 * as all before it together, so that infeasible capacities are proved in the end, at twice the cost
 * of doing nothing else. Parts of time that nothing crosses are solved apart. Without a capacity,
 * capacities between the bound and the best so far are tried in turn, with growing effort: a lower
 * one is sometimes the easier. The same ends a search for a capacity that wasn't met, so that what
 * is left over it isn't greedy's.
 *
 * Invariant: the buffers' offsets are always the best valid placement so far.
 * Cost: time up to the limit; 150 bytes per buffer for the placements in one go, and
 * (3 items + 64)^2 / 16 bytes for dives, which are for up to EXACT_MAX buffers. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "place/exact/skyline_dive.h"
#include "place/exact/solve.h"
#include "place/greedy/skyline_greedy.h"

enum { EXACT_MAX = 4096, GREEDY_MAX = 20000, MEMBERS_MAX = 1 << 22, LONG_DIVE_EVERY = 16 };
enum { SMALL_MAX = 16, SMALL_FAILURES = 1000 }; /* so few items: no short dives */

typedef struct solver {
    mnem_place_buffer *buffers;
    size_t n;
    mnem_place_result *result;
    mnem__cliques cliques;
    mnem__skyline *skyline;
    double *priority;  /* [items] */
    uint64_t capacity; /* 0: none */
    uint64_t random, seed;
    mnem__search_limits *limits;
} solver;

/* ---- one capacity ---- */

/* A random mixture of size, life and blame, in the items of cliques [from, to). */
static void mix_priorities(solver *s, int32_t from, int32_t to, uint64_t attempt) {
    static const double blame_weights[] = {0, 1, 1.0 / 3};
    double *blame = mnem__skyline_blame(s->skyline), most = 0;
    const double by_size = attempt == 0 ? 1 : mnem__search_uniform(&s->random),
                 by_life = attempt == 1 ? 1 : mnem__search_uniform(&s->random);
    const double by_blame = blame_weights[attempt % 3];
    const int32_t first = s->cliques.starts[from], end = s->cliques.starts[to];
    for (int32_t i = first; i < end; i++) most = fmax(most, blame[i]);
    for (int32_t i = first; i < end; i++) {
        const mnem__item *item = &s->cliques.items[i];
        const mnem_place_buffer *b = &s->buffers[item->source];
        const double life = (double)((uint64_t)b->upper - (uint64_t)b->lower);
        s->priority[i] = by_size * log((double)item->bytes) + by_life / 2 * log(life) +
                         0.5 * mnem__search_uniform(&s->random);
        if (most > 0) s->priority[i] += by_blame * log(1 + 20 * blame[i] / most);
        blame[i] *= 0.9;
    }
}

/* Dives into one part until one ends with an answer, tries are used up, or it is late. */
static mnem__dive_end fit_part(solver *s, int64_t capacity, int32_t from, int32_t to,
                               uint64_t tries) {
    static const mnem__valley_rule rules[] = {MNEM__VALLEY_FEWEST, MNEM__VALLEY_FEWEST,
                                              MNEM__VALLEY_NEAREST, MNEM__VALLEY_LOWEST};
    const uint64_t items = (uint64_t)(s->cliques.starts[to] - s->cliques.starts[from]);
    mnem__dive dive = {
        .capacity = capacity, .from = from, .to = to, .priority = s->priority, .limits = s->limits};
    const uint64_t usual = items <= SMALL_MAX ? SMALL_FAILURES : items / 2 + 20; /* failures */
    uint64_t spent = 0;
    for (uint64_t attempt = 0; attempt < tries; attempt++) {
        const bool is_long = items <= SMALL_MAX || attempt % LONG_DIVE_EVERY == LONG_DIVE_EVERY - 1;
        dive.rule = rules[attempt % (sizeof rules / sizeof *rules)];
        dive.failures_max = is_long ? spent + usual : usual;
        spent += dive.failures_max;
        mix_priorities(s, from, to, attempt);
        dive.nodes = 0;
        const mnem__dive_end end = mnem__skyline_dive(s->skyline, &dive);
        s->result->nodes += dive.nodes;
        if (end != MNEM__DIVE_LIMIT) return end;
        if (mnem__search_limits_check(s->limits, dive.nodes)) break;
    }
    return MNEM__DIVE_LIMIT;
}

/* Where the part that begins at from ends: nothing lives on both sides. */
static int32_t part_end(const mnem__cliques *s, int32_t from) {
    int32_t end = from + 1;
    for (int32_t i = s->starts[from]; i < s->starts[end]; i++)
        if (s->items[i].end > end) end = s->items[i].end;
    return end;
}

static mnem__dive_end fit(solver *s, int64_t capacity, uint64_t tries) {
    s->random = s->seed;
    for (int32_t from = 0, to; from < s->cliques.count; from = to) {
        to = part_end(&s->cliques, from);
        const mnem__dive_end end = fit_part(s, capacity, from, to, tries);
        if (end != MNEM__DIVE_FOUND) return end;
    }
    return MNEM__DIVE_FOUND;
}

/* Takes offsets[items] over when they are better. */
static void keep(solver *s, const int64_t *offsets) {
    uint64_t peak = 0;
    for (int32_t i = 0; i < s->cliques.item_count; i++) {
        const uint64_t top = (uint64_t)(offsets[i] + s->cliques.items[i].bytes);
        if (top > peak) peak = top;
    }
    if (peak >= s->result->peak_bytes) return;
    s->result->peak_bytes = peak;
    for (int32_t i = 0; i < s->cliques.item_count; i++)
        s->buffers[s->cliques.items[i].source].offset = (uint64_t)offsets[i];
}

/* ---- all capacities ---- */

static mnem_status try_capacity(solver *s, uint64_t capacity, uint64_t tries) {
    switch (fit(s, (int64_t)capacity, tries)) {
    case MNEM__DIVE_FOUND: keep(s, mnem__skyline_offsets(s->skyline)); break;
    case MNEM__DIVE_EXHAUSTED: s->result->lower_bound_bytes = capacity + 1; break;
    case MNEM__DIVE_LIMIT: break;
    case MNEM__DIVE_NO_MEMORY: return mnem__heap_status();
    }
    return MNEM_OK;
}

static bool is_open(const solver *s, uint64_t capacity) {
    const mnem_place_result *r = s->result;
    return !s->limits->reached && r->lower_bound_bytes < r->peak_bytes &&
           r->lower_bound_bytes <= capacity && r->peak_bytes > capacity;
}

static bool is_enough(const solver *s) {
    const mnem_place_result *r = s->result;
    return r->peak_bytes <= r->lower_bound_bytes || (s->capacity && r->peak_bytes <= s->capacity);
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
    for (uint64_t tries = 8; is_open(s, 0) || !s->limits->reached; tries *= 2, s->seed += 2) {
        uint64_t last = 0; /* where few are left, steps meet */
        for (size_t i = 0; i < sizeof steps / sizeof *steps && status == MNEM_OK; i++) {
            const uint64_t low = s->result->lower_bound_bytes, peak = s->result->peak_bytes;
            if (s->limits->reached || low >= peak || is_enough(s)) return MNEM_OK;
            const uint64_t capacity = low + (uint64_t)((double)(peak - 1 - low) * steps[i]);
            if (capacity != last) status = try_capacity(s, capacity, tries);
            last = capacity;
        }
        if (status != MNEM_OK) return status;
    }
    return status;
}

/* ---- in one go ---- */

/* How much size, life in time and life in cliques count, before chance is mixed in. */
static const double plain_orders[][3] = {{0, 1, 0}, {1e-3, 0, 1}, {1, 0, 1},
                                         {1, 0, 0}, {1, 1, 0},    {1, 0.5, 0}};
enum { STALLED_MAX = 3, PLAIN_ORDERS = sizeof plain_orders / sizeof *plain_orders };

static void plain_priorities(solver *s, const double *weights, double chance) {
    for (int32_t i = 0; i < s->cliques.item_count; i++) {
        const mnem__item *item = &s->cliques.items[i];
        const mnem_place_buffer *b = &s->buffers[item->source];
        s->priority[i] = weights[0] * log((double)item->bytes) +
                         weights[1] * log((double)((uint64_t)b->upper - (uint64_t)b->lower)) +
                         weights[2] * log((double)(item->end - item->first));
        if (chance > 0) s->priority[i] += chance * mnem__search_uniform(&s->random);
    }
}

static bool lower_priority(const void *context, uint32_t a, uint32_t b) {
    const double *priority = context;
    return priority[a] != priority[b] ? priority[a] < priority[b] : a < b;
}

typedef struct passes {
    mnem__skyline_greedy *valley;
    int64_t *offsets; /* [items] */
    double *blame;    /* [items] */
    uint32_t *order, *rank;
} passes;

/* One placement, by priority and blame. */
static void pass(solver *s, passes *p) {
    const int32_t n = s->cliques.item_count;
    for (int32_t i = 0; i < n; i++) s->priority[i] += p->blame[i];
    for (int32_t i = 0; i < n; i++) p->order[i] = (uint32_t)i;
    mnem__sort(p->order, (size_t)n, lower_priority, s->priority);
    for (int32_t i = 0; i < n; i++) p->rank[p->order[i]] = (uint32_t)i;
    if (mnem__skyline_greedy_place(p->valley, p->rank, p->offsets) < INT64_MAX) keep(s, p->offsets);
    mnem__search_limits_check(s->limits, (uint64_t)n);
}

/* What sticks out over the bound goes earlier next time. Returns how many do. */
static int32_t blame_what_sticks_out(solver *s, const passes *p) {
    const double blame = 1 + mnem__search_uniform(&s->random);
    int32_t count = 0;
    for (int32_t i = 0; i < s->cliques.item_count; i++) {
        if (p->offsets[i] + s->cliques.items[i].bytes <= s->cliques.bound) continue;
        p->blame[i] += blame;
        count++;
    }
    return count;
}

/* One order, and then again with blame while fewer stick out. */
static void place_with_blame(solver *s, passes *p, const double *weights, double chance) {
    const uint64_t random = s->random;
    memset(p->blame, 0, (size_t)s->cliques.item_count * sizeof *p->blame);
    int32_t least = INT32_MAX;
    for (int stalled = 0; stalled < STALLED_MAX; stalled++) {
        s->random = random; /* the same chances again */
        plain_priorities(s, weights, chance);
        pass(s, p);
        if (is_enough(s) || s->limits->reached || s->n <= EXACT_MAX) return;
        const int32_t count = blame_what_sticks_out(s, p);
        if (count < least) stalled = 0;
        if (count < least) least = count;
    }
}

/* Every plain order, then mixtures: a few for small instances, as many as the time allows for
 * those that are too large for dives. */
static void place_in_one_go(solver *s, passes *p) {
    for (uint32_t go = 0; !is_enough(s) && (go == 0 || !s->limits->reached); go++) {
        if (go >= PLAIN_ORDERS && s->n <= EXACT_MAX) return;
        const double mixed[3] = {mnem__search_uniform(&s->random), mnem__search_uniform(&s->random),
                                 mnem__search_uniform(&s->random)};
        if (go < PLAIN_ORDERS)
            place_with_blame(s, p, plain_orders[go], 0);
        else
            place_with_blame(s, p, mixed, 0.3);
    }
}

static mnem_status go_once(solver *s) {
    const size_t n = (size_t)s->cliques.item_count;
    passes p = {0};
    p.offsets = mnem__calloc("plan", n, 2 * sizeof *p.offsets + 2 * sizeof *p.order);
    mnem_status status =
        p.offsets ? mnem__skyline_greedy_create(&s->cliques, &p.valley) : mnem__heap_status();
    p.blame = (double *)(p.offsets + n);
    p.order = (uint32_t *)(p.blame + n);
    p.rank = p.order + n;
    if (status == MNEM_OK) place_in_one_go(s, &p);
    mnem__skyline_greedy_destroy(p.valley);
    mnem__free(p.offsets);
    return status;
}

/* ---- all together ---- */

static void judge(mnem_place_result *r, uint64_t capacity) {
    if (r->peak_bytes <= r->lower_bound_bytes) r->verdict = MNEM_PLACE_OPTIMAL;
    if (capacity && r->lower_bound_bytes > capacity) r->verdict = MNEM_PLACE_INFEASIBLE;
}

static mnem_status meet_for_most_of_the_time(solver *s) {
    mnem__search_limits *all = s->limits, part = mnem__search_limits_share(all, 0.8);
    s->limits = &part;
    const mnem_status status = meet(s, s->capacity);
    s->limits = all;
    all->steps = part.steps;
    mnem__search_limits_check(all, 0);
    return status;
}

static mnem_status dive(solver *s) {
    mnem_status status = mnem__skyline_create(&s->cliques, &s->skyline);
    if (status != MNEM_OK) return status;
    if (s->capacity) status = meet_for_most_of_the_time(s);
    judge(s->result, s->capacity);
    if (status == MNEM_OK && s->result->verdict == MNEM_PLACE_FEASIBLE && !is_enough(s))
        status = minimise(s);
    mnem__skyline_destroy(s->skyline);
    return status;
}

/* Greedy by size where it is quick enough, and as a start for the rest. */
static mnem_status start(solver *s) {
    mnem_place_result *r = s->result;
    mnem_status status = go_once(s);
    if (status != MNEM_OK || is_enough(s) || s->n > GREEDY_MAX) return status;
    int64_t *offsets = mnem__calloc("plan", s->n, sizeof *offsets);
    if (!offsets) return mnem__heap_status();
    mnem_place_result greedy;
    for (size_t i = 0; i < s->n; i++) offsets[i] = (int64_t)s->buffers[i].offset;
    status = mnem_place_greedy(s->buffers, s->n, &greedy);
    if (status == MNEM_OK && greedy.peak_bytes < r->peak_bytes)
        r->peak_bytes = greedy.peak_bytes;
    else
        for (size_t i = 0; i < s->n; i++) s->buffers[i].offset = (uint64_t)offsets[i];
    mnem__free(offsets);
    return status;
}

/* A dive adds offsets, sizes and capacities: a few of them must fit a number. */
static bool sums_fit(const mnem_place_result *r) {
    return r->total_bytes <= INT64_MAX / 4 && r->peak_bytes <= INT64_MAX / 4;
}

static mnem_status solve(solver *s, const mnem__task *task) {
    const size_t n = (size_t)s->cliques.item_count;
    for (size_t i = 0; i < s->n; i++) s->buffers[i].offset = 0;
    s->result->lower_bound_bytes = (uint64_t)s->cliques.bound;
    s->result->peak_bytes = n == 0 ? 0 : task->lives ? task->peak_known : UINT64_MAX;
    judge(s->result, s->capacity); /* nothing to place: the best there is */
    if (n == 0) return MNEM_OK;
    s->priority = mnem__calloc("plan", n, sizeof *s->priority);
    mnem_status status = s->priority ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK && !task->lives) status = start(s);
    judge(s->result, s->capacity);
    if (status == MNEM_OK && s->result->verdict == MNEM_PLACE_FEASIBLE && !is_enough(s) &&
        n <= EXACT_MAX && s->cliques.members && sums_fit(s->result))
        status = dive(s);
    judge(s->result, s->capacity);
    mnem__free(s->priority);
    return status;
}

mnem_status mnem__solve(const mnem__task *task, mnem__search_limits *limits,
                        mnem_place_result *result) {
    mnem_status status = mnem__place_check(task->buffers, task->n, result);
    if (status == MNEM_OK && task->n == 0) result->verdict = MNEM_PLACE_OPTIMAL;
    if (status != MNEM_OK || task->n == 0) return status;
    solver s = {.buffers = task->buffers,
                .n = task->n,
                .result = result,
                .capacity = task->capacity,
                .limits = limits};
    s.seed = s.random = mnem__search_random(task->seed);
    status = mnem__cliques_create(task->buffers, task->lives, task->n,
                                  task->n <= EXACT_MAX ? MEMBERS_MAX : 0, &s.cliques);
    if (status == MNEM_OK) status = solve(&s, task);
    mnem__cliques_destroy(&s.cliques);
    return status;
}

mnem_status mnem_place_solve(mnem_place_buffer *buffers, size_t n,
                             const mnem_place_options *options, mnem_place_result *result) {
    return mnem_place_solve_constrained(buffers, NULL, n, options, result);
}
