/* spaces.c: buffers to several spaces, each with a capacity and a cost.
 *
 * Idea: two questions in turn. Which space does each buffer go to? Answered by sums alone: in each
 * space, what is alive at one time must not exceed the capacity (spaces_greedy.c, spaces_prove.c).
 * Do those of one space fit? Answered by the planner for one space (solve.c), whose packing nearly
 * always reaches the sums; where it doesn't, the answer cuts off that way of spreading them. This
 * is Benders' decomposition with a combinatorial sub-problem (Hooker and Ottosson, 2003).
 *
 *     fast  |aaa|bbbb|  |dd|          c would save the most for a byte and a moment, but then
 *     slow  |cccccccccccccc|          neither a nor b nor d fits: together they save more
 *
 * Invariant: the best so far is a valid placement; nothing in it is over a capacity but bodies
 * without a space.
 * Cost: bodies x spaces for a greedy pass, with n for each lowest offset; 16 bytes for each moment
 * of each space. */
#include "place/spaces/spaces.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"

/* ---- what is where ---- */

/* Costs were added up without overflow when the search began. */
uint64_t mnem__spaces_cost(const mnem__spaces *x, uint32_t body, uint32_t space) {
    return space == MNEM__NOWHERE ? 0 : x->movers[body].use * x->spaces[space].cost;
}

bool mnem__spaces_less(mnem__score a, mnem__score b) {
    return a.over != b.over ? a.over < b.over : a.cost < b.cost;
}

static void add_load(mnem__spaces *x, uint32_t body, uint32_t space, int64_t bytes) {
    const int32_t at = x->movers[body].item;
    if (at < 0 || space == MNEM__NOWHERE) return;
    const mnem__item *item = &x->cliques.items[at];
    int64_t *load = x->loads + (size_t)space * (size_t)x->cliques.count;
    for (int32_t i = 0; i < mnem__spans_of(item); i++) {
        const mnem__span p = mnem__span_get(&x->cliques, item, i);
        for (int32_t s = p.from; s < p.to; s++) load[s] += bytes;
    }
}

/* By sums: what is alive at each moment, with this body, isn't over the capacity. Necessary, and
 * nearly always enough; whether offsets exist is pack's question. */
bool mnem__spaces_has_room(const mnem__spaces *x, uint32_t body, uint32_t space) {
    const mnem__body *b = &x->b.bodies[body];
    const int32_t at = x->movers[body].item;
    if (x->spaces[space].capacity_bytes == 0) return true;
    const int64_t most = (int64_t)x->spaces[space].capacity_bytes - b->bytes;
    if (most < 0) return false;
    if (at < 0) return true;
    const mnem__item *item = &x->cliques.items[at];
    const int64_t *load = x->loads + (size_t)space * (size_t)x->cliques.count;
    for (int32_t i = 0; i < mnem__spans_of(item); i++) {
        const mnem__span p = mnem__span_get(&x->cliques, item, i);
        for (int32_t s = p.from; s < p.to; s++)
            if (load[s] > most) return false;
    }
    return true;
}

/* Put and take are each other's inverse, and keep score and loads as they go; a body is taken
 * before it is put elsewhere. NOWHERE is a space that all fit in, and that counts as over. */
void mnem__spaces_put(mnem__spaces *x, uint32_t body, uint32_t space) {
    mnem__body *b = &x->b.bodies[body];
    x->space_of[body] = space;
    b->placed = space != MNEM__NOWHERE;
    if (!b->placed) x->score.over += (uint64_t)b->bytes;
    x->score.cost += mnem__spaces_cost(x, body, space);
    add_load(x, body, space, b->bytes);
}

void mnem__spaces_take(mnem__spaces *x, uint32_t body) {
    mnem__body *b = &x->b.bodies[body];
    const uint32_t space = x->space_of[body];
    if (!b->placed) x->score.over -= (uint64_t)b->bytes;
    x->score.cost -= mnem__spaces_cost(x, body, space);
    add_load(x, body, space, -b->bytes);
    b->placed = false;
}

