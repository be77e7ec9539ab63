/* test_offset.c: one suite for every policy of the offset allocators.
 *
 * All policies together do a million random operations; `test_offset 5` does as many on each. */
#include <stdlib.h>
#include <string.h>

#include "alloc/offset_oracle.h"
#include "base/heap.h"

enum { SLOWER = MNEM_SANITIZED ? 25 : 5 };

static int times = 1; /* so many more random operations */

static mnem_offset_policy policy_of(void **state) {
    return (mnem_offset_policy)(uintptr_t)*state;
}

/* ---- conformance: state is the policy ---- */

/* Ranges and how often all is checked: after every step of the small ones. */
static void a_million_random_operations_keep_every_invariant(void **state) {
    static const struct {
        uint64_t units;
        int steps, every;
    } runs[] = {{40, 300000, 1},
                {160, 200000, 1},
                {640, 100000, 1},
                {16384, 250000, 500},
                {65536, 150000, 2000}};
    random_seed(20261121);
    for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
        oracle o = oracle_make(policy_of(state), runs[run].units);
        uint64_t fill = 0;
        for (int i = 0; i < runs[run].steps / SLOWER * times; i++) {
            const bool check = i % runs[run].every == 0;
            if (i % 5000 == 0) fill = random_below(o.units + 1) * UNIT;
            if (i % 50000 == 49999)
                while (o.count) oracle_drop(&o, o.count - 1);
            oracle_step(&o, fill, o.units * UNIT / 4, check);
            if (check) oracle_check(&o);
        }
        while (o.count) oracle_drop(&o, (uint32_t)random_below(o.count));
        oracle_check(&o);
        oracle_free(&o);
    }
}

static void hostile_sizes_are_refused(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), 1 * MIB + 100); /* the rest isn't managed */
    mnem_offset_block b = {.offset = 5, .handle = 7};
    assert_int_equal(info_of(a).bytes, 1 * MIB);
    assert_int_equal(mnem_offset_alloc(a, 0, &b), MNEM_INVALID);
    const uint64_t large[] = {MIB + 1,   MIB * 2,        UINT64_MAX,
                              INT64_MAX, UINT64_MAX - 1, UINT64_MAX - UNIT + 2};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_int_equal(mnem_offset_alloc(a, large[i], &b), MNEM_OVER_BUDGET);
    assert_int_equal(b.offset, 5);
    assert_int_equal(b.handle, 7);
    must(mnem_offset_check(a));
    const mnem_offset_block all = take(a, MIB - 1);
    assert_int_equal(all.offset, 0);
    assert_int_equal(mnem_offset_block_bytes(a, all.handle), MIB);
    assert_int_equal(info_of(a).bytes_largest_free, 0);
    assert_int_equal(mnem_offset_alloc(a, 1, &b), MNEM_OVER_BUDGET);
    mnem_offset_free(a, all.handle);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void alignments_from_1_to_4_gib_hold(void **state) {
    for (int shift = 0; shift <= 32; shift++) {
        const uint64_t unit = UINT64_C(1) << shift;
        mnem_offset_options o = {.policy = policy_of(state), .bytes = 9 * unit, .alignment = unit};
        mnem_offset_allocator *a;
        must(mnem_offset_create(&o, &a));
        const mnem_offset_block x = take(a, 1), y = take(a, 3 * unit), z = take(a, unit);
        assert_int_equal((x.offset | y.offset | z.offset) % unit, 0);
        assert_int_equal(mnem_offset_block_bytes(a, x.handle), unit);
        must(mnem_offset_check(a));
        mnem_offset_free(a, y.handle);
        must(mnem_offset_check(a));
        mnem_offset_destroy(a);
    }
}

