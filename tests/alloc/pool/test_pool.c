/* test_pool.c: what one thread and one stream see of a pool. State: the growth. */
#include "alloc/pool/pool_test.h"

static mnem_pool_growth growth_of(void **state) {
    return *(mnem_pool_growth *)*state;
}

static mnem_pool *on(mnem_device *device, void **state, uint64_t bytes_max) {
    return pool_make(
        (mnem_pool_options){.device = device, .growth = growth_of(state), .bytes_max = bytes_max});
}

static void blocks_are_aligned_apart_and_writable(void **state) {
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = on(device, state, 256 * MIB);
    mnem_pool_block blocks[64];
    for (int i = 0; i < 64; i++) {
        const uint64_t alignment = UINT64_C(1) << (i % 22);
        must(mnem_pool_alloc(pool,
                             &(mnem_pool_request){.bytes = (uint64_t)i * 5000 + 1,
                                                  .alignment = alignment,
                                                  .tag = "aligned"},
                             &blocks[i]));
        assert_int_equal(blocks[i].memory.address % alignment, 0);
        assert_int_equal(blocks[i].memory.bytes, (uint64_t)i * 5000 + 1);
        memset(mnem_block_host(&blocks[i].memory), i, blocks[i].memory.bytes);
    }
    must(mnem_pool_check(pool));
    for (int i = 0; i < 64; i++) {
        const uint8_t *bytes = mnem_block_host(&blocks[i].memory);
        for (uint64_t k = 0; k < blocks[i].memory.bytes; k++) assert_int_equal(bytes[k], i);
        give(pool, &blocks[i], NULL);
        assert_null(blocks[i].memory.device);
        give(pool, &blocks[i], NULL); /* cleared: nothing happens */
    }
    assert_int_equal(info_of(pool).bytes_live, 0);
    pool_end(pool, device);
}

static void a_freed_block_is_reused_without_the_device(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = on(device, state, 512 * MIB);
    mnem_pool_block a = take(pool, 10 * MIB, NULL);
    const uint64_t address = a.memory.address;
    const uint64_t calls = info_of(pool).device_calls;
    for (int i = 0; i < 100; i++) {
        give(pool, &a, NULL);
        a = take(pool, 10 * MIB, NULL);
        assert_int_equal(a.memory.address, address);
    }
    mnem_pool_info info = info_of(pool);
    assert_int_equal(info.device_calls, calls);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_REUSE], 100);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_GROW], 1);
    give(pool, &a, NULL);
    pool_end(pool, device);
}

static void growth_takes_few_calls(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = on(device, state, 64 * KIB * MIB);
    enum { BLOCKS = 6000 };
    static mnem_pool_block blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = take(pool, 10 * MIB + 300, NULL);
    const mnem_pool_info info = info_of(pool);
    assert_true(info.device_calls < 100);
    assert_true((double)info.bytes_reserved < 1.3 * (double)info.bytes_live);
    for (int i = 0; i < BLOCKS; i++) give(pool, &blocks[i], NULL);
    pool_end(pool, device);
}

static void trimming_gives_everything_back(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = on(device, state, 512 * MIB);
    mnem_pool_block blocks[20];
    for (int i = 0; i < 20; i++) blocks[i] = take(pool, 9 * MIB, NULL);
    for (int i = 0; i < 20; i++) give(pool, &blocks[i], NULL);
    const uint64_t reserved = info_of(pool).bytes_reserved;
    uint64_t given;
    must(mnem_pool_trim(pool, 0, &given));
    assert_int_equal(given, reserved);
    mnem_device_info device_info;
    mnem_device_info_get(device, &device_info);
    assert_int_equal(device_info.available_bytes, device_info.capacity_bytes);
    blocks[0] = take(pool, 100 * MIB, NULL);
    must(mnem_pool_check(pool));
    give(pool, &blocks[0], NULL);
    pool_end(pool, device);
}

/* Blocks of many units that come and go between two steps, in a pool near its soft limit. */
static void what_every_step_uses_is_no_garbage(void **state) {
    const uint64_t sizes[] = {20 * MIB, 600 * MIB}; /* more than 255 units too */
    for (int k = 0; k < 2; k++) {
        mnem_device *device = device_open("null", 0);
        mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                        .growth = growth_of(state),
                                                        .bytes_max = 1200 * MIB,
                                                        .garbage_steps = 2});
        mnem_pool_block held = take(pool, 1100 * MIB - sizes[k], NULL);
        uint64_t calls = 0;
        for (int i = 0; i < 12; i++) {
            mnem_pool_block block = take(pool, sizes[k], NULL);
            give(pool, &block, NULL);
            must(mnem_pool_step(pool, NULL));
            if (!i) calls = info_of(pool).device_calls;
        }
        assert_int_equal(info_of(pool).device_calls, calls);
        give(pool, &held, NULL);
        pool_end(pool, device);
    }
}

