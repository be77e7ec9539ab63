/* test_device.c: one suite for every backend; what only one of them promises comes after it. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "device/backend/backend.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "mnem/device.h"

static void device_close(mnem_device *device) {
    must(mnem_device_close(device));
}

/* ---- conformance: state is the backend's name ---- */

static void blocks_are_aligned_rounded_and_apart(void **state) {
    mnem_device *device = device_open(*state, 256 * MIB);
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    assert_string_equal(info.name, *state);
    assert_int_equal(info.capacity_bytes, 256 * MIB);
    mnem_block blocks[3 * 8];
    int n = 0;
    for (uint64_t alignment = 1; alignment <= 2 * MIB; alignment *= 8)
        for (uint64_t bytes = 1; bytes <= 100000 && n < 24; bytes = bytes * 300 + 7) {
            must(mnem_device_alloc(device, n % 3, bytes, alignment, &blocks[n]));
            assert_int_equal(blocks[n].address % alignment, 0);
            assert_int_equal(blocks[n].bytes, mnem_device_alloc_bytes(device, n % 3, bytes));
            assert_int_equal(blocks[n].bytes % info.granularity, 0);
            for (int i = 0; i < n; i++)
                assert_true(blocks[i].address + blocks[i].bytes <= blocks[n].address ||
                            blocks[n].address + blocks[n].bytes <= blocks[i].address);
            n++;
        }
    while (n) mnem_device_free(&blocks[--n]);
    mnem_device_free(&blocks[0]); /* cleared: nothing happens */
    device_close(device);
}

static void an_open_device_takes_the_heap_that_was_planned(void **state) {
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_device *device = device_open(*state, MIB);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live - before.bytes_live, mnem__device_bytes(*state));
    device_close(device);
    assert_int_equal(mnem__device_bytes("cuda"), 0); /* known, but can't be opened */
    assert_int_equal(mnem__device_bytes("none"), 0);
}

static atomic_int gate;

static void wait_for_gate(void *context) {
    (void)context;
    while (!atomic_load(&gate)) usleep(100);
}

static void work_is_done_at_once_where_the_device_says_so(void **state) {
    mnem_device *device = device_open(*state, MIB);
    mnem_device_info info;
    mnem_stream *stream;
    mnem_event *event;
    mnem_device_info_get(device, &info);
    must(mnem_event_create(device, &event));
    must(mnem_event_record(event, NULL));
    if (info.immediate_default) assert_int_equal(mnem_event_query(event), MNEM_OK);
    must(mnem_stream_create(device, &stream));
    must(mnem_stream_launch(device, stream, wait_for_gate, NULL));
    must(mnem_event_record(event, stream));
    assert_int_equal(mnem_event_query(event), info.immediate_streams ? MNEM_OK : MNEM_NOT_READY);
    atomic_store(&gate, 1);
    mnem_stream_destroy(stream);
    atomic_store(&gate, 0);
    mnem_event_destroy(event);
    device_close(device);
}

static void capacity_is_obeyed_to_the_byte(void **state) {
    mnem_device *device = device_open(*state, 8 * MIB);
    mnem_block a = {0}, b = {0}, none = {0};
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 6 * MIB, 64, &a));
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 2 * MIB + 1, 64, &none),
                     MNEM_NO_MEMORY);
    assert_non_null(strstr(mnem_last_error(), "but only 2097152 of the device's 8388608 are free"));
    assert_null(none.device);
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 2 * MIB, 64, &b));
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    assert_int_equal(info.available_bytes, 0);
    mnem_device_free(&a);
    mnem_device_info_get(device, &info);
    assert_int_equal(info.available_bytes, 6 * MIB);
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 6 * MIB, 64, &a));
    mnem_device_free(&a);
    mnem_device_free(&b);
    device_close(device);
}

static void wrong_arguments_are_refused(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_block block = {.bytes = 7};
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_HOST, 0, 64, &block), MNEM_INVALID);
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_HOST, 10, 0, &block), MNEM_INVALID);
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_HOST, 10, 48, &block), MNEM_INVALID);
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_HOST, 10, 4 * MIB, &block), MNEM_INVALID);
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_COUNT, 10, 64, &block), MNEM_INVALID);
    assert_int_equal(mnem_device_alloc(device, MNEM_SPACE_HOST, UINT64_MAX, 64, &block),
                     MNEM_NO_MEMORY);
    assert_int_equal(block.bytes, 7);
    device_close(device);
}