static void wrong_options_are_refused(void **state) {
    mnem_offset_allocator *a = NULL;
    const mnem_offset_policy p = policy_of(state);
    const mnem_offset_options wrong[] = {
        {.policy = p, .bytes = MIB, .alignment = 3},
        {.policy = p, .bytes = MIB, .alignment = UINT64_C(1) << 33},
        {.policy = p, .bytes = (UINT64_C(1) << 62) + 1},
        {.policy = p, .bytes = UINT64_MAX},
        {.policy = MNEM_OFFSET_POLICY_COUNT, .bytes = MIB},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mnem_offset_create(&wrong[i], &a), MNEM_INVALID);
    assert_null(a);
    mnem_offset_destroy(NULL);
}

static void the_largest_ranges_work_or_are_unsupported(void **state) {
    for (int shift = 40; shift <= 62; shift++) {
        mnem_offset_options o = {.policy = policy_of(state), .bytes = UINT64_C(1) << shift};
        mnem_offset_allocator *a;
        const mnem_status status = mnem_offset_create(&o, &a);
        if (status == MNEM_UNSUPPORTED) return;
        must(status);
        const mnem_offset_block x = take(a, o.bytes / 2), y = take(a, o.bytes / 2);
        assert_int_equal(x.offset + y.offset, o.bytes / 2);
        must(mnem_offset_check(a));
        mnem_offset_free(a, y.handle);
        take(a, 1);
        must(mnem_offset_check(a));
        mnem_offset_destroy(a);
    }
}

static void an_empty_range_has_nothing(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), UNIT - 1);
    mnem_offset_block b;
    assert_int_equal(mnem_offset_alloc(a, 1, &b), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_offset_alloc(a, 0, &b), MNEM_INVALID);
    const mnem_offset_info info = info_of(a);
    assert_int_equal(info.bytes | info.bytes_largest_free | info.runs_free, 0);
    must(mnem_offset_check(a));
    mnem_offset_reset(a);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void a_range_grows_at_its_end(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), 0);
    if (policy_of(state) == MNEM_OFFSET_BUDDY) {
        assert_int_equal(mnem_offset_extend(a, MIB), MNEM_UNSUPPORTED);
        mnem_offset_destroy(a);
        return;
    }
    must(mnem_offset_extend(a, MIB + 3));
    const mnem_offset_block x = take(a, MIB); /* the end is live */
    must(mnem_offset_extend(a, 2 * MIB));
    const mnem_offset_block y = take(a, MIB / 2); /* the end is free */
    assert_int_equal(y.offset, MIB);
    must(mnem_offset_check(a));
    must(mnem_offset_extend(a, 4 * MIB));
    must(mnem_offset_check(a));
    assert_int_equal(info_of(a).bytes, 4 * MIB);
    assert_int_equal(info_of(a).bytes_largest_free, 5 * MIB / 2);
    must(mnem_offset_extend(a, MIB)); /* has them already */
    assert_int_equal(info_of(a).bytes, 4 * MIB);
    assert_int_equal(mnem_offset_extend(a, UINT64_MAX), MNEM_INVALID);
    mnem_offset_free(a, x.handle);
    mnem_offset_free(a, y.handle);
    assert_int_equal(take(a, 4 * MIB).offset, 0);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void growing_by_steps_equals_starting_large(void **state) {
    if (policy_of(state) == MNEM_OFFSET_BUDDY) skip();
    oracle o = oracle_make(policy_of(state), 4096);
    mnem_offset_destroy(o.a);
    o.a = make(o.policy, 0);
    random_seed(77);
    for (o.units = 16; o.units <= 4096; o.units += 16) {
        must(mnem_offset_extend(o.a, o.units * UNIT));
        oracle_check(&o);
        for (int i = 0; i < 20; i++) oracle_step(&o, o.units * UNIT, o.units * UNIT / 4, true);
        oracle_check(&o);
    }
    oracle_free(&o);
}

