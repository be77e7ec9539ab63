/* test_pool_debug.c: what a pool says about its blocks, through its public calls: leaks by tag and
 * call site, differences, peaks; and in debug mode every kind of misuse, with its places. */
#include <stdio.h>
#include <string.h>

#include "alloc/pool/pool_debug_case.h"
#include "base/heap.h"
#include "kit/kit.h"

/* ---- always on ---- */

static void destroying_with_live_blocks_lists_them_oldest_first(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &plain);
    mnem_pool_block a[3], b;
    const mnem_pool_request pages = {.bytes = 512, .kind = MNEM_KIND_KV, .tag = "pages"};
    must(mnem_pool_alloc(f.pool, &pages, &b));
    const int line = __LINE__ - 1;
    must(mnem_pool_step(f.pool, NULL));
    for (int i = 0; i < 3; i++) TAKE(&f, MIB, NULL, &a[i]);
    assert_int_equal(mnem_pool_destroy(f.pool), MNEM_BUSY);
    char text[200];
    snprintf(text, sizeof text, "kv pages  1 block 512 B  at %s:%d (oldest: step 0)\n", __FILE__,
             line);
    says(text);
    snprintf(text, sizeof text, "weights embed  3 blocks 3 MiB  at model.c:%d (oldest: step 1)\n",
             line + 3);
    says(text);
    assert_true(strstr(mnem_last_error(), "kv") < strstr(mnem_last_error(), "embed"));
    must(mnem_pool_free(f.pool, &b, NULL));
    for (int i = 0; i < 3; i++) must(mnem_pool_free(f.pool, &a[i], NULL));
    fixture_close(&f);
}

static void a_difference_shows_what_a_step_left_behind(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "null", &plain);
    mnem_pool_block before, kept, gone;
    TAKE(&f, 1000, NULL, &before);
    const mnem_live_query since = {.since = mnem_pool_mark(f.pool)};
    TAKE(&f, 2000, NULL, &gone);
    TAKE(&f, 3000, NULL, &kept);
    const unsigned line = __LINE__ - 1;
    must(mnem_pool_free(f.pool, &gone, NULL));
    mnem_live_group g[4];
    assert_int_equal(mnem_pool_live(f.pool, &since, g, 4), 1);
    assert_int_equal(g[0].line, line);
    assert_int_equal(g[0].bytes, 3000);
    const mnem_live_query by_tag = {.by = MNEM_LIVE_BY_TAG, .order = MNEM_LIVE_MOST_BYTES_FIRST};
    assert_int_equal(mnem_pool_live(f.pool, &by_tag, g, 4), 1);
    assert_int_equal(g[0].bytes, 4000);
    assert_int_equal(g[0].bytes_peak, 6000);
    must(mnem_pool_free(f.pool, &kept, NULL));
    must(mnem_pool_free(f.pool, &before, NULL));
    assert_int_equal(mnem_pool_live(f.pool, NULL, g, 4), 0);
    fixture_close(&f);
}

static void a_double_free_is_refused_in_normal_mode(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &plain);
    mnem_pool_block a, copy, b;
    TAKE(&f, 1000, NULL, &a);
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    must(mnem_pool_free(f.pool, &a, NULL)); /* cleared: fine */
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("weights embed");
    TAKE(&f, 1000, NULL, &b); /* the same number again */
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    fixture other;
    fixture_open(&other, "host", &plain);
    assert_int_equal(mnem_pool_free(other.pool, &b, NULL), MNEM_INVALID);
    mnem_pool_block c;
    TAKE(&other, 1000, NULL, &c); /* number 0 there too */
    assert_int_equal(mnem_pool_free(other.pool, &b, NULL), MNEM_INVALID);
    must(mnem_pool_free(other.pool, &c, NULL));
    fixture_close(&other);
    must(mnem_pool_free(f.pool, &b, NULL));
    assert_int_equal(misuses(f.pool), 0); /* kept in debug mode only */
    fixture_close(&f);
}

__attribute__((noinline)) static void take_deep(fixture *f, mnem_pool_block *block) {
    TAKE(f, 64, NULL, block);
}

