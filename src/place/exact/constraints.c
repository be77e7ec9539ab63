/* constraints.c: placements of buffers with gaps, fixed offsets, hints, names and in-place pairs.
 *
 * Idea: three ways, and the best of all is kept.
 * 1. Bodies (rigid_bodies.c) one after the other, each at the lowest offset that is free among
 *    those placed before, or over its partner's. Orders: by hint, size, life, area; then random
 *    mixtures in which what stuck out goes earlier ("squeaky wheel", as in solve.c).
 * 2. Every order, where there are few bodies. Some order is optimal as long as bodies have neither
 *    windows nor partners: taken by their offsets in an optimal placement, none goes higher.
 * 3. The dives of mnem_place_solve, which know lives with gaps: each body as one item; and each
 *    group of partners as one, where the group's members may all lie over each other. A window
 *    counts as all bytes there; without windows, partners and fixed offsets dives are exact.
 *
 * Invariant: a body that is placed agrees with all that were placed before.
 * Cost: O(bodies x pieces) a pass; 48 bytes for a piece and 130 for a body, at most. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/sort.h"
#include "place/exact/rigid_bodies.h"
#include "place/exact/solve.h"

enum { EVERY_ORDER_MAX = 8 };

typedef struct constrained {
    mnem_place_buffer *buffers;
    const mnem_place_constraint *constraints;
    size_t n;
    mnem__bodies b;
    mnem_place_result *result;
    uint64_t capacity;
    /* Bodies are as high as their buffers whenever they live, and free to go anywhere: the dives
     * know them whole. */
    bool rigid;
    int64_t *best; /* [bodies]: offsets of the best so far */
    double *priority, *blame;
    uint32_t *order;
    mnem__ranges ranges;
    uint64_t random;
    mnem__search_limits *limits;
} constrained;

static bool is_enough(const constrained *w) {
    const mnem_place_result *r = w->result;
    return r->peak_bytes <= r->lower_bound_bytes || (w->capacity && r->peak_bytes <= w->capacity);
}

/* ---- one body ---- */

static bool agrees(const constrained *w, const mnem__body *body) {
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *other = &w->b.bodies[i];
        if (other != body && other->placed && !mnem__bodies_agree(&w->b, body, other)) return false;
    }
    return true;
}

/* May body have this offset among those that are placed? Leaves it there if so. */
static bool try_offset(const constrained *w, mnem__body *body, int64_t offset) {
    const int64_t old = body->offset;
    if (offset % body->alignment) return false;
    body->offset = offset;
    if (agrees(w, body)) return true;
    body->offset = old;
    return false;
}

/* Over a partner, lower than where it is otherwise. */
static bool try_partners(const constrained *w, mnem__body *body) {
    const int32_t self = (int32_t)(body - w->b.bodies);
    bool found = false;
    for (int32_t i = 0; i < (int32_t)w->b.count; i++) {
        const mnem__body *other = &w->b.bodies[i];
        if (!other->placed || other == body) continue;
        if (body->partner != i && other->partner != self) continue;
        if (other->offset < body->offset) found = try_offset(w, body, other->offset) || found;
    }
    return found;
}

static void place_body(constrained *w, mnem__body *body, bool use_hint) {
    if (!body->fixed && !(use_hint && body->hint >= 0 && try_offset(w, body, body->hint))) {
        body->offset = mnem__bodies_lowest(&w->b, body, NULL, &w->ranges);
        try_partners(w, body);
    }
    body->placed = true;
}

/* ---- passes ---- */

static int64_t peak_of(const constrained *w) {
    int64_t peak = 0;
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *body = &w->b.bodies[i];
        if (body->offset > MNEM__BODY_FAR) return INT64_MAX;
        if (body->offset + body->bytes > peak) peak = body->offset + body->bytes;
    }
    return peak;
}

static void keep(constrained *w) {
    const int64_t peak = peak_of(w);
    if (peak == INT64_MAX || (uint64_t)peak >= w->result->peak_bytes) return;
    w->result->peak_bytes = (uint64_t)peak;
    for (uint32_t i = 0; i < w->b.count; i++) w->best[i] = w->b.bodies[i].offset;
}

static void clear(constrained *w) {
    for (uint32_t i = 0; i < w->b.count; i++) w->b.bodies[i].placed = w->b.bodies[i].fixed;
}

static bool higher_priority(const void *context, uint32_t a, uint32_t b) {
    const double *priority = context;
    return priority[a] != priority[b] ? priority[a] > priority[b] : a < b;
}

/* The first placement is made whatever the limits. */
static bool is_cut_short(const constrained *w) {
    return w->limits->reached && w->result->peak_bytes < UINT64_MAX;
}

