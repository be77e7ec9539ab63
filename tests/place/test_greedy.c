/* test_greedy.c: placements are checked by brute force: no two that live together share a byte. */
#include <stdio.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/place.h"

static void assert_valid(const mnem_place_buffer *b, size_t n, const mnem_place_result *r) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t alignment = b[i].alignment ? b[i].alignment : 64;
        assert_int_equal(b[i].offset % alignment, 0);
        assert_true(b[i].offset + b[i].bytes <= r->peak_bytes);
        for (size_t j = 0; j < i; j++) {
            const bool together = b[i].lower < b[j].upper && b[j].lower < b[i].upper;
            const bool apart =
                b[i].offset + b[i].bytes <= b[j].offset || b[j].offset + b[j].bytes <= b[i].offset;
            assert_true(!together || apart);
        }
    }
    assert_true(r->lower_bound_bytes <= r->peak_bytes);
}

static void random_instances_are_valid(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t random = seed;
        mnem_place_buffer b[60];
        const size_t n = 1 + next_random(&random) % 60;
        for (size_t i = 0; i < n; i++) {
            const int64_t lower = (int64_t)(next_random(&random) % 40);
            b[i] = (mnem_place_buffer){.lower = lower,
                                       .upper = lower + 1 + (int64_t)(next_random(&random) % 15),
                                       .bytes = next_random(&random) % 5000,
                                       .alignment = (uint64_t)1 << next_random(&random) % 13};
            if (b[i].alignment == 1) b[i].alignment = 0;
        }
        mnem_place_result r;
        assert_int_equal(mnem_place_greedy(b, n, &r), MNEM_OK);
        assert_valid(b, n, &r);
    }
}

static void buffers_that_never_meet_share_bytes(void **state) {
    (void)state;
    mnem_place_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 100},
                              {.lower = 2, .upper = 3, .bytes = 80}};
    mnem_place_result r;
    assert_int_equal(mnem_place_greedy(b, 2, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 100);
    assert_int_equal(b[0].offset, 0);
    assert_int_equal(b[1].offset, 0);
}

static void a_chain_takes_no_more_than_its_widest_moment(void **state) {
    (void)state;
    mnem_place_buffer b[50];
    for (int i = 0; i < 50; i++)
        b[i] = (mnem_place_buffer){.lower = i, .upper = i + 2, .bytes = 640};
    mnem_place_result r;
    assert_int_equal(mnem_place_greedy(b, 50, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 1280);
    assert_int_equal(r.lower_bound_bytes, 1280);
    assert_int_equal(r.total_bytes, 50 * 640);
}

/* Those alive together, one after another, in every order. */
static uint64_t least_of_every_order(const mnem_place_buffer *b, unsigned left, uint64_t at) {
    uint64_t least = left ? UINT64_MAX : at;
    for (int i = 0; left >> i; i++) {
        if (!(left >> i & 1)) continue;
        const uint64_t offset = (at + b[i].alignment - 1) & -b[i].alignment;
        const uint64_t peak = least_of_every_order(b, left & ~(1u << i), offset + b[i].bytes);
        if (peak < least) least = peak;
    }
    return least;
}

static void the_bound_counts_alignment(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed;
        mnem_place_buffer b[6];
        const bool same = seed % 2;
        const uint64_t alignment = (uint64_t)1 << next_random(&random) % 9;
        const unsigned n = 1 + (unsigned)(next_random(&random) % 6);
        for (unsigned i = 0; i < n; i++)
            b[i] = (mnem_place_buffer){.upper = 1,
                                       .bytes = 1 + next_random(&random) % 300,
                                       .alignment = same ? alignment
                                                         : (uint64_t)1 << next_random(&random) % 9};
        mnem_place_result greedy, solved;
        assert_int_equal(mnem_place_greedy(b, n, &greedy), MNEM_OK);
        assert_int_equal(mnem_place_solve(b, n, NULL, &solved), MNEM_OK);
        const uint64_t least = least_of_every_order(b, (1u << n) - 1, 0);
        if (greedy.lower_bound_bytes > least) print_message("seed %d\n", (int)seed);
        assert_true(greedy.lower_bound_bytes <= least);
        if (same && alignment <= 64) assert_int_equal(greedy.lower_bound_bytes, least);
        assert_int_equal(solved.peak_bytes, least);
        assert_true(solved.lower_bound_bytes <= least);
    }
}

/* Sizes that would overflow when they are rounded up. */
static void the_bound_does_without_alignment_where_sums_would_overflow(void **state) {
    (void)state;
    mnem_place_buffer b[3];
    mnem_place_result r;
    for (int i = 0; i < 3; i++)
        b[i] = (mnem_place_buffer){.upper = 1, .bytes = 1, .alignment = UINT64_C(1) << 62};
    assert_int_equal(mnem_place_greedy(b, 2, &r), MNEM_OK);
    assert_int_equal(r.lower_bound_bytes, 2);
    assert_int_equal(r.peak_bytes, (UINT64_C(1) << 62) + 1);
    assert_int_equal(mnem_place_solve(b, 1, NULL, &r), MNEM_OK);
    assert_int_equal(r.lower_bound_bytes, 1);
}

static void wrong_buffers_are_refused(void **state) {
    (void)state;
    mnem_place_result r;
    mnem_place_buffer reversed = {.lower = 3, .upper = 3, .bytes = 1};
    assert_int_equal(mnem_place_greedy(&reversed, 1, &r), MNEM_INVALID);
    mnem_place_buffer crooked = {.lower = 0, .upper = 1, .bytes = 1, .alignment = 48};
    assert_int_equal(mnem_place_greedy(&crooked, 1, &r), MNEM_INVALID);
    mnem_place_buffer huge[2] = {{.lower = 0, .upper = 1, .bytes = UINT64_MAX},
                                 {.lower = 0, .upper = 1, .bytes = 2}};
    assert_int_equal(mnem_place_greedy(huge, 2, &r), MNEM_INVALID);
    assert_int_equal(mnem_place_greedy(NULL, 0, &r), MNEM_OK);
    assert_int_equal(r.peak_bytes, 0);
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    mnem_place_buffer b = {.lower = 0, .upper = 1, .bytes = 1};
    mnem_place_result r;
    mnem__heap_fail_at(1, false);
    assert_int_equal(mnem_place_greedy(&b, 1, &r), MNEM_NO_MEMORY);
    assert_int_equal(mnem_place_greedy(&b, 1, &r), MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_instances_are_valid),
        cmocka_unit_test(buffers_that_never_meet_share_bytes),
        cmocka_unit_test(a_chain_takes_no_more_than_its_widest_moment),
        cmocka_unit_test(the_bound_counts_alignment),
        cmocka_unit_test(the_bound_does_without_alignment_where_sums_would_overflow),
        cmocka_unit_test(wrong_buffers_are_refused),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