void mnem__spaces_clear(mnem__spaces *x) {
    const size_t cliques = (size_t)x->cliques.count;
    memset(x->loads, 0, cliques * x->count * sizeof *x->loads);
    x->score = (mnem__score){0};
    for (uint32_t i = 0; i < x->b.count; i++) {
        x->space_of[i] = MNEM__NOWHERE;
        x->b.bodies[i].placed = false;
        if (x->b.bodies[i].fixed)
            mnem__spaces_put(x, i, (uint32_t)__builtin_ctz(x->movers[i].allowed));
    }
}

void mnem__spaces_keep(mnem__spaces *x) {
    if (!mnem__spaces_less(x->score, x->best)) return;
    x->best = x->score;
    for (uint32_t i = 0; i < x->b.count; i++) {
        x->best_space_of[i] = x->space_of[i];
        x->best_offset[i] = x->b.bodies[i].offset;
    }
}

/* ---- offsets in one space ---- */

/* The buffers in space, with their constraints for each other. Those name buffers by index + 1, 0
 * being none, and are renumbered for the part; a body lies in one space whole, so same_as is always
 * there, while an in-place partner may be elsewhere and then is none. */
static size_t gather(mnem__spaces *x, uint32_t space) {
    size_t count = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const uint32_t body = x->b.body_of[i];
        x->part_index[i] = UINT32_MAX;
        if (!x->b.bodies[body].placed || x->space_of[body] != space) continue;
        x->part_index[i] = (uint32_t)count;
        x->part_of[count] = i;
        x->part[count] = x->buffers[i];
        x->part_wishes[count++] = x->constraints[i];
    }
    for (size_t i = 0; i < count; i++) {
        mnem_place_constraint *w = &x->part_wishes[i];
        if (w->same_as) w->same_as = x->part_index[w->same_as - 1] + 1;
        if (w->in_place) w->in_place = x->part_index[w->in_place - 1] + 1; /* elsewhere: 0 */
    }
    return count;
}

mnem__packed mnem__spaces_pack(mnem__spaces *x, uint32_t space, mnem__search_limits *limits) {
    mnem_place_result r;
    const size_t count = gather(x, space);
    const mnem__task task = {.buffers = x->part,
                             .n = count,
                             .capacity = x->spaces[space].capacity_bytes,
                             .seed = x->random};
    if (count == 0) return MNEM__PACKED;
    x->status = mnem__solve_constrained(&task, x->part_wishes, limits, &r);
    if (x->status != MNEM_OK) {
        x->limits.reached = true;
        return MNEM__PACKED_UNKNOWN;
    }
    x->nodes += r.nodes;
    if (r.verdict == MNEM_PLACE_INFEASIBLE) return MNEM__PACKED_NEVER;
    if (task.capacity && r.peak_bytes > task.capacity) return MNEM__PACKED_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        x->b.bodies[x->b.body_of[x->part_of[i]]].offset = (int64_t)x->part[i].offset;
    return MNEM__PACKED;
}

/* With so many steps at most, which are counted in the whole search's: one hard space doesn't eat
 * the time of all others. */
mnem__packed mnem__spaces_try_pack(mnem__spaces *x, uint32_t space, uint64_t steps) {
    mnem__search_limits limits = x->limits;
    if (limits.steps_max == 0 || limits.steps_max - limits.steps > steps)
        limits.steps_max = limits.steps + steps;
    const mnem__packed packed = mnem__spaces_pack(x, space, &limits);
    x->limits.steps = limits.steps;
    mnem__search_limits_check(&x->limits, 1);
    return packed;
}

/* ---- checks ---- */

