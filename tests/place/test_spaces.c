/* test_spaces.c: several spaces against every way to spread and place, and against greedy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/place.h"
#include "place/place_check.h"

enum { FEW = 8, MANY = 400, SPACES = 3 };

typedef struct instance {
    mnem_place_buffer b[MANY];
    mnem_place_use u[MANY];
    mnem_place_constraint w[MANY];
    mnem_place_gap gaps[MANY];
    mnem_place_space s[SPACES];
    size_t n;
    uint32_t spaces;
} instance;

/* ---- validity: the sweep for each space ---- */

static uint64_t cost_of(const instance *x) {
    uint64_t cost = 0;
    for (size_t i = 0; i < x->n; i++)
        cost += x->u[i].accesses * x->b[i].bytes * x->s[x->u[i].space].cost;
    return cost;
}

static void assert_valid(const instance *x, const mnem_place_spaces_result *r) {
    static plan_box boxes[2 * MANY];
    for (uint32_t s = 0; s < x->spaces; s++) {
        size_t count = 0;
        uint64_t peak = 0;
        for (size_t i = 0; i < x->n; i++) {
            const mnem_place_buffer *b = &x->b[i];
            const uint64_t top = b->offset + b->bytes;
            assert_true(x->u[i].space < x->spaces);
            assert_true(!x->u[i].allowed || (x->u[i].allowed >> x->u[i].space & 1));
            assert_int_equal(b->offset % (b->alignment ? b->alignment : 64), 0);
            if (x->u[i].space != s) continue;
            if (top > peak) peak = top;
            const bool gap = x->w[i].gap_count;
            boxes[count++] =
                (plan_box){b->lower, gap ? x->gaps[i].lower : b->upper, b->offset, top};
            if (gap) boxes[count++] = (plan_box){x->gaps[i].upper, b->upper, b->offset, top};
        }
        assert_int_equal(plan_boxes_check(boxes, count), count);
        assert_int_equal(peak, x->s[s].peak_bytes);
        if (r->over_bytes == 0 && x->s[s].capacity_bytes)
            assert_true(peak <= x->s[s].capacity_bytes);
    }
    assert_int_equal(cost_of(x), r->cost);
    assert_true(r->over_bytes > 0 || r->lower_bound_cost <= r->cost);
}

/* ---- every way ---- */

static uint64_t times(int64_t lower, int64_t upper) {
    return ((UINT64_C(1) << upper) - 1) & ~((UINT64_C(1) << lower) - 1);
}

typedef struct packing {
    uint64_t lives[FEW], offset[FEW], best;
    unsigned set, placed;
} packing;

static bool apart(const instance *x, const packing *p, size_t i, size_t j) {
    return !(p->lives[i] & p->lives[j]) || p->offset[i] + x->b[i].bytes <= p->offset[j] ||
           p->offset[j] + x->b[j].bytes <= p->offset[i];
}

static void lowest(const instance *x, packing *p, size_t i) {
    p->offset[i] = 0;
    for (size_t j = 0; j < x->n; j++) {
        if (!(p->placed >> j & 1) || apart(x, p, i, j)) continue;
        const uint64_t end = p->offset[j] + x->b[j].bytes;
        p->offset[i] = (end + x->b[i].alignment - 1) & -x->b[i].alignment;
        j = SIZE_MAX; /* from the first again */
    }
}

/* Orders in which offsets never fall suffice. */
static void pack(const instance *x, packing *p, uint64_t from, uint64_t peak) {
    if (peak >= p->best) return;
    if (p->placed == p->set) p->best = peak;
    for (size_t i = 0; i < x->n; i++) {
        if (!(p->set >> i & 1) || (p->placed >> i & 1)) continue;
        lowest(x, p, i);
        const uint64_t offset = p->offset[i], end = offset + x->b[i].bytes;
        if (offset < from) continue;
        p->placed |= 1u << i;
        pack(x, p, offset, end > peak ? end : peak);
        p->placed &= ~(1u << i);
    }
}

