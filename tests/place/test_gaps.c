/* test_gaps.c: the exact search over lives with gaps, against brute force; limits of a search. */
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/place.h"

enum { MOST = 9, GAPS = 2 };

typedef struct instance {
    mnem_place_buffer b[MOST];
    mnem_place_constraint w[MOST];
    mnem_place_gap gaps[MOST][GAPS];
    uint64_t lives[MOST]; /* bit t: alive at time t */
    size_t n, placed;
    uint64_t best;
} instance;

static uint64_t times(int64_t lower, int64_t upper) {
    return ((UINT64_C(1) << upper) - 1) & ~((UINT64_C(1) << lower) - 1);
}

static void make(instance *x, size_t n, uint64_t seed) {
    uint64_t random = seed;
    memset(x, 0, sizeof *x);
    x->n = n;
    x->best = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const int64_t lower = (int64_t)(next_random(&random) % 8);
        const int64_t upper = lower + 1 + (int64_t)(next_random(&random) % 12);
        x->b[i] = (mnem_place_buffer){.lower = lower,
                                      .upper = upper,
                                      .bytes = 1 + next_random(&random) % 12,
                                      .alignment = seed % 2 ? 1 : 1u << next_random(&random) % 3};
        x->w[i].gaps = x->gaps[i];
        x->lives[i] = times(lower, upper);
        int64_t at = lower + 1;
        for (int g = 0; g < GAPS; g++) {
            const int64_t from = at + (int64_t)(next_random(&random) % 2);
            const int64_t to = from + 1 + (int64_t)(next_random(&random) % 5);
            if (to >= upper) break;
            x->gaps[i][x->w[i].gap_count++] = (mnem_place_gap){.lower = from, .upper = to};
            x->lives[i] &= ~times(from, to);
            at = to + 1;
        }
    }
}

static bool apart(const instance *x, size_t i, size_t j) {
    const mnem_place_buffer *a = &x->b[i], *b = &x->b[j];
    return !(x->lives[i] & x->lives[j]) || a->offset + a->bytes <= b->offset ||
           b->offset + b->bytes <= a->offset;
}

/* The lowest offset of i that agrees with those that are placed. */
static uint64_t lowest(instance *x, size_t i) {
    uint64_t *at = &x->b[i].offset;
    *at = 0;
    for (size_t j = 0; j < x->n; j++) {
        if (!(x->placed >> j & 1) || apart(x, i, j)) continue;
        *at = (x->b[j].offset + x->b[j].bytes + x->b[i].alignment - 1) & -x->b[i].alignment;
        j = SIZE_MAX; /* from the first again */
    }
    return *at;
}

/* Some order of placing each at its lowest offset is optimal, and among those one in which offsets
 * never fall. */
static void brute(instance *x, uint64_t from, uint64_t peak) {
    if (peak >= x->best) return;
    if (x->placed == ((size_t)1 << x->n) - 1) x->best = peak;
    for (size_t i = 0; i < x->n; i++) {
        if (x->placed >> i & 1) continue;
        const uint64_t offset = lowest(x, i), end = offset + x->b[i].bytes;
        if (offset < from) continue;
        x->placed |= (size_t)1 << i;
        brute(x, offset, end > peak ? end : peak);
        x->placed &= ~((size_t)1 << i);
    }
}

static void assert_valid(const instance *x, const mnem_place_result *r) {
    uint64_t peak = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (x->b[i].offset + x->b[i].bytes > peak) peak = x->b[i].offset + x->b[i].bytes;
        assert_int_equal(x->b[i].offset % x->b[i].alignment, 0);
        for (size_t j = 0; j < i; j++) assert_true(apart(x, i, j));
    }
    assert_int_equal(peak, r->peak_bytes);
}

static void assert_optimal(size_t n, uint64_t seed, unsigned *above_bound) {
    instance x;
    mnem_place_result r;
    mnem_place_options options = {.seconds = 1e6};
    make(&x, n, seed);
    brute(&x, 0, 0);
    options.capacity_bytes = 1; /* none within it: only the bound of sums is known */
    options.steps_max = 1;
    assert_int_equal(mnem_place_solve_constrained(x.b, x.w, n, &options, &r), MNEM_OK);
    assert_valid(&x, &r);
    *above_bound += x.best > r.lower_bound_bytes;
    options = (mnem_place_options){.seconds = 1e6};
    assert_int_equal(mnem_place_solve_constrained(x.b, x.w, n, &options, &r), MNEM_OK);
    assert_valid(&x, &r);
    if (r.peak_bytes != x.best || r.verdict != MNEM_PLACE_OPTIMAL)
        fail_msg("seed %llu: %zu buffers, peak %llu, best %llu", (unsigned long long)seed, n,
                 (unsigned long long)r.peak_bytes, (unsigned long long)x.best);
    if (x.best == 1) return;
    options.capacity_bytes = x.best - 1;
    assert_int_equal(mnem_place_solve_constrained(x.b, x.w, n, &options, &r), MNEM_OK);
    assert_valid(&x, &r);
    assert_int_equal(r.verdict, MNEM_PLACE_INFEASIBLE);
}

static void up_to_8_buffers_equal_brute_force(void **state) {
    (void)state;
    unsigned above_bound = 0;
    for (uint64_t seed = 1; seed <= 700; seed += MNEM_SANITIZED ? 3 : 1)
        assert_optimal(2 + seed % 7, seed, &above_bound);
    assert_in_range(above_bound, 20, 600); /* optima that need a proof are among them */
}

static void nine_buffers_equal_brute_force(void **state) {
    (void)state;
    unsigned above_bound = 0;
    for (uint64_t seed = 1; seed <= 20; seed += MNEM_SANITIZED ? 3 : 1)
        assert_optimal(9, seed, &above_bound);
}