static void closing_is_refused_while_anything_lives(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_block block;
    mnem_stream *stream;
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 100, 64, &block));
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    mnem_device_free(&block);
    must(mnem_stream_create(device, &stream));
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    mnem_stream_destroy(stream);
    device_close(device);
    must(mnem_device_close(NULL));
    mnem_stream_destroy(NULL);
    mnem_event_destroy(NULL);
}

static void ranges_of_blocks_are_checked(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_block a, b, nothing = {0};
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 4096, 64, &a));
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 4096, 64, &b));
    uint64_t n = a.bytes;
    must(mnem_stream_copy(device, NULL, &a, 0, &b, 0, n));
    must(mnem_stream_copy(device, NULL, &a, n, &b, n, 0));
    must(mnem_stream_fill(device, NULL, &a, 1, n - 1, 3));
    assert_int_equal(mnem_stream_copy(device, NULL, &a, 1, &b, 0, n), MNEM_INVALID);
    assert_int_equal(mnem_stream_copy(device, NULL, &a, 0, &b, n, 1), MNEM_INVALID);
    assert_int_equal(mnem_stream_copy(device, NULL, &a, 0, &b, 8, UINT64_MAX - 4), MNEM_INVALID);
    assert_int_equal(mnem_stream_copy(device, NULL, &a, 0, &nothing, 0, 1), MNEM_INVALID);
    assert_int_equal(mnem_stream_fill(device, NULL, &a, n, 1, 3), MNEM_INVALID);
    mnem_device_free(&a);
    mnem_device_free(&b);
    device_close(device);
}

static void events_complete_in_order(void **state) {
    mnem_device *device = device_open(*state, 0);
    mnem_stream *one, *two;
    mnem_event *event;
    must(mnem_stream_create(device, &one));
    must(mnem_stream_create(device, &two));
    must(mnem_event_create(device, &event));
    assert_int_equal(mnem_event_query(event), MNEM_OK); /* nothing recorded: nothing to wait for */
    must(mnem_event_synchronize(event));
    for (int i = 0; i < 2 * MNEM_STREAM_DEPTH; i++) {
        must(mnem_event_record(event, i % 2 ? one : two));
        must(mnem_event_wait(event, i % 2 ? two : one));
    }
    must(mnem_event_synchronize(event));
    assert_int_equal(mnem_event_query(event), MNEM_OK);
    must(mnem_event_record(event, NULL));
    must(mnem_event_wait(event, NULL));
    must(mnem_stream_synchronize(one));
    must(mnem_stream_synchronize(two));
    must(mnem_stream_synchronize(NULL));
    mnem_event_destroy(event);
    mnem_stream_destroy(one);
    mnem_stream_destroy(two);
    device_close(device);
}

static mnem_status everything_create(const char *name) {
    mnem_device *device;
    mnem_block block = {0};
    mnem_stream *stream = NULL;
    mnem_event *event = NULL;
    mnem_status status = mnem_device_open(name, NULL, &device);
    if (status != MNEM_OK) return status;
    status = mnem_device_alloc(device, MNEM_SPACE_DEVICE, 100, 64, &block);
    if (status == MNEM_OK) status = mnem_stream_create(device, &stream);
    if (status == MNEM_OK) status = mnem_event_create(device, &event);
    mnem_event_destroy(event);
    mnem_stream_destroy(stream);
    mnem_device_free(&block);
    must(mnem_device_close(device));
    return status;
}

static void no_memory_at_any_allocation_leaks_nothing(void **state) {
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (uint64_t n = 1;; n++) {
        mnem__heap_fail_at(n, false);
        mnem_status status = everything_create(*state);
        mnem__heap_fail_at(0, false);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (status == MNEM_OK) return;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_true(n < 50);
    }
}

/* Work of every kind on a stream. What was queued runs; what failed is as if not asked for. */
static mnem_status everything_queue(mnem_device *device, const mnem_block *a, const mnem_block *b,
                                    mnem_stream *stream, mnem_event *event) {
    mnem_status status = mnem_stream_fill(device, stream, a, 0, 100, 1);
    if (status == MNEM_OK) status = mnem_stream_copy(device, stream, b, 0, a, 0, 100);
    if (status == MNEM_OK) status = mnem_event_record(event, stream);
    if (status == MNEM_OK) status = mnem_event_wait(event, NULL);
    if (status == MNEM_OK) status = mnem_event_record(event, NULL);
    if (status == MNEM_OK) status = mnem_event_wait(event, stream);
    must(mnem_event_synchronize(event)); /* also when its record failed */
    must(mnem_stream_synchronize(stream));
    return status;
}