typedef struct brute {
    uint64_t peak[1 << FEW]; /* of every set */
    unsigned in[SPACES];
    uint64_t best; /* UINT64_MAX: nothing fits */
} brute;

static void spread(const instance *x, brute *t, size_t i, uint64_t cost) {
    if (i == x->n) {
        for (uint32_t s = 0; s < x->spaces; s++)
            if (x->s[s].capacity_bytes && t->peak[t->in[s]] > x->s[s].capacity_bytes) return;
        if (cost < t->best) t->best = cost;
        return;
    }
    for (uint32_t s = 0; s < x->spaces; s++) {
        if (x->u[i].allowed && !(x->u[i].allowed >> s & 1)) continue;
        t->in[s] |= 1u << i;
        spread(x, t, i + 1, cost + x->u[i].accesses * x->b[i].bytes * x->s[s].cost);
        t->in[s] &= ~(1u << i);
    }
}

static uint64_t every_way(const instance *x) {
    static brute t;
    packing p = {0};
    t = (brute){.best = UINT64_MAX};
    for (size_t i = 0; i < x->n; i++) {
        p.lives[i] = times(x->b[i].lower, x->b[i].upper);
        if (x->w[i].gap_count) p.lives[i] &= ~times(x->gaps[i].lower, x->gaps[i].upper);
    }
    for (unsigned set = 0; set < 1u << x->n; set++) {
        p.set = set;
        p.best = UINT64_MAX;
        pack(x, &p, 0, 0);
        t.peak[set] = p.best;
    }
    spread(x, &t, 0, 0);
    return t.best;
}

static void make_few(instance *x, uint64_t seed) {
    uint64_t random = seed;
    memset(x, 0, sizeof *x);
    x->n = 2 + next_random(&random) % (FEW - 1);
    x->spaces = 1 + (uint32_t)(next_random(&random) % SPACES);
    for (uint32_t s = 0; s < x->spaces; s++) {
        x->s[s].cost = next_random(&random) % 10;
        x->s[s].capacity_bytes = 4 + next_random(&random) % 24;
        if (next_random(&random) % 4 == 0) x->s[s].capacity_bytes = 0;
    }
    for (size_t i = 0; i < x->n; i++) {
        const int64_t lower = (int64_t)(next_random(&random) % 8);
        const int64_t upper = lower + 1 + (int64_t)(next_random(&random) % 10);
        x->b[i] = (mnem_place_buffer){.lower = lower,
                                      .upper = upper,
                                      .bytes = 1 + next_random(&random) % 12,
                                      .alignment = seed % 2 ? 1 : 1u << next_random(&random) % 3};
        x->u[i].accesses = next_random(&random) % 6;
        if (next_random(&random) % 3 == 0)
            x->u[i].allowed = 1 + (uint32_t)(next_random(&random) % ((1u << x->spaces) - 1));
        if (seed % 3 == 0 && upper - lower > 3) {
            x->gaps[i] = (mnem_place_gap){.lower = lower + 1, .upper = upper - 1};
            x->w[i] = (mnem_place_constraint){.gaps = &x->gaps[i], .gap_count = 1};
        }
    }
}

static void few_buffers_equal_every_way(void **state) {
    (void)state;
    static instance x;
    unsigned impossible = 0, spread_out = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        mnem_place_spaces_result r;
        const mnem_place_options options = {.seconds = 1e6, .seed = seed};
        make_few(&x, seed);
        const uint64_t best = every_way(&x);
        assert_int_equal(mnem_place_solve_spaces(x.b, x.w, x.u, x.n, x.s, x.spaces, &options, &r),
                         MNEM_OK);
        assert_valid(&x, &r);
        if (best == UINT64_MAX) {
            impossible++;
            assert_int_equal(r.verdict, MNEM_PLACE_INFEASIBLE);
            assert_true(r.over_bytes > 0);
            continue;
        }
        if (r.over_bytes || r.cost != best || r.verdict != MNEM_PLACE_OPTIMAL)
            fail_msg("seed %llu: cost %llu, best %llu, %llu over, verdict %d",
                     (unsigned long long)seed, (unsigned long long)r.cost, (unsigned long long)best,
                     (unsigned long long)r.over_bytes, r.verdict);
        for (size_t i = 1; i < x.n; i++) spread_out += x.u[i].space != x.u[0].space;
    }
    assert_in_range(impossible, 30, 400);
    assert_true(spread_out > 300);
}

