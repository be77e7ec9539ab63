/* test_range.c: ranges and granules: one suite for every device, then the memory of the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/heap.h"
#include "device/backend.h"
#include "mnem/device.h"

#define MIB     (UINT64_C(1) << 20)
#define GRANULE (2 * MIB)

static void must(mnem_status status) {
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
}

static mnem_device *device_open(void **state, uint64_t capacity) {
    const char *name = *state;
    mnem_device_options options = {.capacity_bytes = capacity};
    options.host_hidden = !strcmp(name, "hidden");
    mnem_device *device;
    must(mnem_device_open(options.host_hidden ? "host" : name, &options, &device));
    return device;
}

static uint64_t available(mnem_device *device) {
    mnem_device_info info;
    must(mnem_device_info_get(device, &info));
    return info.available_bytes;
}

/* A piece of a range as a block. */
static mnem_block piece(const mnem_range *range, uint64_t offset, uint64_t bytes) {
    return (mnem_block){.device = range->device, .address = range->address + offset, bytes};
}

/* What is at an offset, also where the host can't see it; 0 on null. */
static uint8_t byte_at(const mnem_range *range, uint64_t offset) {
    mnem_block from = piece(range, offset, 1), to;
    must(mnem_device_alloc(range->device, MNEM_SPACE_HOST, 1, 64, &to));
    must(mnem_stream_copy(range->device, NULL, &to, 0, &from, 0, 1));
    uint8_t *host = mnem_block_host(&to), value = host ? *host : 0;
    mnem_device_free(&to);
    return value;
}

static void fill(const mnem_range *range, uint64_t granule, uint8_t value) {
    mnem_block to = piece(range, granule * GRANULE, GRANULE);
    must(mnem_stream_fill(range->device, NULL, &to, 0, GRANULE, value));
}

/* Both ends of a granule hold the value (not on null, which has no bytes). */
static void holds(const mnem_range *range, uint64_t granule, uint8_t value) {
    if (!range->device->backend->host_visible) return;
    assert_int_equal(byte_at(range, granule * GRANULE), value);
    assert_int_equal(byte_at(range, (granule + 1) * GRANULE - 1), value);
}

/* ---- conformance: state is "host", "hidden" (the host's, not shown to it) or "null" ---- */

static void ranges_are_addresses_apart(void **state) {
    mnem_device *device = device_open(state, 0);
    mnem_device_info info;
    must(mnem_device_info_get(device, &info));
    assert_int_equal(info.granule_bytes, GRANULE);
    mnem_range ranges[5];
    for (int i = 0; i < 5; i++) {
        must(mnem_range_reserve(device, (uint64_t)i * GRANULE + 1, &ranges[i]));
        assert_int_equal(ranges[i].bytes, (uint64_t)(i + 1) * GRANULE);
        assert_int_equal(ranges[i].address % GRANULE, 0);
        assert_int_equal(mnem_range_host(&ranges[i]) != NULL, info.host_visible);
        for (int k = 0; k < i; k++)
            assert_true(ranges[k].address + ranges[k].bytes <= ranges[i].address ||
                        ranges[i].address + ranges[i].bytes <= ranges[k].address);
    }
    for (int i = 0; i < 5; i++) mnem_range_release(&ranges[i]);
    mnem_range_release(&ranges[0]); /* cleared: nothing happens */
    must(mnem_device_close(device));
}

static void moving_a_granule_keeps_its_bytes(void **state) {
    mnem_device *device = device_open(state, 64 * MIB);
    mnem_range a, b;
    uint64_t granules[3];
    must(mnem_range_reserve(device, 4 * GRANULE, &a));
    must(mnem_range_reserve(device, 4 * GRANULE, &b));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, granules, 3));
    must(mnem_range_map(&a, 0, granules, 3));
    for (uint8_t i = 0; i < 3; i++) holds(&a, i, 0);
    for (uint8_t i = 0; i < 3; i++) fill(&a, i, (uint8_t)(10 + i));
    must(mnem_range_unmap(&a, GRANULE, 1));
    must(mnem_range_map(&b, 3 * GRANULE, granules + 1, 1));
    must(mnem_range_unmap(&a, 0, 1));
    must(mnem_range_map(&a, 3 * GRANULE, granules, 1));
    holds(&a, 2, 12);
    holds(&a, 3, 10);
    holds(&b, 3, 11);
    must(mnem_range_unmap(&a, 2 * GRANULE, 2));
    must(mnem_range_unmap(&b, 3 * GRANULE, 1));
    uint64_t turned[3] = {granules[2], granules[0], granules[1]};
    must(mnem_range_map(&b, 0, turned, 3));
    holds(&b, 0, 12);
    holds(&b, 1, 10);
    holds(&b, 2, 11);
    mnem_range_release(&a);
    mnem_range_release(&b);
    must(mnem_granules_give(device, granules, 3));
    must(mnem_device_close(device));
}