/* Moves the uses of buffers to their bodies. */
static mnem_status make_movers(mnem__spaces *x, const mnem_place_use *uses) {
    const uint32_t all = (uint32_t)((UINT64_C(1) << x->count) - 1);
    for (uint32_t i = 0; i < x->b.count; i++)
        x->movers[i] = (mnem__mover){.allowed = all, .item = -1};
    uint64_t dearest = 0, sum = 0;
    for (uint32_t s = 0; s < x->count; s++)
        if (x->spaces[s].cost > dearest) dearest = x->spaces[s].cost;
    for (size_t i = 0; i < x->n; i++) {
        mnem__mover *m = &x->movers[x->b.body_of[i]];
        uint64_t use, cost;
        if (uses[i].allowed & ~all)
            return mnem__fail(MNEM_INVALID,
                              "place: the allowed spaces of buffer %zu are the bits %#x, but only "
                              "%u spaces are given",
                              i, uses[i].allowed, x->count);
        if (uses[i].allowed) m->allowed &= uses[i].allowed;
        if (!mnem__mul_u64(uses[i].accesses, x->buffers[i].bytes, &use) ||
            !mnem__mul_u64(use, dearest, &cost) || !mnem__add_u64(sum, cost, &sum) ||
            sum > INT64_MAX)
            return mnem__fail(MNEM_INVALID, "place: the costs of buffers 0 to %zu overflow 64 bits",
                              i);
        m->use += use;
        if (m->allowed == 0)
            return mnem__fail(MNEM_INVALID,
                              "place: buffer %zu and those that share its bytes have no allowed "
                              "memory space in common; allow one for all of them",
                              i);
        const mnem__body *b = &x->b.bodies[x->b.body_of[i]];
        if (x->constraints[i].fixed && (m->allowed & (m->allowed - 1)))
            return mnem__fail(MNEM_INVALID,
                              "place: buffer %zu is fixed, but has several spaces; allow one", i);
        const uint64_t capacity = x->spaces[__builtin_ctz(m->allowed)].capacity_bytes;
        if (x->constraints[i].fixed && capacity && (uint64_t)(b->offset + b->bytes) > capacity)
            return mnem__fail(MNEM_INVALID,
                              "place: buffer %zu is fixed at offset %lld and ends beyond the "
                              "capacity of its space, %llu bytes",
                              i, (long long)b->offset, (unsigned long long)capacity);
    }
    return MNEM_OK;
}

/* Fixed bodies can't be moved, so they are checked against each other before any search. */
static mnem_status check_fixed(mnem__spaces *x) {
    for (uint32_t i = 0; i < x->b.count; i++) {
        const uint32_t allowed = x->movers[i].allowed;
        if (x->b.bodies[i].fixed && (allowed & (allowed - 1)))
            return mnem__fail(
                MNEM_INVALID,
                "place: the buffer fixed at offset %lld has several allowed spaces; allow one",
                (long long)x->b.bodies[i].offset);
        x->space_of[i] = (uint32_t)__builtin_ctz(allowed);
    }
    return mnem__bodies_check_fixed(&x->b, x->space_of);
}

/* ---- preparing ---- */

/* Pieces in which all of a body is used; none where a partner may share it. The sums of what is
 * left never exceed what a placement takes. */
static void gather_lives(const mnem__spaces *x, mnem__life *pieces, uint32_t *begin,
                         mnem_place_buffer *hull) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < x->b.count; i++) {
        const mnem__body *body = &x->b.bodies[i];
        begin[i] = end;
        hull[i] = (mnem_place_buffer){.lower = body->lower,
                                      .upper = body->upper,
                                      .bytes = (uint64_t)body->bytes,
                                      .alignment = 1};
        for (uint32_t p = body->first; p < body->end && body->partner < 0; p++) {
            const mnem__piece *piece = &x->b.pieces[p];
            if (piece->top - piece->bottom < body->bytes) continue;
            /* Names of one buffer may live at the same time: once is enough. */
            const bool apart = end == begin[i] || pieces[end - 1].upper <= piece->lower;
            if (apart) pieces[end++] = (mnem__life){piece->lower, piece->upper};
        }
    }
    begin[x->b.count] = end;
}