/* ---- larger ones, against greedy ---- */

static void make_many(instance *x, size_t n, uint64_t seed) {
    uint64_t random = seed, alive = 0;
    memset(x, 0, sizeof *x);
    x->n = n;
    x->spaces = 2 + (uint32_t)(seed % 2);
    for (size_t i = 0; i < n; i++) {
        const int64_t lower = (int64_t)(next_random(&random) % n);
        const int64_t life = 1 + (int64_t)(next_random(&random) % (i % 5 ? 20 : n));
        x->b[i] = (mnem_place_buffer){
            .lower = lower, .upper = lower + life, .bytes = 64 * (1 + next_random(&random) % 200)};
        x->u[i].accesses = 1 + next_random(&random) % 20;
        if (next_random(&random) % 16 == 0) x->u[i].allowed = 1u << (x->spaces - 1);
        alive += x->b[i].bytes * (uint64_t)life / n;
    }
    x->s[0] = (mnem_place_space){.capacity_bytes = alive / 3, .cost = 1};
    x->s[1] = (mnem_place_space){.capacity_bytes = seed % 2 ? alive / 3 : 0, .cost = 4};
    x->s[2].cost = 20;
}

/* What a byte saves in a moment at the cheapest space that it may be in, against the dearest. */
static double density(const instance *x, size_t i) {
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t s = 0; s < x->spaces; s++) {
        if (x->u[i].allowed && !(x->u[i].allowed >> s & 1)) continue;
        if (x->s[s].cost < least) least = x->s[s].cost;
        if (x->s[s].cost > most) most = x->s[s].cost;
    }
    return (double)(x->u[i].accesses * (most - least)) / (double)(x->b[i].upper - x->b[i].lower);
}

/* The lowest offset in the space among those placed; false above its capacity. */
static bool place_lowest(const instance *x, const bool *placed, size_t i, uint32_t space,
                         mnem_place_buffer *b) {
    b->offset = 0;
    for (size_t j = 0; j < x->n; j++) {
        const mnem_place_buffer *o = &x->b[j];
        if (!placed[j] || x->u[j].space != space || o->lower >= b->upper || b->lower >= o->upper)
            continue;
        if (b->offset + b->bytes <= o->offset || o->offset + o->bytes <= b->offset) continue;
        b->offset = (o->offset + o->bytes + 63) & ~UINT64_C(63);
        j = SIZE_MAX; /* from the first again */
    }
    (void)i;
    return !x->s[space].capacity_bytes || b->offset + b->bytes <= x->s[space].capacity_bytes;
}

/* The cost of greedy by value density; spaces are in the order of their costs. */
static uint64_t greedy(instance *x) {
    bool placed[MANY] = {false};
    for (size_t k = 0; k < x->n; k++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < x->n; i++)
            if (!placed[i] && (best == SIZE_MAX || density(x, i) > density(x, best))) best = i;
        uint32_t s = 0;
        while ((x->u[best].allowed && !(x->u[best].allowed >> s & 1)) ||
               !place_lowest(x, placed, best, s, &x->b[best]))
            s++;
        x->u[best].space = s;
        placed[best] = true;
    }
    return cost_of(x);
}