static void pass(constrained *w, bool use_hints) {
    clear(w);
    for (uint32_t i = 0; i < w->b.count; i++) w->order[i] = i;
    mnem__sort(w->order, w->b.count, higher_priority, w->priority);
    for (uint32_t i = 0; i < w->b.count && !w->ranges.no_memory && !is_cut_short(w); i++) {
        place_body(w, &w->b.bodies[w->order[i]], use_hints);
        if (i % 64 == 63) mnem__search_limits_check(w->limits, 64);
    }
    if (!w->ranges.no_memory && !is_cut_short(w)) keep(w);
    mnem__search_limits_check(w->limits, w->b.count % 64);
}

static void set_priorities(constrained *w, double by_size, double by_life, double chance) {
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *body = &w->b.bodies[i];
        w->priority[i] = by_size * log(1 + (double)body->bytes) +
                         by_life * log((double)((uint64_t)body->upper - (uint64_t)body->lower)) +
                         w->blame[i];
        if (chance > 0) w->priority[i] += chance * mnem__search_uniform(&w->random);
    }
}

static void blame_what_sticks_out(constrained *w) {
    const int64_t enough = (int64_t)w->result->lower_bound_bytes;
    const double more = mnem__search_uniform(&w->random);
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *body = &w->b.bodies[i];
        w->blame[i] *= 0.9;
        if (body->offset + body->bytes > enough) w->blame[i] += more;
    }
}

/* Those with hints first, the lowest hint first. */
static void follow_hints(constrained *w) {
    bool any = false;
    set_priorities(w, 1, 0, 0);
    for (uint32_t i = 0; i < w->b.count; i++) {
        const int64_t hint = w->b.bodies[i].hint;
        if (hint < 0) continue;
        any = true;
        w->priority[i] = 1e30 - (double)hint * 1e10;
    }
    if (any) pass(w, true);
}

/* Passes until enough, late, or tries are used up. */
static void passes(constrained *w, uint64_t tries) {
    static const double plain[][2] = {{1, 0}, {0, 1}, {1, 1}, {1, 0.5}};
    enum { PLAIN = sizeof plain / sizeof *plain };
    follow_hints(w);
    for (uint64_t t = 0; t < tries && !is_enough(w) && !is_cut_short(w) && !w->ranges.no_memory;
         t++) {
        if (t < PLAIN)
            set_priorities(w, plain[t][0], plain[t][1], 0);
        else
            set_priorities(w, mnem__search_uniform(&w->random), mnem__search_uniform(&w->random),
                           1);
        pass(w, false);
        blame_what_sticks_out(w);
    }
}

/* ---- every order ---- */

static void every_order(constrained *w, int64_t peak) {
    bool whole = true;
    if (w->limits->reached || (uint64_t)peak >= w->result->peak_bytes || is_enough(w)) return;
    for (uint32_t i = 0; i < w->b.count && !w->ranges.no_memory; i++) {
        mnem__body *body = &w->b.bodies[i];
        if (body->placed) continue;
        whole = false;
        for (int over = 0; over < 2; over++) {
            body->offset = over ? INT64_MAX : mnem__bodies_lowest(&w->b, body, NULL, &w->ranges);
            if (over && !try_partners(w, body)) continue;
            const int64_t top = body->offset + body->bytes;
            body->placed = true;
            every_order(w, top > peak ? top : peak);
            body->placed = false;
        }
    }
    if (whole) keep(w);
    mnem__search_limits_check(w->limits, 1);
}

static void prove(constrained *w) {
    if (w->b.count > EVERY_ORDER_MAX || is_enough(w) || w->rigid) return;
    clear(w);
    int64_t peak = 0;
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *body = &w->b.bodies[i];
        if (body->fixed && body->offset + body->bytes > peak) peak = body->offset + body->bytes;
    }
    every_order(w, peak);
    for (uint32_t i = 0; i < w->b.count; i++)
        if (w->b.bodies[i].partner >= 0 || w->b.windows) return;
    if (!w->limits->reached && !w->ranges.no_memory && !is_enough(w))
        w->result->lower_bound_bytes = w->result->peak_bytes;
}

/* ---- dives ---- */

/* Bodies to groups of partners: all of a group at one offset. False where that isn't allowed or
 * nothing has a partner. group: [bodies]. */