static mnem_status make_sections(mnem__spaces *x) {
    mnem__life *pieces = mnem__calloc("plan", x->b.piece_count + 1, sizeof *pieces);
    uint32_t *begin = mnem__calloc("plan", x->b.count + 1, sizeof *begin);
    mnem_place_buffer *hull = mnem__calloc("plan", x->b.count, sizeof *hull);
    mnem_status status = pieces && begin && hull ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        gather_lives(x, pieces, begin, hull);
        const mnem__lives lives = {pieces, begin};
        status = mnem__cliques_create(hull, &lives, x->b.count, 0, &x->cliques);
    }
    for (int32_t i = 0; i < x->cliques.item_count; i++)
        x->movers[x->cliques.items[i].source].item = i;
    mnem__free(pieces);
    mnem__free(begin);
    mnem__free(hull);
    return status;
}

/* By insertion: there are a few spaces. Of equal costs the first stays first. */
static void sort_spaces(mnem__spaces *x) {
    for (uint32_t s = 0; s < x->count; s++) {
        uint32_t at = s;
        for (; at > 0 && x->spaces[x->cheapest[at - 1]].cost > x->spaces[s].cost; at--)
            x->cheapest[at] = x->cheapest[at - 1];
        x->cheapest[at] = s;
    }
}

/* What a byte of the body in the cheapest of its spaces saves against the dearest, for each moment
 * that it lives: greedy takes the densest first. 0 where all cost the same. */
static void set_densities(mnem__spaces *x) {
    for (uint32_t i = 0; i < x->b.count; i++) {
        mnem__mover *m = &x->movers[i];
        const mnem__body *body = &x->b.bodies[i];
        uint64_t least = UINT64_MAX, most = 0;
        for (uint32_t s = 0; s < x->count; s++) {
            if (!(m->allowed >> s & 1)) continue;
            if (x->spaces[s].cost < least) least = x->spaces[s].cost;
            if (x->spaces[s].cost > most) most = x->spaces[s].cost;
        }
        double moments = 0;
        for (uint32_t p = body->first; p < body->end; p++)
            moments += (double)x->b.pieces[p].upper - (double)x->b.pieces[p].lower;
        m->density = (double)m->use * (double)(most - least) /
                     fmax(1, (double)body->bytes * fmax(1, moments));
    }
}

static mnem_status make_tables(mnem__spaces *x) {
    const size_t n = x->n, bodies = x->b.count;
    x->movers = mnem__calloc("plan", bodies, sizeof *x->movers);
    x->space_of = mnem__calloc("plan", 2 * bodies + x->count, sizeof *x->space_of);
    x->best_offset = mnem__calloc("plan", bodies, sizeof *x->best_offset);
    x->part = mnem__calloc("plan", n, sizeof *x->part);
    x->part_wishes = mnem__calloc("plan", n, sizeof *x->part_wishes);
    x->part_of = mnem__calloc("plan", 2 * n, sizeof *x->part_of);
    if (!x->movers || !x->space_of || !x->best_offset || !x->part || !x->part_wishes || !x->part_of)
        return mnem__heap_status();
    x->best_space_of = x->space_of + bodies;
    x->cheapest = x->best_space_of + bodies;
    x->part_index = x->part_of + n;
    return MNEM_OK;
}

static mnem_status prepare(mnem__spaces *x, const mnem_place_use *uses) {
    MNEM__TRY(make_tables(x));
    MNEM__TRY(make_movers(x, uses));
    MNEM__TRY(check_fixed(x));
    MNEM__TRY(make_sections(x));
    sort_spaces(x);
    set_densities(x);
    x->loads = mnem__calloc("plan", (size_t)x->cliques.count * x->count + 1, sizeof *x->loads);
    return x->loads ? MNEM_OK : mnem__heap_status();
}

static void release(mnem__spaces *x) {
    mnem__free(x->movers);
    mnem__free(x->space_of);
    mnem__free(x->best_offset);
    mnem__free(x->part);
    mnem__free(x->part_wishes);
    mnem__free(x->part_of);
    mnem__free(x->loads);
    mnem__ranges_free(&x->ranges);
    mnem__cliques_destroy(&x->cliques);
    mnem__bodies_destroy(&x->b);
}

/* ---- all together ---- */

