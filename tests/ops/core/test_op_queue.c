/* test_op_queue.c: operators behind the caller's back, in order; prepared ones that are found. */
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "mnem/op_queue.h"
#include "ops/core/op_fixture.h"

enum { N = 1000, RUNS = 3 * MNEM_STREAM_DEPTH };

static mnem_op_desc scale_of(int64_t n, float scale) {
    mnem_op_desc d = {.kind = MNEM_OP_SCALE, .workers = 2, .scale = scale};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, n);
    return d;
}

static mnem_heap_usage heap(void) {
    mnem_heap_usage usage;
    mnem_heap_usage_get(&usage);
    return usage;
}

/* ---- queue ---- */

typedef struct open_queue {
    mnem_device *device;
    mnem_team *team;
    mnem_op_queue *queue;
} open_queue;

static open_queue open_one(void) {
    open_queue q;
    assert_int_equal(mnem_device_open("host", NULL, &q.device), MNEM_OK);
    assert_int_equal(mnem_team_create(2, &q.team), MNEM_OK);
    assert_int_equal(mnem_op_queue_create(q.device, q.team, &q.queue), MNEM_OK);
    return q;
}

static void close_one(open_queue *q) {
    mnem_op_queue_destroy(q->queue);
    mnem_team_destroy(q->team);
    assert_int_equal(mnem_device_close(q->device), MNEM_OK);
}

/* More than the queue holds at once; x doubles and halves, so that the order shows. */
static void runs_are_done_in_order(void **state) {
    (void)state;
    open_queue q = open_one();
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = 1.0f;
    mnem_op_desc add = {.kind = MNEM_OP_ADD, .workers = 2}, scale = scale_of(N, 0.5f);
    add.in[0] = add.in[1] = add.out = scale.in[0];
    add.alpha = 2.0f; /* x becomes 3 x, then half of it */
    mnem_op three, half;
    assert_int_equal(mnem_op_prepare(&add, &three), MNEM_OK);
    assert_int_equal(mnem_op_prepare(&scale, &half), MNEM_OK);
    for (int i = 0; i < 80; i++) {
        const mnem_op_args args = {.tokens = 1, .in = {x, x}, .out = x};
        assert_int_equal(mnem_op_queue_submit(q.queue, i % 2 ? &half : &three, &args), MNEM_OK);
    }
    mnem_event *event;
    assert_int_equal(mnem_event_create(q.device, &event), MNEM_OK);
    assert_int_equal(mnem_event_record(event, mnem_op_queue_stream(q.queue)), MNEM_OK);
    assert_int_equal(mnem_event_synchronize(event), MNEM_OK);
    float expected = 1.0f;
    for (int i = 0; i < 40; i++) expected = (expected + 2.0f * expected) * 0.5f;
    for (int i = 0; i < N; i++) assert_true(x[i] == expected);
    mnem_event_destroy(event);
    close_one(&q);
}

static void a_full_queue_loses_no_run(void **state) {
    (void)state;
    open_queue q = open_one();
    static float x[RUNS];
    mnem_op_desc d = scale_of(1, 3.0f);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    const uint64_t calls = heap().calls;
    for (int i = 0; i < RUNS; i++) {
        x[i] = (float)i;
        const mnem_op_args args = {.tokens = 1, .in = {x + i}, .out = x + i};
        assert_int_equal(mnem_op_queue_submit(q.queue, &op, &args), MNEM_OK);
    }
    assert_int_equal(heap().calls, calls);
    mnem_op_queue_destroy(q.queue); /* finishes them */
    q.queue = NULL;
    for (int i = 0; i < RUNS; i++) assert_true(x[i] == 3.0f * (float)i);
    close_one(&q);
}

static void wrong_arguments_are_not_queued(void **state) {
    (void)state;
    open_queue q = open_one();
    float x[4] = {1, 2, 3, 4};
    mnem_op_desc d = scale_of(4, 3.0f);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    const mnem_op_args args = {.tokens = 1, .in = {NULL}, .out = x};
    assert_int_equal(mnem_op_queue_submit(q.queue, &op, &args), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "in[0] must not be NULL"));
    close_one(&q);
    assert_true(x[0] == 1.0f && x[3] == 4.0f);
}

static void other_devices_have_no_queue(void **state) {
    (void)state;
    mnem_device *device;
    mnem_team *team;
    mnem_op_queue *queue = NULL;
    assert_int_equal(mnem_device_open("null", NULL, &device), MNEM_OK);
    assert_int_equal(mnem_team_create(1, &team), MNEM_OK);
    assert_int_equal(mnem_op_queue_create(device, team, &queue), MNEM_UNSUPPORTED);
    assert_null(queue);
    mnem_team_destroy(team);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
}

/* ---- cache ---- */

static mnem_op_cache_info info_of(const mnem_op_cache *cache) {
    mnem_op_cache_info info;
    mnem_op_cache_info_get(cache, &info);
    return info;
}

