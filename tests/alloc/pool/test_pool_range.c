/* test_pool_range.c: a pool whose granules are mapped where they are needed: what it makes of free
 * memory that lies apart, who gets it, and that contents survive. */
#include "alloc/pool/pool_private.h"
#include "alloc/pool/pool_test.h"

enum { UNIT_MIB = 2 };

static mnem_pool *range_make(mnem_device *device, uint64_t bytes_max) {
    return pool_make((mnem_pool_options){.device = device,
                                         .growth = MNEM_POOL_RANGE,
                                         .bytes_max = bytes_max,
                                         .defragment_above = 1});
}

static void fill(const mnem_pool_block *b, int value) {
    memset(mnem_block_host(&b->memory), value, b->memory.bytes);
}

static void assert_filled(const mnem_pool_block *b, int value) {
    const uint8_t *bytes = mnem_block_host(&b->memory);
    for (uint64_t i = 0; i < b->memory.bytes; i++)
        if (bytes[i] != value) fail_msg("byte %llu is %d", (unsigned long long)i, bytes[i]);
}

/* Every granule has a live block in its middle: only parts of granules are free. */
static void parts_of_granules_beside_live_blocks_serve_a_large_request(void **state) {
    (void)state;
    enum { COUNT = 16 };
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = range_make(device, COUNT * UNIT_MIB * MIB);
    mnem_pool_block front[COUNT], middle[COUNT], back[COUNT];
    for (int i = 0; i < COUNT; i++) {
        front[i] = take(pool, 640 * KIB, NULL);
        middle[i] = take(pool, 256 * KIB, NULL);
        back[i] = take(pool, 1152 * KIB, NULL);
        fill(&middle[i], i);
    }
    assert_int_equal(info_of(pool).bytes_reserved, COUNT * UNIT_MIB * MIB);
    for (int i = 0; i < COUNT; i++) {
        give(pool, &front[i], NULL);
        give(pool, &back[i], NULL);
    }
    /* Between two live blocks there are 1792 KiB at most, until two ends are mapped side by side;
     * a request of 1600 KiB that lies there leaves no room for another in the same granules. */
    mnem_pool_block large[COUNT];
    int count = 0;
    const mnem_pool_request r = {.bytes = 1600 * KIB, .tag = "large"};
    while (count < COUNT && mnem_pool_alloc(pool, &r, &large[count]) == MNEM_OK) {
        fill(&large[count], 100 + count);
        count++;
    }
    assert_true(count >= COUNT - 1);
    must(mnem_pool_check(pool));
    for (int i = 0; i < COUNT; i++) assert_filled(&middle[i], i);
    for (int i = 0; i < count; i++) assert_filled(&large[i], 100 + i);
    for (int i = 0; i < COUNT; i++) give(pool, &middle[i], NULL);
    for (int i = 0; i < count; i++) give(pool, &large[i], NULL);
    pool_end(pool, device);
}

/* The same with ends that don't touch in address order: a tail here and a head there. */
static void a_head_and_a_tail_become_one_place(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = range_make(device, 4 * UNIT_MIB * MIB);
    mnem_pool_block tail = take(pool, 2 * MIB - 512 * KIB, NULL),
                    live = take(pool, 2 * MIB + 1024 * KIB, NULL),
                    rest = take(pool, 2 * MIB - 512 * KIB, NULL);
    mnem_pool_block last = take(pool, 2 * MIB, NULL);
    fill(&live, 7);
    fill(&last, 8);
    give(pool, &tail, NULL); /* of granule 0 its first 1.5 MiB; of granule 2 its last 1.5 MiB */
    give(pool, &rest, NULL);
    mnem_pool_block large = take(pool, 3 * MIB, NULL);
    fill(&large, 9);
    const mnem_pool_info info = info_of(pool);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_DEFRAGMENT], 1);
    assert_int_equal(info.bytes_moved, 0);
    assert_filled(&live, 7);
    assert_filled(&last, 8);
    must(mnem_pool_check(pool));
    give(pool, &large, NULL);
    give(pool, &live, NULL);
    give(pool, &last, NULL);
    pool_end(pool, device);
}