static bool is_best(const mnem__spaces *x) {
    return x->proved || (x->best.over == 0 && x->best.cost <= x->bound);
}

/* Rounds of growing effort: better by hand, then every way. */
static void search(mnem__spaces *x) {
    mnem__spaces_greedy(x);
    mnem__spaces_bound(x);
    if (!is_best(x)) mnem__spaces_greedy_again(x);
    for (uint64_t effort = 64; !is_best(x) && !x->limits.reached; effort *= 2) {
        mnem__spaces_improve(x, effort);
        if (!is_best(x) && !x->limits.reached) mnem__spaces_prove(x, 16 * effort);
    }
}

/* The best becomes what is now. */
static void take_best(mnem__spaces *x) {
    mnem__spaces_clear(x);
    for (uint32_t i = 0; i < x->b.count; i++) {
        if (x->b.bodies[i].fixed) continue;
        x->b.bodies[i].offset = x->best_offset[i];
        mnem__spaces_put(x, i, x->best_space_of[i]);
    }
}

/* Where nothing limits them, spaces were only filled in one go: as low as the time allows. */
static void lower_peaks(mnem__spaces *x, mnem__search_limits *limits) {
    uint32_t left = 0;
    for (uint32_t s = 0; s < x->count; s++) left += x->spaces[s].capacity_bytes == 0;
    for (uint32_t s = 0; s < x->count && x->status == MNEM_OK; s++) {
        if (x->spaces[s].capacity_bytes) continue;
        mnem__search_limits part = mnem__search_limits_share(limits, 1.0 / left--);
        mnem__spaces_pack(x, s, &part);
        limits->steps = part.steps;
    }
}

static int64_t peak_of(const mnem__spaces *x, uint32_t space) {
    int64_t peak = 0;
    for (uint32_t i = 0; i < x->b.count; i++) {
        const mnem__body *b = &x->b.bodies[i];
        if (b->placed && x->space_of[i] == space && b->offset + b->bytes > peak)
            peak = b->offset + b->bytes;
    }
    return peak;
}

/* What has no space goes on top of the largest that it may be in. */
static void place_homeless(mnem__spaces *x) {
    for (uint32_t i = 0; i < x->b.count; i++) {
        mnem__body *b = &x->b.bodies[i];
        if (b->placed) continue;
        uint32_t largest = (uint32_t)__builtin_ctz(x->movers[i].allowed);
        for (uint32_t s = largest; s < x->count; s++)
            if ((x->movers[i].allowed >> s & 1) &&
                x->spaces[s].capacity_bytes > x->spaces[largest].capacity_bytes)
                largest = s;
        b->offset = (peak_of(x, largest) + b->alignment - 1) & -b->alignment;
        x->space_of[i] = largest;
        b->placed = true;
        x->score.cost += mnem__spaces_cost(x, i, largest);
    }
}

static mnem_status finish(mnem__spaces *x, mnem_place_buffer *buffers, mnem_place_use *uses,
                          mnem_place_space *spaces, mnem_place_spaces_result *r) {
    place_homeless(x);
    for (uint32_t s = 0; s < x->count; s++) {
        spaces[s].peak_bytes = (uint64_t)peak_of(x, s);
        if (spaces[s].peak_bytes > (uint64_t)MNEM__BODY_FAR)
            return mnem__fail(MNEM_INVALID, "place: the offsets of %zu buffers exceed 2^60", x->n);
    }
    for (size_t i = 0; i < x->n; i++) {
        buffers[i].offset = (uint64_t)x->b.bodies[x->b.body_of[i]].offset;
        uses[i].space = x->space_of[x->b.body_of[i]];
    }
    *r = (mnem_place_spaces_result){.cost = x->score.cost,
                                    .lower_bound_cost = x->bound,
                                    .over_bytes = x->best.over,
                                    .nodes = x->nodes};
    if (x->best.over > 0)
        r->verdict = x->proved ? MNEM_PLACE_INFEASIBLE : MNEM_PLACE_FEASIBLE;
    else if (is_best(x))
        r->verdict = MNEM_PLACE_OPTIMAL;
    if (r->verdict == MNEM_PLACE_OPTIMAL) r->lower_bound_cost = r->cost;
    return MNEM_OK;
}

