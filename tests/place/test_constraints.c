/* test_constraints.c: gaps, fixed offsets, hints, names and in-place pairs, against
 * every placement. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/place.h"

enum { MOST = 5, GAPS = 2 };

typedef struct instance {
    mnem_place_buffer b[MOST];
    mnem_place_constraint w[MOST];
    mnem_place_gap gaps[MOST][GAPS];
    size_t n;
    uint64_t best;
} instance;

/* ---- validity, moment by moment and byte by byte ---- */

/* The bytes of buffer i that are used at a time: [bottom, top). */
static void used(const instance *x, size_t i, int64_t time, uint64_t *bottom, uint64_t *top) {
    const mnem_place_buffer *b = &x->b[i];
    *bottom = *top = 0;
    if (time < b->lower || time >= b->upper) return;
    *bottom = b->offset;
    *top = b->offset + b->bytes;
    for (uint32_t g = 0; g < x->w[i].gap_count; g++) {
        const mnem_place_gap *gap = &x->w[i].gaps[g];
        if (time < gap->lower || time >= gap->upper) continue;
        *bottom = b->offset + gap->window_lower;
        *top = b->offset + gap->window_upper;
    }
}

/* Groups of at most two, so one step suffices. */
static size_t name_of(const instance *x, size_t i) {
    return x->w[i].same_as ? x->w[i].same_as - 1 : i;
}

static bool may_overlap(const instance *x, size_t i, size_t j) {
    if (x->b[i].offset != x->b[j].offset) return false;
    const size_t a = name_of(x, i), c = name_of(x, j);
    if (a == c) return true;
    return (x->w[a].in_place && name_of(x, x->w[a].in_place - 1) == c) ||
           (x->w[c].in_place && name_of(x, x->w[c].in_place - 1) == a);
}

static bool pair_is_valid(const instance *x, size_t i, size_t j) {
    if (name_of(x, i) == name_of(x, j) && x->b[i].offset != x->b[j].offset) return false;
    if (may_overlap(x, i, j)) return true;
    for (int64_t time = 0; time < 20; time++) {
        uint64_t bottom, top, other_bottom, other_top;
        used(x, i, time, &bottom, &top);
        used(x, j, time, &other_bottom, &other_top);
        if (bottom < top && other_bottom < other_top && bottom < other_top && other_bottom < top)
            return false;
    }
    return true;
}

static void brute(instance *x, size_t depth, uint64_t peak) {
    if (peak >= x->best) return;
    if (depth == x->n) {
        x->best = peak;
        return;
    }
    mnem_place_buffer *b = &x->b[depth];
    const uint64_t fixed = b->offset;
    for (uint64_t offset = x->w[depth].fixed ? fixed : 0; offset + b->bytes < x->best;
         offset += b->alignment) {
        b->offset = offset;
        bool valid = true;
        for (size_t i = 0; i < depth && valid; i++) valid = pair_is_valid(x, i, depth);
        if (valid) brute(x, depth + 1, offset + b->bytes > peak ? offset + b->bytes : peak);
        if (x->w[depth].fixed) break;
    }
    b->offset = fixed;
}

typedef enum wish_kind { PLAIN_GAPS, WINDOWS, FIXED, NAMES, IN_PLACE, ALL, KINDS } wish_kind;

static void make_gaps(instance *x, size_t i, bool windows, uint64_t *random) {
    mnem_place_buffer *b = &x->b[i];
    int64_t at = b->lower;
    for (uint32_t g = 0; g < GAPS; g++) {
        const int64_t lower = at + (int64_t)(next_random(random) % 3);
        const int64_t upper = lower + 1 + (int64_t)(next_random(random) % 3);
        if (upper > b->upper) return;
        mnem_place_gap *gap = &x->gaps[i][x->w[i].gap_count++];
        *gap = (mnem_place_gap){.lower = lower, .upper = upper};
        if (windows) gap->window_lower = next_random(random) % (b->bytes + 1);
        if (windows)
            gap->window_upper =
                gap->window_lower + next_random(random) % (b->bytes - gap->window_lower + 1);
        at = upper;
    }
}

static void make(instance *x, wish_kind kind, uint64_t seed) {
    uint64_t random = seed * KINDS + kind;
    *x = (instance){.n = 2 + next_random(&random) % (MOST - 1), .best = 40};
    bool fixed = false;
    for (size_t i = 0; i < x->n; i++) {
        const int64_t lower = (int64_t)(next_random(&random) % 6);
        x->b[i] = (mnem_place_buffer){.lower = lower,
                                      .upper = lower + 1 + (int64_t)(next_random(&random) % 8),
                                      .bytes = 1 + next_random(&random) % 5,
                                      .alignment = 1u << next_random(&random) % 2};
        x->w[i].gaps = x->gaps[i];
        const uint64_t dice = next_random(&random) % 2;
        if (kind == PLAIN_GAPS || (kind == ALL && dice)) make_gaps(x, i, false, &random);
        if (kind == WINDOWS) make_gaps(x, i, true, &random);
        if ((kind == FIXED || kind == ALL) && !fixed && dice) {
            x->w[i].fixed = fixed = true;
            x->b[i].offset = x->b[i].alignment * (next_random(&random) % 4);
        }
        if (i % 2 && (kind == NAMES || kind == ALL) && dice && !x->w[i - 1].fixed && !x->w[i].fixed)
            x->w[i].same_as = (uint32_t)i;
        if (i > 0 && (kind == IN_PLACE || kind == ALL) && next_random(&random) % 2 &&
            !x->w[i].same_as)
            x->w[i].in_place = 1 + (uint32_t)(next_random(&random) % i);
    }
}