static void never_dearer_than_greedy_by_density(void **state) {
    (void)state;
    static instance x;
    double saved = 0, gap = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        mnem_place_spaces_result r;
        const mnem_place_options options = {.seconds = 1e6, .steps_max = seed % 3 ? 60000 : 1};
        make_many(&x, seed % 3 ? 120 : MANY, seed);
        const uint64_t plain = greedy(&x);
        assert_int_equal(mnem_place_solve_spaces(x.b, NULL, x.u, x.n, x.s, x.spaces, &options, &r),
                         MNEM_OK);
        assert_valid(&x, &r);
        assert_int_equal(r.over_bytes, 0);
        assert_true(r.cost <= plain);
        if (seed % 3 == 0) continue;
        saved += 1 - (double)r.cost / (double)plain;
        gap += (double)r.cost / (double)r.lower_bound_cost - 1;
    }
    print_message("120 buffers: %.2f %% less than greedy, at most %.2f %% above the best\n",
                  100 * saved / 8, 100 * gap / 8);
    assert_true(saved > 0);
}

static void as_many_steps_are_the_same_again(void **state) {
    (void)state;
    static instance x, y;
    mnem_place_spaces_result r, again;
    const mnem_place_options options = {.seconds = 1e6, .steps_max = 30000, .seed = 5};
    make_many(&x, 150, 7);
    y = x;
    assert_int_equal(mnem_place_solve_spaces(x.b, NULL, x.u, x.n, x.s, x.spaces, &options, &r),
                     MNEM_OK);
    assert_int_equal(mnem_place_solve_spaces(y.b, NULL, y.u, y.n, y.s, y.spaces, &options, &again),
                     MNEM_OK);
    assert_memory_equal(x.b, y.b, sizeof x.b);
    assert_memory_equal(x.u, y.u, sizeof x.u);
    assert_int_equal(r.cost, again.cost);
    assert_int_equal(r.lower_bound_cost, again.lower_bound_cost);
}

/* ---- single facts ---- */

static void names_stay_together_and_fixed_ones_stay(void **state) {
    (void)state;
    static instance x;
    mnem_place_spaces_result r;
    memset(&x, 0, sizeof x);
    x.n = 4;
    x.spaces = 2;
    x.s[0] = (mnem_place_space){.capacity_bytes = 128, .cost = 1};
    x.s[1] = (mnem_place_space){.cost = 10};
    for (size_t i = 0; i < 4; i++) {
        x.b[i] = (mnem_place_buffer){.lower = 0, .upper = 4, .bytes = 64};
        x.u[i].accesses = 1 + i;
    }
    x.w[0].same_as = 4; /* together the most valuable */
    x.w[1] = (mnem_place_constraint){.fixed = true};
    x.u[1].allowed = 1;
    x.b[1].offset = 64;
    assert_int_equal(mnem_place_solve_spaces(x.b, x.w, x.u, 4, x.s, 2, NULL, &r), MNEM_OK);
    assert_int_equal(r.verdict, MNEM_PLACE_OPTIMAL);
    assert_int_equal(x.u[0].space, 0);
    assert_int_equal(x.u[3].space, 0);
    assert_int_equal(x.b[0].offset, x.b[3].offset);
    assert_int_equal(x.b[0].offset, 0);
    assert_int_equal(x.b[1].offset, 64);
    assert_int_equal(x.u[2].space, 1);
    assert_int_equal(r.cost, 64 * (1 + 4 + 2 + 10 * 3));
}