static void wrong_arguments_are_refused(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = NULL;
    mnem_pool_block block = {0};
    const mnem_pool_options bad[] = {
        {.device = NULL},
        {.device = device, .alignment = 3},
        {.device = device, .soft_fraction = 1.5},
        {.device = device, .unit_bytes = 12345},
        {.device = device, .space = MNEM_SPACE_COUNT},
        {.device = device, .bytes_max = 100},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mnem_pool_create(&bad[i], &pool), MNEM_INVALID);
        assert_null(pool);
    }
    assert_int_equal(
        mnem_pool_create(&(mnem_pool_options){.device = device, .policy = MNEM_OFFSET_BUDDY},
                         &pool),
        MNEM_UNSUPPORTED);
    pool = on(device, state, 64 * MIB);
    const mnem_pool_request requests[] = {
        {.bytes = 0},
        {.bytes = UINT64_MAX},
        {.bytes = 1, .alignment = 3},
        {.bytes = 1, .alignment = 4 * MIB},
        {.bytes = 1, .kind = MNEM_KIND_COUNT},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        assert_int_equal(mnem_pool_alloc(pool, &requests[i], &block), MNEM_INVALID);
    pool_end(pool, device);
}

static void a_second_free_is_refused_and_changes_nothing(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = on(device, state, 64 * MIB);
    mnem_pool_block a = take(pool, 1000, NULL), again = a;
    give(pool, &a, NULL);
    assert_int_equal(mnem_pool_free(pool, &again, NULL), MNEM_INVALID);
    mnem_pool_block b = take(pool, 1000, NULL); /* the same number, a generation later */
    assert_int_equal(mnem_pool_free(pool, &again, NULL), MNEM_INVALID);
    assert_int_equal(info_of(pool).blocks_live, 1);
    mnem_pool_block foreign = {.memory = b.memory, .id = 12345, .generation = 1};
    assert_int_equal(mnem_pool_free(pool, &foreign, NULL), MNEM_INVALID);
    give(pool, &b, NULL);
    pool_end(pool, device);
}

static void live_blocks_keep_the_pool(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = on(device, state, 64 * MIB);
    mnem_pool_block block;
    must(mnem_pool_alloc(
        pool, &(mnem_pool_request){.bytes = 777, .kind = MNEM_KIND_KV, .tag = "kept"}, &block));
    assert_int_equal(mnem_pool_destroy(pool), MNEM_BUSY);
    assert_non_null(strstr(mnem_last_error(), "kv kept"));
    assert_non_null(strstr(mnem_last_error(), "test_pool.c"));
    mnem_pool_destroy_forced(pool);
    must(mnem_device_close(device));
}

static void what_is_expected_is_taken_at_once(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                    .growth = growth_of(state),
                                                    .bytes_max = 1000 * MIB,
                                                    .bytes_expected = 100 * MIB});
    assert_int_equal(info_of(pool).bytes_reserved, 120 * MIB);
    mnem_pool_block a = take(pool, 119 * MIB, NULL);
    assert_int_equal(info_of(pool).rungs[MNEM_POOL_RUNG_REUSE], 1);
    give(pool, &a, NULL);
    must(mnem_pool_destroy(pool));
    pool = pool_make((mnem_pool_options){.device = device,
                                         .growth = growth_of(state),
                                         .bytes_max = 110 * MIB,
                                         .bytes_expected = 100 * MIB});
    assert_int_equal(info_of(pool).bytes_reserved, info_of(pool).bytes_max);
    pool_end(pool, device);
}

static void steady_state_takes_no_heap(void **state) {
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                    .growth = growth_of(state),
                                                    .bytes_max = 64 * MIB,
                                                    .bytes_expected = 16 * MIB,
                                                    .blocks_max = 200});
    mnem_pool_block blocks[200] = {{.id = 0}};
    uint32_t seed = 7;
    mnem_heap_usage before, after;
    give(pool, &(mnem_pool_block){.id = 0}, NULL);
    blocks[0] = take(pool, 1, NULL);
    mnem_heap_usage_get(&before);
    for (int i = 0; i < 20000; i++) {
        mnem_pool_block *b = &blocks[random_next(&seed) % 200];
        give(pool, b, NULL);
        *b = take(pool, 1 + random_next(&seed) % 40000, NULL);
        if (i % 100 == 0) must(mnem_pool_step(pool, NULL));
    }
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    for (int i = 0; i < 200; i++) give(pool, &blocks[i], NULL);
    pool_end(pool, device);
}

int main(void) {
    static mnem_pool_growth segments = MNEM_POOL_SEGMENTS, range = MNEM_POOL_RANGE;
#define BOTH(test)                                                                                 \
    {#test ", segments", test, NULL, NULL, &segments}, {                                           \
#test ", range", test, NULL, NULL, &range                                                  \
    }
    const struct CMUnitTest tests[] = {
        BOTH(blocks_are_aligned_apart_and_writable),
        BOTH(a_freed_block_is_reused_without_the_device),
        BOTH(growth_takes_few_calls),
        BOTH(trimming_gives_everything_back),
        BOTH(what_every_step_uses_is_no_garbage),
        BOTH(wrong_arguments_are_refused),
        BOTH(a_second_free_is_refused_and_changes_nothing),
        BOTH(live_blocks_keep_the_pool),
        BOTH(what_is_expected_is_taken_at_once),
        BOTH(steady_state_takes_no_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