static void backtraces_tell_two_ways_to_one_site_apart(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "null", &(mnem_pool_options){.backtrace = 4});
    mnem_pool_block a, b;
    take_deep(&f, &a);
    take_deep(&f, &b);
    mnem_live_group g[3];
    assert_int_equal(mnem_pool_live(f.pool, NULL, g, 3), 2);
    assert_int_equal(g[0].line, g[1].line);
    assert_int_equal(g[0].frame_count, 4);
    assert_ptr_equal(g[0].frames[0], g[1].frames[0]); /* in take_deep */
    assert_ptr_not_equal(g[0].frames[1], g[1].frames[1]);
    must(mnem_pool_free(f.pool, &a, NULL));
    must(mnem_pool_free(f.pool, &b, NULL));
    fixture_close(&f);
}

/* ---- debug mode ---- */

static void right_use_is_not_found_fault_with(const mnem_pool_options *options) {
    fixture f;
    fixture_open(&f, "host", options);
    mnem_pool_block blocks[40];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 40; i++) {
            const uint64_t bytes = 1 + (uint64_t)(i * 7919 + round) % (i % 7 ? 5000 : 900000);
            const mnem_pool_request r = {
                .bytes = bytes, .alignment = UINT64_C(1) << (i % 13), .tag = "any"};
            must(mnem_pool_alloc(f.pool, &r, &blocks[i]));
            assert_int_equal(blocks[i].memory.address % (i % 13 > 8 ? r.alignment : 256), 0);
            assert_int_equal(blocks[i].memory.bytes, bytes);
            assert_int_equal(bytes_of(&blocks[i])[bytes - 1], 0xCD);
            memset(bytes_of(&blocks[i]), i, bytes);
        }
        must(mnem_pool_check(f.pool));
        for (int i = 0; i < 40; i++) {
            for (uint64_t k = 0; k < blocks[i].memory.bytes; k++)
                if (bytes_of(&blocks[i])[k] != i) fail_msg("a block was written to by the pool");
            must(mnem_pool_free(f.pool, &blocks[i], NULL));
        }
        must(mnem_pool_step(f.pool, NULL));
        if (round == 2) must(mnem_pool_trim(f.pool, 0, NULL));
        must(mnem_pool_check(f.pool));
    }
    assert_int_equal(f.told, 0);
    assert_int_equal(misuses(f.pool), 0);
    fixture_close(&f);
}

static void right_use_is_not_found_fault_with_in_segments(void **state) {
    (void)state;
    right_use_is_not_found_fault_with(&debug);
}

static void right_use_is_not_found_fault_with_in_a_range(void **state) {
    (void)state;
    right_use_is_not_found_fault_with(&debug_range);
}