static void granules_of_another_stream_follow_when_it_has_passed(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = range_make(device, 16 * MIB);
    mnem_stream *stream;
    must(mnem_stream_create(device, &stream));
    mnem_pool_block blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = take(pool, 2 * MIB, NULL);
    for (int i = 0; i < 8; i += 2) give(pool, &blocks[i], NULL);
    mnem_pool_block large = take(pool, 8 * MIB, stream);
    must(mnem_pool_check(pool));
    assert_int_equal(info_of(pool).bytes_reserved, 16 * MIB);
    give(pool, &large, stream);
    for (int i = 1; i < 8; i += 2) give(pool, &blocks[i], NULL);
    large = take(pool, 16 * MIB, NULL);
    must(mnem_pool_check(pool));
    give(pool, &large, NULL);
    must(mnem_pool_forget(pool, stream));
    mnem_stream_destroy(stream);
    pool_end(pool, device);
}

typedef struct gate {
    pthread_mutex_t mutex;
} gate;

static void wait_for_gate(void *context) {
    gate *g = context;
    pthread_mutex_lock(&g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

/* Work is queued that may still read what was freed: it mustn't be unmapped. */
static void nothing_is_remapped_before_its_stream_has_passed(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = range_make(device, 16 * MIB);
    mnem_stream *stream;
    must(mnem_stream_create(device, &stream));
    mnem_pool_block blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = take(pool, 2 * MIB, stream);
    gate g;
    pthread_mutex_init(&g.mutex, NULL);
    pthread_mutex_lock(&g.mutex);
    must(mnem_stream_launch(device, stream, wait_for_gate, &g));
    for (int i = 0; i < 8; i += 2) give(pool, &blocks[i], stream);
    mnem_pool_block large = {.id = 0};
    const mnem_pool_request r = {.bytes = 8 * MIB, .tag = "large", .stream = stream};
    assert_int_equal(mnem_pool_alloc(pool, &r, &large), MNEM_OVER_BUDGET);
    pthread_mutex_unlock(&g.mutex);
    must(mnem_stream_synchronize(stream));
    must(mnem_pool_alloc(pool, &r, &large));
    must(mnem_pool_check(pool));
    give(pool, &large, stream);
    for (int i = 1; i < 8; i += 2) give(pool, &blocks[i], stream);
    must(mnem_pool_forget(pool, stream));
    mnem_stream_destroy(stream);
    pthread_mutex_destroy(&g.mutex);
    pool_end(pool, device);
}

static void a_huge_device_needs_no_maximum(void **state) {
    (void)state;
    mnem_device *device = device_open("null", UINT64_C(1) << 44);
    mnem_pool *pool = range_make(device, 0);
    mnem_stream *streams[3] = {NULL};
    mnem_pool_block blocks[300];
    uint32_t seed = 11;
    for (int i = 1; i < 3; i++) must(mnem_stream_create(device, &streams[i]));
    for (int i = 0; i < 300; i++) {
        blocks[i] = take(pool, 1 + random_next(&seed) % (20 * MIB), streams[i % 3]);
        if (i % 7 == 3) give(pool, &blocks[i], streams[i % 3]);
    }
    mnem_pool_block large = take(pool, UINT64_C(4) << 30, streams[2]);
    must(mnem_pool_check(pool));
    assert_true(info_of(pool).bytes_max >= (UINT64_C(1) << 40) - 2 * MIB);
    give(pool, &large, streams[2]);
    for (int i = 0; i < 300; i++) give(pool, &blocks[i], streams[i % 3]);
    for (int i = 1; i < 3; i++) must(mnem_pool_forget(pool, streams[i]));
    for (int i = 1; i < 3; i++) mnem_stream_destroy(streams[i]);
    pool_end(pool, device);
}

static void more_than_the_allocators_count_is_refused(void **state) {
    (void)state;
    mnem_device *device = device_open("null", UINT64_C(1) << 44);
    mnem_pool *pool;
    mnem_pool_options o = {
        .device = device, .growth = MNEM_POOL_RANGE, .bytes_max = UINT64_C(1) << 41};
    assert_int_equal(mnem_pool_create(&o, &pool), MNEM_UNSUPPORTED);
    o.alignment = 4096;
    must(mnem_pool_create(&o, &pool));
    assert_int_equal(info_of(pool).bytes_max, UINT64_C(1) << 41);
    must(mnem_pool_destroy(pool));
    must(mnem_device_close(device));
}

/* Blocks larger than a granule with small ones between, at most so many bytes live: how many
 * requests the pool refuses. */
static uint32_t comb_refusals(mnem_pool *pool, uint64_t live_max) {
    enum { COUNT = 400, ROUNDS = 20000 };
    static mnem_pool_block blocks[COUNT];
    uint64_t live = 0;
    uint32_t seed = 5, refused = 0;
    for (int i = 0; i < ROUNDS; i++) {
        mnem_pool_block *b = &blocks[random_next(&seed) % COUNT];
        live -= b->memory.bytes;
        give(pool, b, NULL);
        const uint64_t most = random_next(&seed) % 3 ? 300 * KIB : 7 * MIB;
        const mnem_pool_request r = {.bytes = 1 + random_next(&seed) % most, .tag = "comb"};
        if (live + r.bytes > live_max) continue;
        const mnem_status status = mnem_pool_alloc(pool, &r, b);
        assert_true(status == MNEM_OK || status == MNEM_OVER_BUDGET);
        refused += status != MNEM_OK;
        live += b->memory.bytes;
        if (i % 1000 == 0) must(mnem_pool_check(pool));
    }
    print_message("refused %u\n", refused);
    for (int i = 0; i < COUNT; i++) give(pool, &blocks[i], NULL);
    return refused;
}

static void a_comb_fits_where_segments_refuse(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    const uint64_t live_max = 240 * MIB, bytes_max = live_max / 100 * 130;
    mnem_pool *segments = pool_make(
        (mnem_pool_options){.device = device, .bytes_max = bytes_max, .bytes_expected = bytes_max});
    mnem_pool *range = range_make(device, bytes_max);
    print_message("seed 5\n");
    assert_true(comb_refusals(segments, live_max) > 0);
    assert_int_equal(comb_refusals(range, live_max), 0);
    assert_true(info_of(range).rungs[MNEM_POOL_RUNG_DEFRAGMENT] > 0);
    assert_int_equal(info_of(range).bytes_moved, 0);
    must(mnem_pool_destroy(segments));
    pool_end(range, device);
}

/* Its granules don't fit 32 bits. */
static void a_request_of_petabytes_is_refused(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = range_make(device, 16 * MIB);
    for (int i = 0; i < 2; i++) {
        mnem_pool_block block;
        const mnem_pool_request request = {.bytes = UINT64_C(1) << 53};
        assert_int_not_equal(mnem_pool_alloc(pool, &request, &block), MNEM_OK);
        block = take(pool, 3 * MIB, NULL);
        give(pool, &block, NULL);
    }
    must(mnem_pool_check(pool));
    pool_end(pool, device);
}

static void idle_granules_go_by_age(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                    .growth = MNEM_POOL_RANGE,
                                                    .bytes_max = 64 * MIB,
                                                    .garbage_steps = 3,
                                                    .soft_fraction = 0.5,
                                                    .defragment_above = 1});
    mnem_pool_block keep = take(pool, 10 * MIB, NULL), idle = take(pool, 40 * MIB, NULL);
    give(pool, &idle, NULL);
    const uint64_t before = info_of(pool).bytes_reserved;
    for (int i = 0; i < 2; i++) must(mnem_pool_step(pool, NULL));
    assert_int_equal(info_of(pool).bytes_reserved, before);
    for (int i = 0; i < 4; i++) must(mnem_pool_step(pool, NULL));
    assert_true(info_of(pool).bytes_reserved <= 12 * MIB);
    must(mnem_pool_check(pool));
    give(pool, &keep, NULL);
    pool_end(pool, device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_granules_beside_live_blocks_serve_a_large_request),
        cmocka_unit_test(a_head_and_a_tail_become_one_place),
        cmocka_unit_test(granules_of_another_stream_follow_when_it_has_passed),
        cmocka_unit_test(nothing_is_remapped_before_its_stream_has_passed),
        cmocka_unit_test(a_huge_device_needs_no_maximum),
        cmocka_unit_test(more_than_the_allocators_count_is_refused),
        cmocka_unit_test(a_comb_fits_where_segments_refuse),
        cmocka_unit_test(a_request_of_petabytes_is_refused),
        cmocka_unit_test(idle_granules_go_by_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