static void a_granule_mapped_twice_is_one_piece_of_memory(void **state) {
    mnem_device *device = device_open(state, 64 * MIB);
    mnem_range a, b;
    uint64_t granule;
    must(mnem_range_reserve(device, 2 * GRANULE, &a));
    must(mnem_range_reserve(device, GRANULE, &b));
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, &granule, 1));
    must(mnem_range_map(&a, 0, &granule, 1));
    must(mnem_range_map(&a, GRANULE, &granule, 1));
    must(mnem_range_map(&b, 0, &granule, 1));
    fill(&a, 1, 77);
    holds(&a, 0, 77);
    holds(&b, 0, 77);
    assert_int_equal(mnem_granules_give(device, &granule, 1), MNEM_BUSY);
    assert_non_null(strstr(mnem_last_error(), "mapped at 3 places"));
    must(mnem_range_unmap(&a, 0, 1));
    mnem_range_release(&a);
    fill(&b, 0, 78);
    assert_int_equal(mnem_granules_give(device, &granule, 1), MNEM_BUSY);
    holds(&b, 0, 78);
    mnem_range_release(&b);
    must(mnem_granules_give(device, &granule, 1));
    must(mnem_device_close(device));
}

static void wrong_places_and_numbers_are_refused(void **state) {
    mnem_device *device = device_open(state, 64 * MIB);
    mnem_range range;
    uint64_t g[4], other;
    assert_int_equal(mnem_range_reserve(device, 0, &range), MNEM_INVALID);
    assert_int_equal(mnem_range_reserve(device, UINT64_MAX, &range), MNEM_NO_MEMORY);
    must(mnem_range_reserve(device, 3 * GRANULE, &range));
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_COUNT, g, 1), MNEM_INVALID);
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 0), MNEM_INVALID);
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 4));
    other = g[3] + 100;
    assert_int_equal(mnem_range_map(&range, 1, g, 1), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, 4096, g, 1), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, 3 * GRANULE, g, 1), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, GRANULE, g, 3), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, 0, g, SIZE_MAX), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, UINT64_MAX - GRANULE + 1, g, 2), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, 0, &other, 1), MNEM_INVALID);
    assert_int_equal(mnem_range_unmap(&range, 0, 1), MNEM_INVALID);
    must(mnem_range_map(&range, GRANULE, g, 1));
    assert_int_equal(mnem_range_map(&range, 0, g + 1, 3), MNEM_INVALID); /* the middle is taken */
    assert_int_equal(mnem_range_unmap(&range, 0, 2), MNEM_INVALID);
    assert_int_equal(mnem_range_unmap(&range, GRANULE + 1, 1), MNEM_INVALID);
    must(mnem_range_unmap(&range, GRANULE, 1));
    assert_int_equal(mnem_granules_give(device, (uint64_t[]){g[0], g[1], g[0]}, 3), MNEM_INVALID);
    assert_int_equal(mnem_granules_give(device, (uint64_t[]){g[0], other}, 2), MNEM_INVALID);
    must(mnem_granules_give(device, g, 4)); /* so none of them was given before */
    assert_int_equal(mnem_granules_give(device, g, 1), MNEM_INVALID);
    assert_int_equal(mnem_range_map(&range, 0, g, 1), MNEM_INVALID);
    mnem_range_release(&range);
    must(mnem_device_close(device));
}

static void granules_count_against_the_capacity(void **state) {
    mnem_device *device = device_open(state, 8 * MIB);
    mnem_block block;
    uint64_t g[4];
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 5), MNEM_NO_MEMORY);
    assert_non_null(strstr(mnem_last_error(), "needs 10485760 bytes, 8388608 of 8388608 left"));
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, SIZE_MAX), MNEM_NO_MEMORY);
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 3));
    assert_int_equal(available(device), 2 * MIB);
    must(mnem_device_alloc(device, MNEM_SPACE_DEVICE, 2 * MIB, 64, &block));
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_DEVICE, g + 3, 1), MNEM_NO_MEMORY);
    must(mnem_granules_give(device, g, 2));
    assert_int_equal(available(device), 4 * MIB);
    mnem_device_free(&block);
    must(mnem_granules_give(device, g + 2, 1));
    assert_int_equal(available(device), 8 * MIB);
    must(mnem_device_close(device));
}

static void closing_is_refused_while_ranges_or_granules_live(void **state) {
    mnem_device *device = device_open(state, 0);
    mnem_range range;
    uint64_t granule;
    must(mnem_range_reserve(device, GRANULE, &range));
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, &granule, 1));
    must(mnem_range_map(&range, 0, &granule, 1));
    mnem_range_release(&range);
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    assert_non_null(strstr(mnem_last_error(), "1 granules of 2097152 bytes"));
    must(mnem_granules_give(device, &granule, 1));
    must(mnem_device_close(device));
}

#define ON(test, name)                                                                             \
    { #test " (" name ")", test, NULL, NULL, (void *)(uintptr_t)name }
#define ON_ALL(test) ON(test, "host"), ON(test, "hidden"), ON(test, "null")

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ALL(ranges_are_addresses_apart),
        ON_ALL(moving_a_granule_keeps_its_bytes),
        ON_ALL(a_granule_mapped_twice_is_one_piece_of_memory),
        ON_ALL(wrong_places_and_numbers_are_refused),
        ON_ALL(granules_count_against_the_capacity),
        ON_ALL(closing_is_refused_while_ranges_or_granules_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
