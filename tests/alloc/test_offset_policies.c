/* test_offset_policies.c: what one policy of the offset allocators promises beside the others. */
#include <string.h>

#include "alloc/offset_case.h"

static void policies_have_names(void **state) {
    (void)state;
    mnem_offset_policy p;
    for (int i = 0; i < MNEM_OFFSET_POLICY_COUNT; i++) {
        must(mnem_offset_policy_parse(mnem_offset_policy_text((mnem_offset_policy)i), &p));
        assert_int_equal(p, i);
    }
    assert_int_equal(mnem_offset_policy_parse("magic", &p), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "magic"));
    assert_non_null(strstr(mnem_last_error(), "best-fit"));
    assert_string_equal(mnem_offset_policy_text(MNEM_OFFSET_POLICY_COUNT), "unknown policy");
}

/* Free runs of 9, 4, 6, 4 and 3 units, in this order, with a live unit behind each; the last 100
 * units are free too. Offsets in units. */
enum { HOLE_9 = 0, HOLE_4 = 10, HOLE_6 = 15, HOLE_4_AGAIN = 22, HOLE_3 = 27, TAIL = 31 };

static mnem_offset_allocator *with_holes(mnem_offset_policy policy) {
    static const uint64_t walls[] = {9, 14, 21, 26, 30};
    mnem_offset_allocator *a = make(policy, (TAIL + 100) * UNIT);
    mnem_offset_block b;
    for (size_t i = 0; i < sizeof walls / sizeof *walls; i++)
        must(mnem_offset_alloc_at(a, walls[i] * UNIT, UNIT, &b));
    must(mnem_offset_check(a));
    return a;
}

static uint64_t taken_at(mnem_offset_allocator *a, uint64_t units) {
    return take(a, units * UNIT).offset / UNIT;
}

static void best_fit_takes_the_smallest_that_is_large_enough(void **state) {
    (void)state;
    mnem_offset_allocator *a = with_holes(MNEM_OFFSET_BEST_FIT);
    assert_int_equal(taken_at(a, 5), HOLE_6);
    assert_int_equal(taken_at(a, 4), HOLE_4); /* of equals the lowest */
    assert_int_equal(taken_at(a, 4), HOLE_4_AGAIN);
    assert_int_equal(taken_at(a, 1), HOLE_6 + 5);
    assert_int_equal(taken_at(a, 1), HOLE_3);
    assert_int_equal(taken_at(a, 9), HOLE_9);
    assert_int_equal(taken_at(a, 3), TAIL);
    mnem_offset_destroy(a);
}

static void first_fit_takes_the_lowest_that_is_large_enough(void **state) {
    (void)state;
    mnem_offset_allocator *a = with_holes(MNEM_OFFSET_FIRST_FIT);
    assert_int_equal(taken_at(a, 5), HOLE_9);
    assert_int_equal(taken_at(a, 5), HOLE_6);
    assert_int_equal(taken_at(a, 4), HOLE_9 + 5);
    assert_int_equal(taken_at(a, 3), HOLE_4);
    assert_int_equal(taken_at(a, 1), HOLE_4 + 3);
    assert_int_equal(taken_at(a, 10), TAIL);
    mnem_offset_destroy(a);
}

static void worst_fit_takes_the_largest(void **state) {
    (void)state;
    mnem_offset_allocator *a = with_holes(MNEM_OFFSET_WORST_FIT);
    assert_int_equal(taken_at(a, 3), TAIL);
    assert_int_equal(taken_at(a, 90), TAIL + 3);
    assert_int_equal(taken_at(a, 1), HOLE_9);
    assert_int_equal(taken_at(a, 1), HOLE_9 + 1);
    mnem_offset_destroy(a);
}

static void tlsf_takes_the_newest_of_the_first_class_that_is_large_enough(void **state) {
    (void)state;
    mnem_offset_allocator *a = with_holes(MNEM_OFFSET_TLSF);
    assert_int_equal(taken_at(a, 5), HOLE_6);
    assert_int_equal(taken_at(a, 4), HOLE_4_AGAIN);
    assert_int_equal(taken_at(a, 4), HOLE_4);
    assert_int_equal(taken_at(a, 99), TAIL); /* of a class that has smaller ones, too */
    mnem_offset_destroy(a);
}

static void buddies_are_aligned_powers_of_two(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(MNEM_OFFSET_BUDDY, 1024 * UNIT);
    for (uint64_t units = 1; units < 60; units++) {
        const mnem_offset_block b = take(a, units * UNIT);
        const uint64_t bytes = mnem_offset_block_bytes(a, b.handle);
        assert_int_equal(bytes & (bytes - 1), 0);
        assert_int_equal(b.offset % bytes, 0);
        assert_true(bytes >= units * UNIT && bytes < 2 * units * UNIT);
        mnem_offset_free(a, b.handle);
        assert_int_equal(info_of(a).bytes_largest_free, 1024 * UNIT);
    }
    mnem_offset_destroy(a);
}

static void a_bucket_gives_back_the_block_that_came_last(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(MNEM_OFFSET_BUCKET, 1024 * UNIT);
    const mnem_offset_block x = take(a, 100 * UNIT), y = take(a, 100 * UNIT);
    assert_int_equal(mnem_offset_block_bytes(a, x.handle), 104 * UNIT); /* eight to a doubling */
    mnem_offset_free(a, y.handle);
    mnem_offset_free(a, x.handle);
    assert_int_equal(take(a, 97 * UNIT).offset, x.offset);
    assert_int_equal(take(a, 104 * UNIT).offset, y.offset);
    mnem_offset_destroy(a);
}

static void bump_goes_up_and_takes_back_the_top(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(MNEM_OFFSET_BUMP, 100 * UNIT);
    const mnem_offset_block x = take(a, 10 * UNIT), y = take(a, 10 * UNIT), z = take(a, UNIT);
    assert_int_equal(z.offset, 20 * UNIT);
    mnem_offset_free(a, x.handle);
    assert_int_equal(take(a, UNIT).offset, 21 * UNIT); /* not into the hole */
    mnem_offset_free(a, z.handle);
    mnem_offset_free(a, y.handle);
    assert_int_equal(info_of(a).bytes_largest_free, 78 * UNIT);
    mnem_offset_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_have_names),
        cmocka_unit_test(best_fit_takes_the_smallest_that_is_large_enough),
        cmocka_unit_test(first_fit_takes_the_lowest_that_is_large_enough),
        cmocka_unit_test(worst_fit_takes_the_largest),
        cmocka_unit_test(tlsf_takes_the_newest_of_the_first_class_that_is_large_enough),
        cmocka_unit_test(buddies_are_aligned_powers_of_two),
        cmocka_unit_test(a_bucket_gives_back_the_block_that_came_last),
        cmocka_unit_test(bump_goes_up_and_takes_back_the_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