static void a_write_past_the_end_is_told_by_the_free(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    bytes_of(&a)[1000] = 0;
    assert_int_equal(mnem_pool_free(f.pool, &a, NULL), MNEM_INVALID);
    const unsigned free_line = __LINE__ - 1;
    char text[300];
    snprintf(
        text, sizeof text,
        "write past the end of weights embed (1000 bytes, allocated at model.c:%u): 1 byte, the "
        "first 1 past the end; found by the free at %s:%u",
        line, __FILE__, free_line);
    says(text);
    assert_int_equal(a.generation, 0); /* given back all the same */
    assert_int_equal(f.told, 1);
    assert_int_equal(f.last.what, MNEM_MISUSE_WRITE_PAST);
    assert_int_equal(f.last.offset, 1000);
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void a_write_before_the_start_is_told_by_a_check(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    bytes_of(&a)[-1] = 0;
    assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
    says("write before the start of weights embed");
    says("1 byte, the first 1 before the start; found by a check");
    must(mnem_pool_check(f.pool)); /* told once */
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(f.told, 1);
    fixture_close(&f);
}

static void a_write_after_free_is_told_when_the_memory_is_taken_again(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[5] = 1;
    TAKE(&f, 1000, NULL, &b);
    assert_int_equal(f.told, 1);
    assert_int_equal(f.last.what, MNEM_MISUSE_USE_AFTER_FREE);
    assert_int_equal(f.last.offset, 5);
    assert_int_equal(f.last.taken.line, line);
    assert_string_equal(f.last.taken.file, "model.c");
    assert_int_equal(f.last.freed.line, line + 3);
    assert_string_equal(f.last.freed.file, __FILE__);
    assert_int_equal(f.last.caller.line, line + 5);
    must(mnem_pool_free(f.pool, &b, NULL));
    fixture_close(&f);
}

static void a_write_after_free_is_told_by_a_check(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[999] = 1;
    assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
    says("write after free of weights embed (1000 bytes");
    says("the first at offset 999");
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void what_nobody_looked_at_is_told_when_the_pool_goes(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    TAKE(&f, 1000, NULL, &b);
    bytes_of(&a)[0] = 1;
    bytes_of(&b)[1000] = 1;
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[1] = 1;
    mnem_pool_destroy_forced(f.pool);
    assert_int_equal(f.told, 2);
    assert_int_equal(f.last.what, MNEM_MISUSE_USE_AFTER_FREE);
    must(mnem_device_close(f.device));
}

static void a_double_free_is_told_with_all_places(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, copy;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    char text[300];
    snprintf(text, sizeof text,
             "double free at %s:%u: weights embed (1000 bytes, allocated at model.c:%u), freed at "
             "%s:%u",
             __FILE__, line + 4, line, __FILE__, line + 3);
    says(text);
    assert_int_equal(f.told, 1);
    fixture_close(&f);
}

static void a_foreign_free_is_told_with_the_place_in_the_other_pool(void **state) {
    (void)state;
    fixture f, other;
    fixture_open(&f, "host", &debug);
    fixture_open(&other, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    TAKE(&other, 2000, NULL, &b);
    const unsigned line = __LINE__ - 1;
    assert_int_equal(mnem_pool_free(f.pool, &b, NULL), MNEM_INVALID);
    char text[300];
    snprintf(
        text, sizeof text,
        "free of a foreign block at %s:%u: weights embed (2000 bytes, allocated at model.c:%u)",
        __FILE__, line + 2, line);
    says(text);
    assert_int_equal(f.last.what, MNEM_MISUSE_FOREIGN_FREE);
    must(mnem_pool_free(other.pool, &b, NULL)); /* nothing changed */
    must(mnem_pool_free(f.pool, &a, NULL));
    fixture_close(&other);
    fixture_close(&f);
}

static void planned_blocks_have_their_size_and_their_free_is_watched(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, copy;
    const mnem_pool_request r = {.bytes = 10000, .tag = "plan", .planned = true};
    must(mnem_pool_alloc(f.pool, &r, &a));
    mnem_pool_info info;
    mnem_pool_info_get(f.pool, &info);
    assert_int_equal(info.bytes_planned,
                     mnem_device_alloc_bytes(f.device, MNEM_SPACE_DEVICE, 10000));
    memset(bytes_of(&a), 1, 10000);
    copy = a;
    must(mnem_pool_check(f.pool));
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("double free");
    fixture_close(&f);
}

/* One wrong byte at a time, anywhere in what the pool watches: each is told once, with its address
 * and its block. */
static void every_wrong_byte_is_told_once(void **state) {
    (void)state;
    enum { BLOCKS = 30, ROUNDS = 600 };
    uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) TAKE(&f, 1 + (uint64_t)i * 333, NULL, &blocks[i]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        mnem_pool_block *b = &blocks[(seed >> 33) % BLOCKS];
        const uint64_t bytes = b->memory.bytes, any = seed >> 40;
        const mnem_misuse_what what = (mnem_misuse_what)(MNEM_MISUSE_USE_AFTER_FREE + any % 3);
        const int64_t offset = what == MNEM_MISUSE_WRITE_BEFORE ? -1 - (int64_t)(any % 256)
                               : what == MNEM_MISUSE_WRITE_PAST ? (int64_t)(bytes + any % 64)
                                                                : (int64_t)(any % bytes);
        const uint64_t address = b->memory.address;
        uint8_t *p = bytes_of(b);
        if (what == MNEM_MISUSE_USE_AFTER_FREE) must(mnem_pool_free(f.pool, b, NULL));
        p[offset] ^= (uint8_t)(1u << any % 8);
        if (what != MNEM_MISUSE_USE_AFTER_FREE)
            assert_int_equal(mnem_pool_free(f.pool, b, NULL), MNEM_INVALID);
        else
            assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
        assert_int_equal(f.told, round + 1);
        assert_int_equal(f.last.what, what);
        assert_int_equal(f.last.offset, offset);
        assert_int_equal(f.last.address, address + (uint64_t)offset);
        assert_int_equal(f.last.wrong, 1);
        assert_int_equal(f.last.bytes, bytes);
        TAKE(&f, bytes, NULL, b);
    }
    for (int i = 0; i < BLOCKS; i++) must(mnem_pool_free(f.pool, &blocks[i], NULL));
    must(mnem_pool_check(f.pool));
    assert_int_equal(f.told, ROUNDS);
    fixture_close(&f);
}

static void wrong_frees_are_told_on(const char *name, bool hidden) {
    fixture f = {0};
    must(mnem_device_open(name, &(mnem_device_options){.host_hidden = hidden}, &f.device));
    const mnem_pool_options o = {.device = f.device,
                                 .bytes_max = 64 * MIB,
                                 .debug = true,
                                 .on_misuse = on_misuse,
                                 .context = &f};
    must(mnem_pool_create(&o, &f.pool));
    mnem_pool_block a, copy;
    TAKE(&f, 1000, NULL, &a);
    assert_null(mnem_block_host(&a.memory));
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("double free at");
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void devices_without_memory_still_tell_wrong_frees(void **state) {
    (void)state;
    wrong_frees_are_told_on("null", false);
}

static void memory_that_the_host_cannot_see_still_tells_wrong_frees(void **state) {
    (void)state;
    wrong_frees_are_told_on("host", true);
}

/* Every allocation of the heap refused once, in debug mode with backtraces. */
static mnem_status debug_try(mnem_device *device, unsigned *told) {
    mnem_pool *pool;
    fixture f = {0};
    const mnem_pool_options o = {.device = device,
                                 .bytes_max = 8 * MIB,
                                 .debug = true,
                                 .backtrace = 3,
                                 .on_misuse = on_misuse,
                                 .context = &f};
    mnem_status status = mnem_pool_create(&o, &pool);
    if (status != MNEM_OK) return status;
    mnem_pool_block blocks[100] = {0};
    for (int i = 0; i < 100 && status == MNEM_OK; i++)
        status = mnem_pool_alloc(pool, &(mnem_pool_request){.bytes = 100}, &blocks[i]);
    for (int i = 0; i < 100; i++) must(mnem_pool_free(pool, &blocks[i], NULL));
    must(mnem_pool_check(pool));
    must(mnem_pool_destroy(pool));
    *told += f.told;
    return status;
}

static void refused_memory_loses_nothing(void **state) {
    (void)state;
    mnem_device *device;
    must(mnem_device_open("host", NULL, &device));
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    unsigned told = 0, refused = 0;
    for (uint64_t n = 1; n < 80; n++) {
        mnem__heap_fail_at(n, false);
        const mnem_status status = debug_try(device, &told);
        mnem__heap_fail_at(0, false);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
        refused += status != MNEM_OK;
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_true(refused > 10);
    assert_int_equal(debug_try(device, &told), MNEM_OK);
    assert_int_equal(told, 0);
    must(mnem_device_close(device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroying_with_live_blocks_lists_them_oldest_first),
        cmocka_unit_test(a_difference_shows_what_a_step_left_behind),
        cmocka_unit_test(a_double_free_is_refused_in_normal_mode),
        cmocka_unit_test(backtraces_tell_two_ways_to_one_site_apart),
        cmocka_unit_test(right_use_is_not_found_fault_with_in_segments),
        cmocka_unit_test(right_use_is_not_found_fault_with_in_a_range),
        cmocka_unit_test(a_write_past_the_end_is_told_by_the_free),
        cmocka_unit_test(a_write_before_the_start_is_told_by_a_check),
        cmocka_unit_test(a_write_after_free_is_told_when_the_memory_is_taken_again),
        cmocka_unit_test(a_write_after_free_is_told_by_a_check),
        cmocka_unit_test(what_nobody_looked_at_is_told_when_the_pool_goes),
        cmocka_unit_test(a_double_free_is_told_with_all_places),
        cmocka_unit_test(a_foreign_free_is_told_with_the_place_in_the_other_pool),
        cmocka_unit_test(planned_blocks_have_their_size_and_their_free_is_watched),
        cmocka_unit_test(every_wrong_byte_is_told_once),
        cmocka_unit_test(devices_without_memory_still_tell_wrong_frees),
        cmocka_unit_test(memory_that_the_host_cannot_see_still_tells_wrong_frees),
        cmocka_unit_test(refused_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