static void assert_valid(const instance *x, const mnem_place_result *r, uint64_t seed) {
    uint64_t peak = 0;
    for (size_t i = 0; i < x->n; i++) {
        const mnem_place_buffer *b = &x->b[i];
        if (b->offset + b->bytes > peak) peak = b->offset + b->bytes;
        assert_int_equal(b->offset % b->alignment, 0);
        for (size_t j = 0; j < i; j++)
            if (!pair_is_valid(x, i, j))
                fail_msg("seed %llu: %zu and %zu overlap", (unsigned long long)seed, i, j);
    }
    assert_int_equal(peak, r->peak_bytes);
    assert_true(r->lower_bound_bytes <= x->best);
}

/* All seeds of a kind, each in so many steps (0: any); how many were above the best placement. */
static unsigned above_best(wish_kind kind, uint64_t seeds, uint64_t steps) {
    unsigned above = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        static instance x, y;
        mnem_place_result r;
        make(&x, kind, seed);
        brute(&x, 0, 0);
        y = x;
        for (size_t i = 0; i < y.n; i++) y.w[i].gaps = y.gaps[i];
        const mnem_place_options options = {
            .capacity_bytes = x.best, .seconds = 1e6, .steps_max = steps};
        assert_int_equal(mnem_place_solve_constrained(y.b, y.w, y.n, &options, &r), MNEM_OK);
        assert_valid(&y, &r, seed);
        for (size_t i = 0; i < y.n; i++)
            assert_true(!x.w[i].fixed || x.b[i].offset == y.b[i].offset);
        above += r.peak_bytes > x.best;
    }
    return above;
}

static void gaps_equal_brute_force(void **state) {
    (void)state;
    assert_int_equal(above_best(PLAIN_GAPS, 400, 0), 0);
}

static void fixed_offsets_equal_brute_force(void **state) {
    (void)state;
    assert_int_equal(above_best(FIXED, 400, 0), 0);
}

static void names_equal_brute_force(void **state) {
    (void)state;
    assert_int_equal(above_best(NAMES, 400, 0), 0);
}

/* These have no proof; nearly all are the best. */
static void windows_and_in_place_are_near_brute_force(void **state) {
    (void)state;
    enum { STEPS = 4000 };
    const unsigned windows = above_best(WINDOWS, 200, STEPS);
    const unsigned in_place = above_best(IN_PLACE, 200, STEPS), all = above_best(ALL, 200, STEPS);
    print_message("above the best of 200: windows %u, in place %u, all %u\n", windows, in_place,
                  all);
    assert_true(windows <= 4 && in_place <= 4 && all <= 4);
}

static void less_than_the_best_with_gaps_is_proved_infeasible(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        static instance x;
        mnem_place_result r;
        make(&x, PLAIN_GAPS, seed);
        brute(&x, 0, 0);
        if (x.best == 1) continue;
        const mnem_place_options options = {.capacity_bytes = x.best - 1, .seconds = 1e6};
        assert_int_equal(mnem_place_solve_constrained(x.b, x.w, x.n, &options, &r), MNEM_OK);
        assert_int_equal(r.verdict, MNEM_PLACE_INFEASIBLE);
        assert_true(r.peak_bytes >= x.best);
    }
}

/* ---- single facts ---- */