static bool group_partners(constrained *w, uint32_t *group) {
    bool any = false;
    for (uint32_t i = 0; i < w->b.count; i++) group[i] = i;
    for (uint32_t i = 0; i < w->b.count; i++) {
        uint32_t a = i, b = (uint32_t)w->b.bodies[i].partner;
        if (w->b.bodies[i].partner < 0) continue;
        any = true;
        while (group[a] != a) a = group[a];
        while (group[b] != b) b = group[b];
        group[a > b ? a : b] = a > b ? b : a;
    }
    for (uint32_t i = 0; i < w->b.count; i++) {
        group[i] = group[group[i]];
        w->b.bodies[i].offset = 0;
    }
    for (uint32_t i = 0; i < w->b.count && any; i++)
        for (uint32_t j = 0; j < i; j++)
            if (group[i] == group[j] &&
                !mnem__bodies_agree(&w->b, &w->b.bodies[i], &w->b.bodies[j]))
                return false;
    return any;
}

typedef struct lives { /* of groups of bodies */
    mnem_place_buffer *hull;
    mnem__life *pieces;
    uint32_t *begin;
} lives;

/* Adds a piece to those from first on: in order, and those that meet are one. */
static uint32_t add_life(mnem__life *pieces, uint32_t first, uint32_t end, mnem__life life) {
    uint32_t at = end;
    for (; at > first && pieces[at - 1].lower > life.lower; at--) pieces[at] = pieces[at - 1];
    pieces[at] = life;
    uint32_t count = first;
    for (uint32_t i = first + 1; i <= end; i++) {
        if (pieces[i].lower > pieces[count].upper)
            pieces[++count] = pieces[i];
        else if (pieces[i].upper > pieces[count].upper)
            pieces[count].upper = pieces[i].upper;
    }
    return count + 1;
}

/* When the bodies of each group live, and how much they take then. */
static void gather_lives(const constrained *w, const uint32_t *group, lives *l) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < w->b.count; i++) {
        l->begin[i] = end;
        l->hull[i] = (mnem_place_buffer){.lower = 0, .upper = 1, .alignment = 1};
        for (uint32_t j = i; j < w->b.count && group[i] == i; j++) {
            const mnem__body *body = &w->b.bodies[j];
            if (group[j] != i) continue;
            mnem_place_buffer *h = &l->hull[i];
            for (uint32_t p = body->first; p < body->end; p++) {
                const mnem__piece *piece = &w->b.pieces[p];
                end =
                    add_life(l->pieces, l->begin[i], end, (mnem__life){piece->lower, piece->upper});
            }
            if (j == i || body->lower < h->lower) h->lower = body->lower;
            if (j == i || body->upper > h->upper) h->upper = body->upper;
            if ((uint64_t)body->bytes > h->bytes) h->bytes = (uint64_t)body->bytes;
            if ((uint64_t)body->alignment > h->alignment) h->alignment = (uint64_t)body->alignment;
        }
        if (end == l->begin[i]) l->hull[i].bytes = 0;
    }
    l->begin[w->b.count] = end;
}

/* Dives for groups of bodies at one offset each, for a share of the time. Windows count as lives.
 * */
static mnem_status dive_for_groups(constrained *w, const uint32_t *group, double share) {
    const size_t n = w->b.count;
    lives l = {.hull = mnem__calloc("plan", n, sizeof *l.hull),
               .pieces = mnem__calloc("plan", w->b.piece_count + 1, sizeof *l.pieces),
               .begin = mnem__calloc("plan", n + 1, sizeof *l.begin)};
    mnem_status status = l.hull && l.pieces && l.begin ? MNEM_OK : mnem__heap_status();
    mnem_place_result r = {0};
    if (status == MNEM_OK) {
        gather_lives(w, group, &l);
        const mnem__lives known = {l.pieces, l.begin};
        const mnem__task task = {l.hull, n, w->capacity, w->random, &known, w->result->peak_bytes};
        mnem__search_limits limits = mnem__search_limits_share(w->limits, share);
        status = mnem__solve(&task, &limits, &r);
        w->limits->steps = limits.steps;
        mnem__search_limits_check(w->limits, 0);
    }
    if (status == MNEM_OK) {
        w->result->nodes += r.nodes;
        for (uint32_t i = 0; i < n; i++) w->b.bodies[i].offset = (int64_t)l.hull[group[i]].offset;
        if (r.peak_bytes < w->result->peak_bytes) keep(w);
        if (w->rigid && r.lower_bound_bytes > w->result->lower_bound_bytes)
            w->result->lower_bound_bytes = r.lower_bound_bytes;
    }
    mnem__free(l.hull);
    mnem__free(l.pieces);
    mnem__free(l.begin);
    return status;
}

static bool any_fixed(const constrained *w) {
    for (uint32_t i = 0; i < w->b.count; i++)
        if (w->b.bodies[i].fixed) return true;
    return false;
}

/* Is every piece as high as its body, and nothing fixed or in place? */
static bool are_rigid(const constrained *w) {
    for (uint32_t i = 0; i < w->b.count; i++) {
        const mnem__body *body = &w->b.bodies[i];
        if (body->fixed || body->partner >= 0) return false;
        for (uint32_t p = body->first; p < body->end; p++)
            if (w->b.pieces[p].bottom > 0 || w->b.pieces[p].top < body->bytes) return false;
    }
    return true;
}

