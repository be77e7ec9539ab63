/* test_pool_random.c: random operations with the invariants checked, and with the heap or the
 * device failing at every call in turn. */
#include "alloc/pool/pool_private.h"
#include "alloc/pool/pool_test.h"
#include "device/backend/backend.h"

enum { SLOTS = 300, STREAMS = 3 };

typedef struct owner {
    mnem_pool_block block;
} owner;

typedef struct scene {
    mnem_device *device;
    mnem_pool *pool;
    mnem_stream *streams[STREAMS]; /* the first is the default one */
    owner owners[SLOTS];
    uint32_t seed;
} scene;

static bool crowded; /* pools have thread caches, as after threads met */

static void owner_moved(void *context, const mnem_pool_block *from, const mnem_pool_block *to) {
    owner *o = context;
    assert_int_equal(from->memory.address, o->block.memory.address);
    assert_int_equal(from->generation, to->generation);
    o->block = *to;
}

static mnem_status scene_open(scene *s, const char *device, mnem_pool_options options,
                              uint32_t seed) {
    *s = (scene){.device = device_open(device, 0), .seed = seed};
    options.device = s->device;
    for (int i = 1; i < STREAMS; i++) must(mnem_stream_create(s->device, &s->streams[i]));
    const mnem_status status = mnem_pool_create(&options, &s->pool);
    if (status == MNEM_OK && crowded) {
        mnem__pool_lock_take(&s->pool->lock);
        mnem__pool_crowd(s->pool);
        mnem__pool_lock_give(&s->pool->lock);
    }
    return status;
}

static void scene_close(scene *s) {
    for (int i = 0; i < SLOTS; i++)
        if (s->pool) must(mnem_pool_free(s->pool, &s->owners[i].block, NULL));
    if (s->pool) must(mnem_pool_check(s->pool));
    must(mnem_pool_destroy(s->pool));
    for (int i = 1; i < STREAMS; i++) mnem_stream_destroy(s->streams[i]);
    must(mnem_device_close(s->device));
}

/* Small and large sizes, mostly small. */
static uint64_t random_bytes(uint32_t *seed) {
    const uint32_t r = random_next(seed);
    return 1 + random_next(seed) % (r % 100 == 0 ? 3000000 : r % 10 == 0 ? 200000 : 9000);
}

/* One operation. The status of the one thing that may fail. */
static mnem_status operate(scene *s) {
    owner *o = &s->owners[random_next(&s->seed) % SLOTS];
    const uint32_t r = random_next(&s->seed), streams = r % 16 ? 1 : STREAMS;
    mnem_stream *stream = s->streams[random_next(&s->seed) % streams];
    if (r % 5000 == 1) return mnem_pool_trim(s->pool, 0, NULL);
    if (r % 3000 == 2) return mnem_pool_step(s->pool, stream);
    if (r % 5000 == 3) return mnem_pool_defragment(s->pool, stream, NULL);
    if (o->block.generation) {
        if (r % 50 == 4) return mnem_pool_use(s->pool, &o->block, stream);
        return mnem_pool_free(s->pool, &o->block, stream);
    }
    const mnem_pool_request request = {.bytes = random_bytes(&s->seed),
                                       .alignment = r % 9 ? 0 : UINT64_C(1) << r % 14,
                                       .kind = (mnem_kind)(r % MNEM_KIND_COUNT),
                                       .tag = r % 2 ? "odd" : "even",
                                       .stream = stream,
                                       .planned = r % 97 == 0,
                                       .moved = r % 97 && r % 3 ? owner_moved : NULL,
                                       .context = o};
    return mnem_pool_alloc(s->pool, &request, &o->block);
}

static void operations_keep_every_invariant(const char *device, mnem_pool_options options,
                                            uint32_t count, uint32_t check_every) {
    static scene s;
    print_message("seed 77\n");
    must(scene_open(&s, device, options, 77));
    for (uint32_t i = 0; i < count; i++) {
        const mnem_status status = operate(&s);
        assert_true(status == MNEM_OK || status == MNEM_OVER_BUDGET || status == MNEM_NO_MEMORY);
        if (i % check_every == 0 && mnem_pool_check(s.pool) != MNEM_OK)
            fail_msg("operation %u: %s", i, mnem_last_error());
    }
    const mnem_pool_info info = info_of(s.pool);
    for (int i = 0; i < MNEM_POOL_RUNGS; i++)
        print_message("%s %llu, ", mnem_pool_rung_text((mnem_pool_rung)i),
                      (unsigned long long)info.rungs[i]);
    print_message("moved %llu, remapped %llu\n", (unsigned long long)info.bytes_moved,
                  (unsigned long long)info.bytes_remapped);
    scene_close(&s);
}

#ifdef NDEBUG
enum { MILLION = 1000000 };
#else
enum { MILLION = 100000 };
#endif