/* ---- larger ones ---- */

enum { LAYERS = 60, MANY = 3 * LAYERS };

typedef struct step {
    mnem_place_buffer b[MANY];
    mnem_place_constraint w[MANY];
    mnem_place_gap gaps[LAYERS];
} step;

/* What each layer keeps takes turns: all of it fits where the two largest do. */
static void make_step(step *x) {
    uint64_t random = 9;
    memset(x, 0, sizeof *x);
    for (int64_t i = 0; i < LAYERS; i++) {
        const int64_t back = 8 * LAYERS - 4 * i;
        const uint64_t bytes = 64 * (1 + next_random(&random) % 40);
        x->b[i] = (mnem_place_buffer){.lower = 4 * i, .upper = back, .bytes = bytes};
        x->gaps[i] = (mnem_place_gap){.lower = 4 * i + 6, .upper = back - 6};
        if (x->gaps[i].lower < x->gaps[i].upper)
            x->w[i] = (mnem_place_constraint){.gaps = &x->gaps[i], .gap_count = 1};
        x->b[LAYERS + i] =
            (mnem_place_buffer){.lower = 4 * i + 1, .upper = 4 * i + 5, .bytes = bytes / 2};
        x->b[2 * LAYERS + i] =
            (mnem_place_buffer){.lower = back - 4, .upper = back - 1, .bytes = bytes};
    }
}

static void assert_step_valid(const step *x) {
    for (size_t i = 0; i < MANY; i++)
        for (size_t j = 0; j < i; j++) {
            const mnem_place_buffer *a = &x->b[i], *b = &x->b[j];
            if (a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset) continue;
            for (int64_t t = 0; t < 8 * LAYERS; t++) {
                const bool i_alive =
                    t >= a->lower && t < a->upper &&
                    !(x->w[i].gap_count && t >= x->gaps[i].lower && t < x->gaps[i].upper);
                const bool j_alive =
                    t >= b->lower && t < b->upper &&
                    !(x->w[j].gap_count && t >= x->gaps[j].lower && t < x->gaps[j].upper);
                assert_false(i_alive && j_alive);
            }
        }
}

static void a_step_with_gaps_reaches_the_bound(void **state) {
    (void)state;
    static step x;
    mnem_place_result r;
    make_step(&x);
    const mnem_place_options options = {.seconds = 1e6};
    assert_int_equal(mnem_place_solve_constrained(x.b, x.w, MANY, &options, &r), MNEM_OK);
    assert_step_valid(&x);
    assert_int_equal(r.verdict, MNEM_PLACE_OPTIMAL);
}

static void as_many_steps_are_the_same_again(void **state) {
    (void)state;
    static step x, y;
    mnem_place_result r, again;
    make_step(&x);
    make_step(&y);
    for (size_t i = 0; i < MANY; i += 3) x.b[i].bytes += 192, y.b[i].bytes += 192;
    const mnem_place_options options = {.seconds = 1e6, .steps_max = 40000, .seed = 3};
    assert_int_equal(mnem_place_solve_constrained(x.b, x.w, MANY, &options, &r), MNEM_OK);
    assert_int_equal(mnem_place_solve_constrained(y.b, y.w, MANY, &options, &again), MNEM_OK);
    assert_memory_equal(x.b, y.b, sizeof x.b);
    assert_int_equal(r.nodes, again.nodes);
    assert_step_valid(&x);
    assert_int_equal(mnem_place_solve(x.b, MANY, &options, &r), MNEM_OK);
    assert_int_equal(mnem_place_solve(y.b, MANY, &options, &again), MNEM_OK);
    assert_memory_equal(x.b, y.b, sizeof x.b);
}

static bool stop_at_ten(void *context) {
    unsigned *asked = context;
    return ++*asked >= 10;
}

static void a_stopped_search_keeps_its_best(void **state) {
    (void)state;
    static step x;
    unsigned stopped = 0;
    for (int gaps = 0; gaps < 2; gaps++) {
        mnem_place_result r;
        unsigned asked = 0;
        make_step(&x);
        const mnem_place_options options = {
            .seconds = 1e6, .stop = stop_at_ten, .stop_context = &asked};
        for (size_t i = 0; i < MANY; i++) x.b[i].bytes += 64 * (i % 7);
        const mnem_place_constraint *constraints = gaps ? x.w : NULL;
        assert_int_equal(mnem_place_solve_constrained(x.b, constraints, MANY, &options, &r),
                         MNEM_OK);
        if (r.verdict == MNEM_PLACE_FEASIBLE) assert_int_equal(asked, 10);
        stopped += r.verdict == MNEM_PLACE_FEASIBLE;
        assert_true(r.peak_bytes >= r.lower_bound_bytes);
        assert_step_valid(&x);
    }
    assert_true(stopped > 0);
}

static void failing_heap_is_reported_at_every_call(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 200};
    mnem_status status;
    do {
        instance x;
        mnem_place_result r;
        make(&x, 9, 5);
        const mnem_place_options options = {.seconds = 0.01};
        heap_sweep_begin(&sweep, true);
        status = mnem_place_solve_constrained(x.b, x.w, x.n, &options, &r);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_8_buffers_equal_brute_force),
        cmocka_unit_test(nine_buffers_equal_brute_force),
        cmocka_unit_test(a_step_with_gaps_reaches_the_bound),
        cmocka_unit_test(as_many_steps_are_the_same_again),
        cmocka_unit_test(a_stopped_search_keeps_its_best),
        cmocka_unit_test(failing_heap_is_reported_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