/* A part of the time with partners in groups, and one with each body alone. */
static mnem_status dive(constrained *w) {
    mnem_status status = MNEM_OK;
    if (any_fixed(w)) return MNEM_OK;
    if (group_partners(w, w->order)) status = dive_for_groups(w, w->order, 1.0 / 3);
    for (uint32_t i = 0; i < w->b.count; i++) w->order[i] = i;
    if (status == MNEM_OK && !is_enough(w))
        status = dive_for_groups(w, w->order, w->rigid ? 0.9 : 0.5);
    return status;
}

/* ---- all together ---- */

static mnem_status search(constrained *w) {
    w->result->lower_bound_bytes = (uint64_t)mnem__bodies_bound(&w->b);
    w->result->peak_bytes = UINT64_MAX;
    w->rigid = are_rigid(w);
    passes(w, 32);
    prove(w);
    mnem_status status = MNEM_OK;
    if (!is_enough(w) && !w->limits->reached && !w->ranges.no_memory) status = dive(w);
    if (status == MNEM_OK) passes(w, UINT64_MAX);
    if (status == MNEM_OK && w->ranges.no_memory) status = mnem__heap_status();
    if (status != MNEM_OK) return status;
    mnem_place_result *r = w->result;
    if (r->peak_bytes == UINT64_MAX)
        return mnem__fail(MNEM_INVALID,
                          "place: the offsets of %zu buffers overflow 64 bits; use fewer or "
                          "smaller buffers",
                          w->n);
    for (size_t i = 0; i < w->n; i++) w->buffers[i].offset = (uint64_t)w->best[w->b.body_of[i]];
    if (r->peak_bytes <= r->lower_bound_bytes) r->verdict = MNEM_PLACE_OPTIMAL;
    if (w->capacity && r->lower_bound_bytes > w->capacity) r->verdict = MNEM_PLACE_INFEASIBLE;
    return MNEM_OK;
}

static mnem_status solve(constrained *w) {
    const size_t n = w->b.count;
    w->best = mnem__calloc("plan", n, 3 * sizeof *w->best + sizeof *w->order);
    if (!w->best) return mnem__heap_status();
    w->priority = (double *)(w->best + n);
    w->blame = w->priority + n;
    w->order = (uint32_t *)(w->blame + n);
    const mnem_status status = search(w);
    mnem__free(w->best);
    mnem__ranges_free(&w->ranges);
    return status;
}

static bool any_constraint(const mnem_place_constraint *constraints, size_t n) {
    for (size_t i = 0; constraints && i < n; i++) {
        const mnem_place_constraint *w = &constraints[i];
        if (w->gap_count || w->fixed || w->hinted || w->in_place || w->same_as) return true;
    }
    return false;
}

mnem_status mnem__solve_constrained(const mnem__task *task,
                                    const mnem_place_constraint *constraints,
                                    mnem__search_limits *limits, mnem_place_result *result) {
    const size_t n = task->n;
    if (!any_constraint(constraints, n)) return mnem__solve(task, limits, result);
    mnem_status status = mnem__place_check(task->buffers, n, result);
    if (status == MNEM_OK && result->total_bytes > (uint64_t)MNEM__BODY_FAR)
        status = mnem__fail(
            MNEM_INVALID,
            "place: the sizes of %zu buffers add up to 2^60 or more; use fewer or smaller buffers",
            n);
    if (status != MNEM_OK) return status;
    constrained w = {.buffers = task->buffers,
                     .constraints = constraints,
                     .n = n,
                     .result = result,
                     .capacity = task->capacity,
                     .random = mnem__search_random(task->seed),
                     .limits = limits};
    status = mnem__bodies_create(task->buffers, constraints, n, &w.b);
    if (status != MNEM_OK) return status;
    status = mnem__bodies_check_fixed(&w.b, NULL);
    if (status == MNEM_OK) status = solve(&w);
    mnem__bodies_destroy(&w.b);
    return status;
}

mnem_status mnem_place_solve_constrained(mnem_place_buffer *buffers,
                                         const mnem_place_constraint *constraints, size_t n,
                                         const mnem_place_options *options,
                                         mnem_place_result *result) {
    static const mnem_place_options defaults;
    mnem__search_limits limits;
    if (!options) options = &defaults;
    MNEM__TRY(mnem__search_limits_start(options, &limits));
    const mnem__task task = {
        .buffers = buffers, .n = n, .capacity = options->capacity_bytes, .seed = options->seed};
    return mnem__solve_constrained(&task, constraints, &limits, result);
}