static mnem_status place_all(mnem__spaces *x, const mnem_place_options *options,
                             mnem_place_buffer *buffers, mnem_place_use *uses,
                             mnem_place_space *spaces, mnem_place_spaces_result *r) {
    mnem__search_limits whole;
    mnem_status status = mnem__search_limits_start(options, &whole);
    if (status != MNEM_OK) return status;
    bool unlimited = false;
    for (uint32_t s = 0; s < x->count; s++) unlimited = unlimited || spaces[s].capacity_bytes == 0;
    x->limits = mnem__search_limits_share(&whole, unlimited ? 0.75 : 1);
    x->random = mnem__search_random(options->seed);
    x->best.over = UINT64_MAX;
    search(x);
    if (x->ranges.no_memory) x->status = mnem__heap_status();
    if (x->status != MNEM_OK) return x->status;
    take_best(x);
    whole.steps = x->limits.steps;
    lower_peaks(x, &whole);
    return x->status != MNEM_OK ? x->status : finish(x, buffers, uses, spaces, r);
}

static mnem_status check_spaces(size_t n, const mnem_place_space *spaces, uint32_t count,
                                const mnem_place_options *options) {
    if (count == 0 || count > MNEM_PLACE_SPACES_MAX)
        return mnem__fail(MNEM_INVALID, "place: the number of spaces is %u, expected 1 to %d",
                          count, MNEM_PLACE_SPACES_MAX);
    for (uint32_t s = 0; s < count; s++)
        if (spaces[s].capacity_bytes > (uint64_t)MNEM__BODY_FAR)
            return mnem__fail(MNEM_INVALID, "place: space %u has %llu bytes, expected below 2^60",
                              s, (unsigned long long)spaces[s].capacity_bytes);
    if (options->capacity_bytes)
        return mnem__fail(MNEM_INVALID, "place: with spaces, options.capacity_bytes must be 0: "
                                        "each space has its own capacity");
    if (n > MNEM__PIECES_MAX)
        return mnem__fail(
            MNEM_INVALID,
            "place: the number of buffers for several spaces is %zu, expected at most %d", n,
            MNEM__PIECES_MAX);
    return MNEM_OK;
}

mnem_status mnem_place_solve_spaces(mnem_place_buffer *buffers,
                                    const mnem_place_constraint *constraints, mnem_place_use *uses,
                                    size_t n, mnem_place_space *spaces, uint32_t space_count,
                                    const mnem_place_options *options,
                                    mnem_place_spaces_result *result) {
    static const mnem_place_options defaults;
    mnem_place_result sums;
    if (!options) options = &defaults;
    *result = (mnem_place_spaces_result){.verdict = MNEM_PLACE_OPTIMAL};
    mnem_status status = check_spaces(n, spaces, space_count, options);
    for (uint32_t s = 0; s < space_count && status == MNEM_OK; s++) spaces[s].peak_bytes = 0;
    if (status == MNEM_OK) status = mnem__place_check(buffers, n, &sums);
    if (status == MNEM_OK && sums.total_bytes > (uint64_t)MNEM__BODY_FAR)
        status = mnem__fail(MNEM_INVALID, "place: %zu buffers total over 2^60 bytes; use fewer", n);
    if (status != MNEM_OK || n == 0) return status;
    mnem_place_constraint *none = constraints ? NULL : mnem__calloc("plan", n, sizeof *none);
    if (!constraints && !none) return mnem__heap_status();
    mnem__spaces x = {.buffers = buffers,
                      .constraints = constraints ? constraints : none,
                      .n = n,
                      .spaces = spaces,
                      .count = space_count};
    status = mnem__bodies_create(buffers, x.constraints, n, &x.b);
    if (status == MNEM_OK) status = prepare(&x, uses);
    if (status == MNEM_OK) status = place_all(&x, options, buffers, uses, spaces, result);
    release(&x);
    mnem__free(none);
    return status;
}