static void fixed_ones_of_two_spaces_do_not_collide(void **state) {
    (void)state;
    mnem_place_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 64},
                              {.lower = 0, .upper = 2, .bytes = 64}};
    const mnem_place_constraint w[2] = {{.fixed = true}, {.fixed = true}};
    mnem_place_use u[2] = {{.allowed = 1}, {.allowed = 2}};
    mnem_place_space s[2] = {{.capacity_bytes = 64}, {.capacity_bytes = 64}};
    mnem_place_spaces_result r;
    assert_int_equal(mnem_place_solve_spaces(b, w, u, 2, s, 2, NULL, &r), MNEM_OK);
    assert_int_equal(r.verdict, MNEM_PLACE_OPTIMAL);
    u[1].allowed = 1;
    assert_int_equal(mnem_place_solve_spaces(b, w, u, 2, s, 2, NULL, &r), MNEM_INVALID);
    u[1].allowed = 3;
    assert_int_equal(mnem_place_solve_spaces(b, w, u, 2, s, 2, NULL, &r), MNEM_INVALID);
    u[1].allowed = 2;
    b[1].offset = 64;
    assert_int_equal(mnem_place_solve_spaces(b, w, u, 2, s, 2, NULL, &r), MNEM_INVALID);
}

static void wrong_questions_are_refused(void **state) {
    (void)state;
    mnem_place_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 64},
                              {.lower = 0, .upper = 2, .bytes = 64}};
    mnem_place_use u[2] = {{.accesses = 1}, {.accesses = 1}};
    mnem_place_space s[33] = {{.cost = 1}};
    mnem_place_spaces_result r;
    const mnem_place_options capacity = {.capacity_bytes = 1};
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 0, NULL, &r), MNEM_INVALID);
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 33, NULL, &r), MNEM_INVALID);
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, &capacity, &r), MNEM_INVALID);
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 32, NULL, &r), MNEM_OK);
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 0, s, 1, NULL, &r), MNEM_OK);
    u[1].allowed = 2;
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, NULL, &r), MNEM_INVALID);
    u[1] = (mnem_place_use){.accesses = UINT64_MAX};
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, NULL, &r), MNEM_INVALID);
    u[1].accesses = 1;
    s[0].cost = UINT64_MAX / 64;
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, NULL, &r), MNEM_INVALID);
    s[0] = (mnem_place_space){.capacity_bytes = UINT64_MAX};
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, NULL, &r), MNEM_INVALID);
    s[0].capacity_bytes = 64;
    b[1].upper = 0;
    assert_int_equal(mnem_place_solve_spaces(b, NULL, u, 2, s, 1, NULL, &r), MNEM_INVALID);
    const mnem_place_constraint names[2] = {{0}, {.same_as = 1}};
    b[1].upper = 2;
    u[0].allowed = 1;
    u[1].allowed = 2;
    assert_int_equal(mnem_place_solve_spaces(b, names, u, 2, s, 2, NULL, &r), MNEM_INVALID);
}

static bool stop_at_once(void *context) {
    (void)context;
    return true;
}

static void a_stopped_search_has_a_placement(void **state) {
    (void)state;
    static instance x;
    mnem_place_spaces_result r;
    const mnem_place_options options = {.seconds = 1e6, .stop = stop_at_once};
    make_many(&x, MANY, 3);
    assert_int_equal(mnem_place_solve_spaces(x.b, NULL, x.u, x.n, x.s, x.spaces, &options, &r),
                     MNEM_OK);
    assert_valid(&x, &r);
}

static void failing_heap_is_reported_at_every_call(void **state) {
    (void)state;
    static instance x;
    heap_sweep sweep = {.most = 2000};
    mnem_status status;
    do {
        mnem_place_spaces_result r;
        const mnem_place_options options = {.seconds = 1e6, .steps_max = 300};
        make_few(&x, 15);
        heap_sweep_begin(&sweep, true);
        status = mnem_place_solve_spaces(x.b, x.w, x.u, x.n, x.s, x.spaces, &options, &r);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_buffers_equal_every_way),
        cmocka_unit_test(never_dearer_than_greedy_by_density),
        cmocka_unit_test(as_many_steps_are_the_same_again),
        cmocka_unit_test(names_stay_together_and_fixed_ones_stay),
        cmocka_unit_test(fixed_ones_of_two_spaces_do_not_collide),
        cmocka_unit_test(wrong_questions_are_refused),
        cmocka_unit_test(a_stopped_search_has_a_placement),
        cmocka_unit_test(failing_heap_is_reported_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