static void a_block_can_be_put_where_the_caller_says(void **state) {
    const mnem_offset_policy policy = policy_of(state);
    mnem_offset_allocator *a = make(policy, 64 * UNIT);
    mnem_offset_block b, c;
    if (!exact(policy)) {
        assert_int_equal(mnem_offset_alloc_at(a, 0, 10, &b), MNEM_UNSUPPORTED);
        mnem_offset_destroy(a);
        return;
    }
    must(mnem_offset_alloc_at(a, 10 * UNIT, 5 * UNIT - 7, &b));
    assert_int_equal(b.offset, 10 * UNIT);
    assert_int_equal(mnem_offset_block_bytes(a, b.handle), 5 * UNIT);
    must(mnem_offset_check(a));
    for (uint64_t from = 6; from < 15; from++) /* the end, the middle, all of it */
        assert_int_equal(mnem_offset_alloc_at(a, from * UNIT, 5 * UNIT, &c), MNEM_BUSY);
    assert_int_equal(mnem_offset_alloc_at(a, 0, 64 * UNIT, &c), MNEM_BUSY);
    must(mnem_offset_alloc_at(a, 15 * UNIT, 49 * UNIT, &c)); /* up to the end */
    must(mnem_offset_check(a));
    mnem_offset_free(a, b.handle);
    must(mnem_offset_alloc_at(a, 0, 15 * UNIT, &b)); /* all of a free run */
    must(mnem_offset_check(a));
    assert_int_equal(info_of(a).bytes_live, 64 * UNIT);
    assert_int_equal(info_of(a).runs_free, 0);
    assert_int_equal(mnem_offset_alloc_at(a, UNIT / 2, 1, &c), MNEM_INVALID);
    assert_int_equal(mnem_offset_alloc_at(a, 0, 0, &c), MNEM_INVALID);
    assert_int_equal(mnem_offset_alloc_at(a, 64 * UNIT, 1, &c), MNEM_INVALID);
    assert_int_equal(mnem_offset_alloc_at(a, 63 * UNIT, UNIT + 1, &c), MNEM_INVALID);
    assert_int_equal(mnem_offset_alloc_at(a, UNIT, UINT64_MAX, &c), MNEM_INVALID);
    assert_int_equal(mnem_offset_alloc_at(a, UINT64_MAX - UNIT + 1, UNIT, &c), MNEM_INVALID);
    mnem_offset_destroy(a);
}

static void blocks_at_offsets_mix_with_others(void **state) {
    if (!exact(policy_of(state))) skip();
    oracle o = oracle_make(policy_of(state), 512);
    random_seed(4711);
    for (int i = 0; i < 20000 / SLOWER * times; i++) {
        const uint64_t from = random_below(o.units), n = 1 + random_below(o.units - from) % 20;
        mnem_offset_block b;
        if (i % 3 == 0) {
            const bool busy = memchr(o.owned + from, 1, n);
            const mnem_status status = mnem_offset_alloc_at(o.a, from * UNIT, n * UNIT, &b);
            assert_int_equal(status, busy ? MNEM_BUSY : MNEM_OK);
            if (!busy) {
                assert_int_equal(b.offset, from * UNIT);
                oracle_add(&o, n * UNIT, b);
            }
        } else {
            oracle_step(&o, o.units * UNIT / 2, 32 * UNIT, true);
        }
        oracle_check(&o);
    }
    oracle_free(&o);
}

/* The offsets of a fixed sequence of calls, as one number. */
static uint64_t offsets_hashed(mnem_offset_allocator *a) {
    enum { SLOTS = 300 };
    uint32_t handles[SLOTS];
    bool used[SLOTS] = {false};
    uint64_t hash = 0;
    random_seed(99);
    for (int i = 0; i < 20000; i++) {
        const uint64_t slot = random_below(SLOTS), bytes = 1 + random_below(20 * UNIT);
        mnem_offset_block b;
        if (used[slot]) {
            mnem_offset_free(a, handles[slot]);
            used[slot] = false;
        } else if (mnem_offset_alloc(a, bytes, &b) == MNEM_OK) {
            handles[slot] = b.handle;
            used[slot] = true;
            hash = (hash ^ b.offset) * UINT64_C(0x9e3779b97f4a7c15);
        }
    }
    return hash;
}