static mnem_status everything_use(mnem_device *device) {
    mnem_block a = {0}, b = {0};
    mnem_stream *stream = NULL;
    mnem_event *event = NULL;
    mnem_status status = mnem_device_alloc(device, MNEM_SPACE_DEVICE, 100, 64, &a);
    if (status == MNEM_OK) status = mnem_device_alloc(device, MNEM_SPACE_HOST, 100, 64, &b);
    if (status == MNEM_OK) status = mnem_stream_create(device, &stream);
    if (status == MNEM_OK) status = mnem_event_create(device, &event);
    if (status == MNEM_OK) status = everything_queue(device, &a, &b, stream, event);
    mnem_event_destroy(event);
    mnem_stream_destroy(stream);
    mnem_device_free(&b);
    mnem_device_free(&a);
    return status;
}

static void a_device_that_fails_at_any_call_loses_nothing(void **state) {
    for (uint64_t n = 1;; n++) {
        mnem_device *device = device_open(*state, 64 * MIB);
        mnem_device_info info;
        mnem__device_fail_at(n, n % 2);
        mnem_status status = everything_use(device);
        mnem__device_fail_at(0, false);
        if (status != MNEM_OK)
            assert_non_null(strstr(mnem_last_error(), "because a test injected"));
        mnem_device_info_get(device, &info);
        assert_int_equal(info.available_bytes, 64 * MIB);
        must(everything_use(device)); /* it works as before */
        device_close(device);
        if (status == MNEM_OK) {
            assert_int_equal(n, 11); /* ten calls can fail */
            return;
        }
        assert_int_equal(status, MNEM_NO_MEMORY);
    }
}

/* ---- host ---- */

static void host_blocks_are_memory(void **state) {
    (void)state;
    mnem_device *device;
    mnem_block a, b;
    must(mnem_device_open("host", NULL, &device));
    must(mnem_device_alloc(device, MNEM_SPACE_HOST, 3 * MIB, 64, &a));
    must(mnem_device_alloc(device, MNEM_SPACE_HOST, 5000, 64, &b));
    uint8_t *x = mnem_block_host(&a), *y = mnem_block_host(&b);
    for (uint64_t i = 0; i < a.bytes; i++) assert_int_equal(x[i], 0);
    must(mnem_stream_fill(device, NULL, &a, 10, 20, 7));
    must(mnem_stream_copy(device, NULL, &b, 4000, &a, 5, 100));
    assert_int_equal(y[4004], 0);
    assert_int_equal(y[4005], 7);
    assert_int_equal(y[4024], 7);
    assert_int_equal(y[4025], 0);
    must(mnem_stream_copy(device, NULL, &a, 11, &a, 10, 25)); /* overlapping */
    assert_int_equal(x[30], 7);
    mnem_device_free(&a);
    mnem_device_free(&b);
    device_close(device);
}

typedef struct step {
    int *next, index;
} step;

static void in_order(void *context) {
    step *s = context;
    assert_int_equal(*s->next, s->index);
    ++*s->next;
}

static void host_streams_run_in_order_and_wait_when_full(void **state) {
    (void)state;
    enum { STEPS = 3 * MNEM_STREAM_DEPTH };
    static step steps[STEPS];
    mnem_device *device;
    mnem_stream *stream;
    int next = 0;
    must(mnem_device_open("host", NULL, &device));
    must(mnem_stream_create(device, &stream));
    for (int i = 0; i < STEPS; i++) {
        steps[i] = (step){&next, i};
        must(mnem_stream_launch(device, stream, in_order, &steps[i]));
    }
    must(mnem_stream_synchronize(stream));
    assert_int_equal(next, STEPS);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (int i = 0; i < STEPS; i++) {
        steps[i].index += STEPS;
        must(mnem_stream_launch(device, stream, in_order, &steps[i]));
    }
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    mnem_stream_destroy(stream); /* finishes first */
    assert_int_equal(next, 2 * STEPS);
    device_close(device);
}

static void read_flag(void *context) {
    int *seen = context;
    *seen = atomic_load(&gate);
}