static void a_million_operations_on_segments(void **state) {
    (void)state;
    operations_keep_every_invariant(
        "null", (mnem_pool_options){.bytes_max = 8 * MIB, .unit_bytes = 64 * KIB}, MILLION, 100);
}

static void operations_on_a_range(void **state) {
    (void)state;
    operations_keep_every_invariant(
        "null", (mnem_pool_options){.bytes_max = 16 * MIB, .growth = MNEM_POOL_RANGE}, MILLION / 4,
        100);
}

static void operations_on_real_streams(void **state) {
    (void)state;
    operations_keep_every_invariant(
        "host", (mnem_pool_options){.bytes_max = 8 * MIB, .unit_bytes = 64 * KIB}, 30000, 50);
    operations_keep_every_invariant(
        "host", (mnem_pool_options){.bytes_max = 16 * MIB, .growth = MNEM_POOL_RANGE}, 30000, 50);
}

static void operations_with_fronts(void **state) {
    (void)state;
    crowded = true;
    for (int growth = 0; growth < 2; growth++)
        operations_keep_every_invariant("null",
                                        (mnem_pool_options){.bytes_max = (16 + 48 * growth) * MIB,
                                                            .growth = (mnem_pool_growth)growth},
                                        MILLION / 5, 1000);
    operations_keep_every_invariant(
        "host", (mnem_pool_options){.bytes_max = 8 * MIB, .unit_bytes = 64 * KIB}, 30000, 500);
    crowded = false;
}

static void every_policy_serves(void **state) {
    (void)state;
    for (int policy = 0; policy < MNEM_OFFSET_POLICY_COUNT; policy++) {
        if (policy == MNEM_OFFSET_BUDDY || policy == MNEM_OFFSET_BUMP) continue;
        operations_keep_every_invariant("null",
                                        (mnem_pool_options){.bytes_max = 8 * MIB,
                                                            .unit_bytes = 64 * KIB,
                                                            .policy = (mnem_offset_policy)policy},
                                        20000, 50);
    }
}

/* ---- failures ---- */

typedef void fail_at(uint64_t n, bool sticky);

/* The n-th call fails, for every n until none does. The pool stays right and loses nothing. */
static void sweep(fail_at *make_fail, mnem_pool_options options, bool sticky) {
    static scene s;
    uint64_t failures = 1;
    for (uint64_t n = 1; failures && n < 3000; n += 1 + n / 8) {
        mnem_heap_usage before, after;
        mnem_heap_usage_get(&before);
        failures = 0;
        must(scene_open(&s, "host", options, 5));
        make_fail(n, sticky);
        for (int i = 0; i < 700; i++) {
            const mnem_status status = operate(&s);
            failures += status == MNEM_NO_MEMORY;
            assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY ||
                        status == MNEM_OVER_BUDGET);
        }
        make_fail(0, false);
        if (mnem_pool_check(s.pool) != MNEM_OK) fail_msg("n = %d: %s", (int)n, mnem_last_error());
        for (int i = 0; i < 300; i++) operate(&s);
        scene_close(&s);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (n < 30) failures = 1; /* one that was absorbed is no end */
    }
}

static void no_memory_on_the_heap_loses_nothing(void **state) {
    (void)state;
    for (int growth = 0; growth < 2; growth++) {
        const mnem_pool_options options = {.bytes_max = growth ? 32 * MIB : 8 * MIB,
                                           .growth = (mnem_pool_growth)growth};
        sweep(mnem__heap_fail_at, options, false);
        sweep(mnem__heap_fail_at, options, true);
        crowded = true;
        sweep(mnem__heap_fail_at, options, false);
        crowded = false;
    }
}

static void a_failing_device_loses_nothing(void **state) {
    (void)state;
    for (int growth = 0; growth < 2; growth++) {
        const mnem_pool_options options = {.bytes_max = growth ? 32 * MIB : 8 * MIB,
                                           .growth = (mnem_pool_growth)growth};
        sweep(mnem__device_fail_at, options, false);
        sweep(mnem__device_fail_at, options, true);
    }
}

static void no_memory_leaves_no_pool(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    const mnem_pool_options options = {
        .device = device, .bytes_max = 8 * MIB, .bytes_expected = 4 * MIB, .blocks_max = 50};
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n++) {
        mnem_pool *pool;
        mnem__heap_fail_at(n, false);
        status = mnem_pool_create(&options, &pool);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK)
            must(mnem_pool_destroy(pool));
        else
            assert_null(pool);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    must(mnem_device_close(device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_operations_on_segments),
        cmocka_unit_test(operations_on_a_range),
        cmocka_unit_test(operations_on_real_streams),
        cmocka_unit_test(operations_with_fronts),
        cmocka_unit_test(every_policy_serves),
        cmocka_unit_test(no_memory_on_the_heap_loses_nothing),
        cmocka_unit_test(a_failing_device_loses_nothing),
        cmocka_unit_test(no_memory_leaves_no_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