static void an_output_lies_over_its_dying_input(void **state) {
    (void)state;
    mnem_place_buffer b[3] = {{.lower = 0, .upper = 2, .bytes = 100},
                              {.lower = 1, .upper = 3, .bytes = 100},
                              {.lower = 2, .upper = 4, .bytes = 100}};
    const mnem_place_constraint w[3] = {{0}, {.in_place = 1}, {.in_place = 2}};
    mnem_place_result r;
    assert_int_equal(mnem_place_solve_constrained(b, w, 3, NULL, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 100);
    assert_int_equal(r.verdict, MNEM_PLACE_OPTIMAL);
    assert_int_equal(mnem_place_solve_constrained(b, NULL, 3, NULL, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 228);
}

static void a_hint_is_followed_where_it_costs_nothing(void **state) {
    (void)state;
    mnem_place_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 64, .offset = 64},
                              {.lower = 1, .upper = 3, .bytes = 64, .offset = 0}};
    const mnem_place_constraint w[2] = {{.hinted = true}, {.hinted = true}};
    mnem_place_result r;
    assert_int_equal(mnem_place_solve_constrained(b, w, 2, NULL, &r), MNEM_OK);
    assert_int_equal(b[0].offset, 64);
    assert_int_equal(b[1].offset, 0);
    b[0].offset = 1024; /* a hint that wastes isn't */
    assert_int_equal(mnem_place_solve_constrained(b, w, 2, NULL, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 128);
}

static void many_buffers_with_gaps_are_valid(void **state) {
    (void)state;
    static mnem_place_buffer b[400], again[400];
    static mnem_place_constraint w[400];
    static mnem_place_gap gaps[400];
    uint64_t random = 5;
    for (size_t i = 0; i < 400; i++) {
        const int64_t lower = (int64_t)(next_random(&random) % 300);
        b[i] = (mnem_place_buffer){
            .lower = lower, .upper = lower + 40, .bytes = 64 * (1 + next_random(&random) % 50)};
        gaps[i] = (mnem_place_gap){lower + 5, lower + 35, 0, 64 * (next_random(&random) % 2)};
        w[i] = (mnem_place_constraint){.gaps = &gaps[i], .gap_count = 1};
    }
    mnem_place_result r, hull;
    memcpy(again, b, sizeof b);
    const mnem_place_options options = {.seconds = 1e6, .steps_max = 20000};
    assert_int_equal(mnem_place_solve_constrained(b, w, 400, &options, &r), MNEM_OK);
    assert_int_equal(mnem_place_solve(again, 400, &options, &hull), MNEM_OK);
    assert_true(r.peak_bytes < hull.lower_bound_bytes); /* gaps are used */
    for (size_t i = 0; i < 400; i++) {
        for (size_t j = 0; j < i; j++) {
            for (int64_t t = 0; t < 340; t++) {
                if (t < b[i].lower || t >= b[i].upper || t < b[j].lower || t >= b[j].upper)
                    continue;
                const bool in_i = t >= gaps[i].lower && t < gaps[i].upper;
                const bool in_j = t >= gaps[j].lower && t < gaps[j].upper;
                const uint64_t height_i = in_i ? gaps[i].window_upper : b[i].bytes;
                const uint64_t height_j = in_j ? gaps[j].window_upper : b[j].bytes;
                assert_true(height_i == 0 || height_j == 0 ||
                            b[i].offset + height_i <= b[j].offset ||
                            b[j].offset + height_j <= b[i].offset);
            }
        }
    }
}

static void wrong_wishes_are_refused(void **state) {
    (void)state;
    mnem_place_buffer b[2] = {{.lower = 0, .upper = 9, .bytes = 64},
                              {.lower = 0, .upper = 9, .bytes = 64}};
    const mnem_place_gap gaps[] = {{2, 4, 0, 0}, {3, 5, 0, 0}, {5, 10, 0, 0}, {2, 3, 0, 65}};
    const mnem_place_constraint wrong[][2] = {
        {{.gaps = gaps, .gap_count = 2}},
        {{.gaps = gaps + 2, .gap_count = 1}},
        {{.gaps = gaps + 3, .gap_count = 1}},
        {{.in_place = 3}},
        {{.same_as = 1}},
        {{.fixed = true}, {.fixed = true}},
    };
    mnem_place_result r;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mnem_place_solve_constrained(b, wrong[i], 2, NULL, &r), MNEM_INVALID);
    b[0].offset = 5;
    const mnem_place_constraint crooked[2] = {{.fixed = true}};
    assert_int_equal(mnem_place_solve_constrained(b, crooked, 2, NULL, &r), MNEM_INVALID);
    static mnem_place_buffer many[4097];
    static mnem_place_constraint hints[4097];
    for (int i = 0; i < 4097; i++) {
        many[i] = (mnem_place_buffer){.lower = 0, .upper = 1, .bytes = 64};
        hints[i].hinted = true;
    }
    assert_int_equal(mnem_place_solve_constrained(many, hints, 4097, NULL, &r), MNEM_INVALID);
    assert_int_equal(mnem_place_solve_constrained(many, hints, 4096, NULL, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 64 * 4096);
    b[0].offset = UINT64_MAX - 63;
    assert_int_equal(mnem_place_solve_constrained(b, crooked, 2, NULL, &r), MNEM_INVALID);
}

static void failing_heap_is_reported_at_every_call(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 100};
    mnem_status status;
    do {
        static instance x;
        mnem_place_result r;
        make(&x, WINDOWS, 12);
        const mnem_place_options options = {.capacity_bytes = 1, .seconds = 0.01};
        heap_sweep_begin(&sweep, true);
        status = mnem_place_solve_constrained(x.b, x.w, x.n, &options, &r);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_equal_brute_force),
        cmocka_unit_test(fixed_offsets_equal_brute_force),
        cmocka_unit_test(names_equal_brute_force),
        cmocka_unit_test(windows_and_in_place_are_near_brute_force),
        cmocka_unit_test(less_than_the_best_with_gaps_is_proved_infeasible),
        cmocka_unit_test(an_output_lies_over_its_dying_input),
        cmocka_unit_test(a_hint_is_followed_where_it_costs_nothing),
        cmocka_unit_test(many_buffers_with_gaps_are_valid),
        cmocka_unit_test(wrong_wishes_are_refused),
        cmocka_unit_test(failing_heap_is_reported_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