static void the_same_calls_give_the_same_offsets(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), 2000 * UNIT);
    mnem_offset_allocator *b = make(policy_of(state), 2000 * UNIT);
    const uint64_t hash = offsets_hashed(a);
    assert_int_equal(offsets_hashed(b), hash);
    mnem_offset_reset(a); /* is as new */
    must(mnem_offset_check(a));
    assert_int_equal(info_of(a).blocks_live, 0);
    assert_int_equal(info_of(a).bytes_live, 0);
    assert_int_equal(info_of(a).bytes, 2000 * UNIT);
    assert_int_equal(offsets_hashed(a), hash);
    mnem_offset_destroy(a);
    mnem_offset_destroy(b);
}

static void handles_are_reused(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), 64 * MIB);
    const mnem_offset_block fixed = take(a, UNIT);
    for (int i = 0; i < 100000; i++) {
        const mnem_offset_block b = take(a, 5 * UNIT), c = take(a, 3 * UNIT);
        assert_true(b.handle != c.handle && b.handle != fixed.handle && c.handle != fixed.handle);
        assert_true(b.handle < 1000 && c.handle < 1000);
        mnem_offset_free(a, i % 2 ? b.handle : c.handle);
        mnem_offset_free(a, i % 2 ? c.handle : b.handle);
    }
    assert_int_equal(mnem_offset_block_bytes(a, fixed.handle), UNIT);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void a_walk_shows_blocks_with_their_handles(void *context, uint64_t offset, uint64_t bytes,
                                                   uint32_t handle) {
    uint64_t *expected = context; /* offset of the next run, handle that starts at 0 */
    assert_int_equal(offset, expected[0]);
    if (offset == 0) assert_int_equal(handle, expected[1]);
    expected[0] += bytes;
}

static void a_walk_is_in_order_and_complete(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), MIB);
    const mnem_offset_block b = take(a, 8 * UNIT), c = take(a, 8 * UNIT), d = take(a, 8 * UNIT);
    uint64_t expected[2] = {0, b.offset == 0 ? b.handle : c.offset == 0 ? c.handle : d.handle};
    if (b.offset && c.offset && d.offset) expected[1] = UINT32_MAX;
    mnem_offset_walk(a, a_walk_shows_blocks_with_their_handles, expected);
    assert_int_equal(expected[0], MIB);
    mnem_offset_destroy(a);
}

/* ---- heap ---- */

static void no_memory_at_create_leaks_nothing(void **state) {
    mnem_heap_usage before, after;
    mnem_offset_options o = {.policy = policy_of(state), .bytes = 4 * MIB, .blocks_max = 20000};
    for (uint64_t n = 1;; n++) {
        mnem_offset_allocator *a = NULL;
        mnem_heap_usage_get(&before);
        mnem__heap_fail_at(n, false);
        const mnem_status status = mnem_offset_create(&o, &a);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) mnem_offset_destroy(a);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (status == MNEM_OK) return;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_true(n < 2000);
    }
}