static void host_events_join_streams(void **state) {
    (void)state;
    mnem_device *device;
    mnem_stream *one, *two;
    mnem_event *event;
    int seen = -1;
    must(mnem_device_open("host", NULL, &device));
    must(mnem_stream_create(device, &one));
    must(mnem_stream_create(device, &two));
    must(mnem_event_create(device, &event));
    must(mnem_stream_launch(device, one, wait_for_gate, NULL));
    must(mnem_event_record(event, one));
    must(mnem_event_wait(event, two));
    must(mnem_stream_launch(device, two, read_flag, &seen));
    assert_int_equal(mnem_event_query(event), MNEM_NOT_READY);
    atomic_store(&gate, 1);
    must(mnem_stream_synchronize(two));
    assert_int_equal(seen, 1);
    assert_int_equal(mnem_event_query(event), MNEM_OK);
    mnem_event_destroy(event);
    mnem_stream_destroy(one);
    mnem_stream_destroy(two);
    device_close(device);
}

/* ---- null, and devices that aren't there ---- */

static void never_called(void *context) {
    *(int *)context = 1;
}

static void null_has_addresses_without_memory(void **state) {
    (void)state;
    mnem_device *device;
    mnem_device_info info;
    mnem_block block;
    mnem_stream *stream;
    int called = 0;
    must(mnem_device_open("null", NULL, &device));
    mnem_device_info_get(device, &info);
    assert_int_equal(info.capacity_bytes, UINT64_C(80) << 30);
    assert_int_equal(info.granularity, 2 * MIB);
    assert_false(info.host_visible);
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, UINT64_C(70) << 30, 2 * MIB, &block));
    assert_null(mnem_block_host(&block));
    must(mnem_stream_create(device, &stream));
    must(mnem_stream_launch(device, stream, never_called, &called));
    must(mnem_stream_fill(device, stream, &block, 0, block.bytes, 1));
    mnem_stream_destroy(stream);
    assert_int_equal(called, 0);
    mnem_device_free(&block);
    device_close(device);
}

static void copies_between_devices_need_both_to_be_seen(void **state) {
    (void)state;
    mnem_device *host, *null;
    mnem_block a, b;
    must(mnem_device_open("host", NULL, &host));
    must(mnem_device_open("null", NULL, &null));
    must(mnem_device_alloc(host, MNEM_SPACE_HOST, 4096, 64, &a));
    must(mnem_device_alloc(null, MNEM_SPACE_DEVICE, 4096, 64, &b));
    assert_int_equal(mnem_stream_copy(host, NULL, &a, 0, &b, 0, 10), MNEM_UNSUPPORTED);
    must(mnem_stream_copy(null, NULL, &a, 0, &b, 0, 10));
    assert_int_equal(mnem_stream_copy(null, NULL, &a, 0, &a, 0, 10), MNEM_INVALID);
    mnem_device_free(&a);
    mnem_device_free(&b);
    device_close(host);
    device_close(null);
}

static void unknown_devices_are_refused_by_name(void **state) {
    (void)state;
    mnem_device *device = (void *)1;
    assert_int_equal(mnem_device_open("cuda", NULL, &device), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "cuda"));
    assert_null(device);
    assert_int_equal(mnem_device_open("ascend", NULL, &device), MNEM_UNSUPPORTED);
    assert_int_equal(mnem_device_open("abacus", NULL, &device), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "abacus"));
    mnem_device_options odd = {.granularity = 3000};
    assert_int_equal(mnem_device_open("null", &odd, &device), MNEM_INVALID);
}

#define ON(test, name)                                                                             \
    { #test " (" name ")", test, NULL, NULL, (void *)(uintptr_t)name }
#define ON_ALL(test) ON(test, "host"), ON(test, "null")

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ALL(blocks_are_aligned_rounded_and_apart),
        ON_ALL(an_open_device_takes_the_heap_that_was_planned),
        ON_ALL(work_is_done_at_once_where_the_device_says_so),
        ON_ALL(capacity_is_obeyed_to_the_byte),
        ON_ALL(wrong_arguments_are_refused),
        ON_ALL(closing_is_refused_while_anything_lives),
        ON_ALL(ranges_of_blocks_are_checked),
        ON_ALL(events_complete_in_order),
        ON_ALL(no_memory_at_any_allocation_leaks_nothing),
        ON_ALL(a_device_that_fails_at_any_call_loses_nothing),
        cmocka_unit_test(host_blocks_are_memory),
        cmocka_unit_test(host_streams_run_in_order_and_wait_when_full),
        cmocka_unit_test(host_events_join_streams),
        cmocka_unit_test(null_has_addresses_without_memory),
        cmocka_unit_test(copies_between_devices_need_both_to_be_seen),
        cmocka_unit_test(unknown_devices_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