static void equal_descriptors_are_found(void **state) {
    (void)state;
    mnem_op_cache *cache;
    assert_int_equal(mnem_op_cache_create(64 * 1024, &cache), MNEM_OK);
    mnem_op first, again;
    mnem_op_desc d = scale_of(10, 2.0f), same;
    memset(&same, 0xff, sizeof same); /* another padding */
    memcpy(&same.kind, &d.kind, sizeof d - offsetof(mnem_op_desc, kind));
    same.size = sizeof same;
    assert_int_equal(mnem_op_cache_prepare(cache, &d, &first), MNEM_OK);
    assert_int_equal(mnem_op_cache_prepare(cache, &same, &again), MNEM_OK);
    assert_int_equal(info_of(cache).hits, 1);
    assert_ptr_equal(first.run, again.run);
    assert_true(again.desc.scale == 2.0f && again.desc.in[0].shape[1] == 10);
    mnem_op_cache_destroy(cache);
}

static void what_differs_is_not_found(void **state) {
    (void)state;
    mnem_op_cache *cache;
    assert_int_equal(mnem_op_cache_create(64 * 1024, &cache), MNEM_OK);
    mnem_op_desc d[6];
    mnem_op op;
    for (int i = 0; i < 6; i++) d[i] = scale_of(10, 2.0f);
    d[1].scale = 3.0f;
    d[2].workers = 1;
    d[3].out.stride[0] = 80;
    d[4].in[0].offset = 4;
    d[5].kind = MNEM_OP_SOFT_CAP;
    for (int i = 0; i < 6; i++) assert_int_equal(mnem_op_cache_prepare(cache, &d[i], &op), MNEM_OK);
    assert_int_equal(info_of(cache).hits, 0);
    assert_int_equal(info_of(cache).operators, 6);
    d[0].out.shape[1] = 11; /* refused, and not kept */
    assert_int_equal(mnem_op_cache_prepare(cache, &d[0], &op), MNEM_INVALID);
    assert_int_equal(info_of(cache).operators, 6);
    mnem_op_cache_destroy(cache);
}

/* The one that was asked for longest ago gives way; the bytes stay. */
static void a_full_cache_drops_the_oldest(void **state) {
    (void)state;
    mnem_op_cache *cache;
    const uint64_t before = heap().bytes_live;
    assert_int_equal(mnem_op_cache_create(20000, &cache), MNEM_OK);
    const int32_t most = info_of(cache).operators_max;
    assert_true(most >= 4 && info_of(cache).bytes <= 20000);
    assert_true(heap().bytes_live - before <= 20000);
    mnem_op op;
    mnem_op_desc d;
    for (int32_t i = 0; i < most; i++) {
        d = scale_of(10 + i, 2.0f);
        assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
    }
    d = scale_of(10, 2.0f); /* now the newest */
    assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
    d = scale_of(1000, 2.0f); /* takes the place of 11 */
    assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
    assert_int_equal(info_of(cache).hits, 1);
    assert_int_equal(info_of(cache).dropped, 1);
    d = scale_of(10, 2.0f);
    assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
    assert_int_equal(op.desc.in[0].shape[1], 10);
    assert_int_equal(info_of(cache).hits, 2);
    d = scale_of(11, 2.0f);
    assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
    assert_int_equal(info_of(cache).hits, 2);
    assert_int_equal(mnem_op_cache_create(100, &cache), MNEM_INVALID);
    mnem_op_cache_destroy(cache);
}

/* Against a list of what was asked for, in its order. */
static void random_requests_find_what_they_should(void **state) {
    (void)state;
    mnem_op_cache *cache;
    assert_int_equal(mnem_op_cache_create(30000, &cache), MNEM_OK);
    const int32_t most = info_of(cache).operators_max;
    int64_t list[64];
    int32_t count = 0;
    uint64_t hits = 0;
    rng r = {5};
    for (int i = 0; i < 5000; i++) {
        const int64_t n = rng_int(&r, 1, 24);
        int32_t at = 0;
        while (at < count && list[at] != n) at++;
        hits += at < count;
        if (at == count && count < most) count++;
        if (at == count) at--;
        memmove(list + 1, list, (size_t)at * sizeof *list);
        list[0] = n;
        mnem_op op;
        const mnem_op_desc d = scale_of(n, 2.0f);
        assert_int_equal(mnem_op_cache_prepare(cache, &d, &op), MNEM_OK);
        assert_int_equal(op.desc.out.shape[1], n);
        assert_int_equal(info_of(cache).hits, hits);
    }
    mnem_op_cache_destroy(cache);
}

static void memory_that_fails_leaves_nothing(void **state) {
    (void)state;
    open_queue q = open_one();
    mnem_op_queue_destroy(q.queue);
    heap_sweep sweep = {.most = 100};
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        mnem_op_cache *cache = NULL;
        q.queue = NULL;
        status = mnem_op_queue_create(q.device, q.team, &q.queue);
        if (status == MNEM_OK) status = mnem_op_cache_create(20000, &cache);
        mnem_op_queue_destroy(q.queue);
        mnem_op_cache_destroy(cache);
    } while (heap_sweep_next(&sweep, status));
    q.queue = NULL;
    close_one(&q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_done_in_order),
        cmocka_unit_test(a_full_queue_loses_no_run),
        cmocka_unit_test(wrong_arguments_are_not_queued),
        cmocka_unit_test(other_devices_have_no_queue),
        cmocka_unit_test(equal_descriptors_are_found),
        cmocka_unit_test(what_differs_is_not_found),
        cmocka_unit_test(a_full_cache_drops_the_oldest),
        cmocka_unit_test(random_requests_find_what_they_should),
        cmocka_unit_test(memory_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