/* Allocates until one call needed heap that it didn't get; the next one has it. */
static void no_memory_for_metadata_changes_nothing(void **state) {
    mnem_offset_allocator *a = make(policy_of(state), 16 * MIB);
    mnem_offset_block b;
    int refused = 0;
    mnem_status status;
    for (int i = 0; i < 65536; i++) {
        mnem__heap_fail_at(1, true);
        status = mnem_offset_alloc(a, UNIT, &b);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) continue;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_int_equal(info_of(a).blocks_live, i);
        assert_int_equal(info_of(a).bytes_live, i * UNIT);
        must(mnem_offset_check(a));
        must(mnem_offset_alloc(a, UNIT, &b));
        refused++;
    }
    print_message("%d allocations needed heap\n", refused);
    assert_true(refused > 0);
    assert_int_equal(info_of(a).blocks_live, 65536);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void no_memory_while_growing_changes_nothing(void **state) {
    if (policy_of(state) == MNEM_OFFSET_BUDDY) skip();
    mnem_offset_allocator *a = make(policy_of(state), MIB);
    take(a, MIB);
    mnem__heap_fail_at(1, true);
    const mnem_status status = mnem_offset_extend(a, UINT64_C(1) << 36);
    mnem__heap_fail_at(0, false);
    must(mnem_offset_check(a));
    if (status != MNEM_OK) {
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_int_equal(info_of(a).bytes, MIB);
        must(mnem_offset_extend(a, UINT64_C(1) << 36));
    }
    assert_int_equal(info_of(a).bytes_largest_free, (UINT64_C(1) << 36) - MIB);
    mnem_offset_destroy(a);
}

/* Every second block is freed, so that there are as many free runs as live ones; each round has
 * larger blocks, which the free runs of the last one don't serve. */
static void up_to_blocks_max_no_call_takes_heap(void **state) {
    enum { BLOCKS = 5000 };
    static uint32_t handles[BLOCKS];
    mnem_heap_usage before, after;
    mnem_offset_options o = {.policy = policy_of(state), .bytes = 64 * MIB, .blocks_max = BLOCKS};
    mnem_offset_allocator *a;
    must(mnem_offset_create(&o, &a));
    mnem_heap_usage_get(&before);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < BLOCKS; i++)
            handles[i] = take(a, (uint64_t)(1 + 3 * round + i % 3) * UNIT).handle;
        for (int i = round % 2; i < BLOCKS; i += 2) mnem_offset_free(a, handles[i]);
        for (int i = round % 2; i < BLOCKS; i += 2)
            handles[i] = take(a, (uint64_t)(2 + 3 * round + i % 3) * UNIT).handle;
        for (int i = 0; i < BLOCKS; i++) mnem_offset_free(a, handles[i]);
    }
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

#define EVERY(X)                                                                                   \
    X(a_million_random_operations_keep_every_invariant)                                            \
    X(hostile_sizes_are_refused)                                                                   \
    X(alignments_from_1_to_4_gib_hold)                                                             \
    X(wrong_options_are_refused)                                                                   \
    X(the_largest_ranges_work_or_are_unsupported)                                                  \
    X(an_empty_range_has_nothing)                                                                  \
    X(a_range_grows_at_its_end)                                                                    \
    X(growing_by_steps_equals_starting_large)                                                      \
    X(a_block_can_be_put_where_the_caller_says)                                                    \
    X(blocks_at_offsets_mix_with_others)                                                           \
    X(the_same_calls_give_the_same_offsets)                                                        \
    X(handles_are_reused)                                                                          \
    X(a_walk_is_in_order_and_complete)                                                             \
    X(no_memory_at_create_leaks_nothing)                                                           \
    X(no_memory_for_metadata_changes_nothing)                                                      \
    X(no_memory_while_growing_changes_nothing)                                                     \
    X(up_to_blocks_max_no_call_takes_heap)

/* The suite on one policy; the group's name is the policy's. */
static int every_test_on(mnem_offset_policy policy) {
#define ON_POLICY(test) {#test, test, NULL, NULL, (void *)(uintptr_t)policy},
    const struct CMUnitTest tests[] = {EVERY(ON_POLICY)};
#undef ON_POLICY
    return _cmocka_run_group_tests(mnem_offset_policy_text(policy), tests,
                                   sizeof tests / sizeof *tests, NULL, NULL);
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc > 1) times = atoi(argv[1]);
    for (int i = 0; i < MNEM_OFFSET_POLICY_COUNT; i++)
        failed += every_test_on((mnem_offset_policy)i);
    return failed;
}
