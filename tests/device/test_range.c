/* test_range.c: ranges and granules: one suite for every device. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "device/backend/backend.h"
#include "device/host/host_range.h"
#include "device/range_case.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "mnem/device.h"

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
    mnem_device *device = device_open(*state, 0);
    mnem_device_info info;
    mnem_device_info_get(device, &info);
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
    mnem_device *device = device_open(*state, 64 * MIB);
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
    mnem_device *device = device_open(*state, 64 * MIB);
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
    assert_non_null(strstr(mnem_last_error(), "still mapped 3 times"));
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
    mnem_device *device = device_open(*state, 64 * MIB);
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
    mnem_device *device = device_open(*state, 8 * MIB);
    mnem_block block;
    uint64_t g[4];
    assert_int_equal(mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 5), MNEM_NO_MEMORY);
    assert_non_null(
        strstr(mnem_last_error(),
               "needs 10485760 bytes, but only 8388608 of the device's 8388608 are free"));
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
    mnem_device *device = device_open(*state, 0);
    mnem_range range;
    uint64_t granule;
    must(mnem_range_reserve(device, GRANULE, &range));
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    must(mnem_granules_take(device, MNEM_SPACE_DEVICE, &granule, 1));
    must(mnem_range_map(&range, 0, &granule, 1));
    mnem_range_release(&range);
    assert_int_equal(mnem_device_close(device), MNEM_BUSY);
    assert_non_null(strstr(mnem_last_error(), "1 granules (2097152 bytes in all)"));
    must(mnem_granules_give(device, &granule, 1));
    must(mnem_device_close(device));
}

/* ---- random steps against a model ---- */

enum { GRANULES = 6, PLACES = 10, NO_GRANULE = 1000, STEPS = 600 };

typedef struct model {
    mnem_device *device;
    mnem_range range;
    uint64_t granule[GRANULES]; /* its number */
    bool taken[GRANULES];
    uint32_t stamp[GRANULES]; /* what its first word holds */
    int mapped[PLACES];       /* index of the granule, or -1 */
    uint64_t random;
} model;

static uint32_t draw(model *m, uint32_t below) {
    m->random ^= m->random << 13, m->random ^= m->random >> 7, m->random ^= m->random << 17;
    return (uint32_t)(m->random >> 11) % below;
}

static bool is_mapped(const model *m, int granule) {
    for (int i = 0; i < PLACES; i++)
        if (m->mapped[i] == granule) return true;
    return false;
}

static uint32_t *word_at(const model *m, int place) {
    char *base = mnem_range_host(&m->range);
    return base ? (uint32_t *)(base + (uint64_t)place * GRANULE) : NULL;
}

static void step_take_or_give(model *m, int g) {
    if (!m->taken[g]) {
        must(mnem_granules_take(m->device, MNEM_SPACE_DEVICE, &m->granule[g], 1));
        m->taken[g] = true;
        m->stamp[g] = 0;
        return;
    }
    mnem_status status = mnem_granules_give(m->device, &m->granule[g], 1);
    assert_int_equal(status, is_mapped(m, g) ? MNEM_BUSY : MNEM_OK);
    m->taken[g] = status != MNEM_OK;
    if (!m->taken[g]) m->granule[g] = NO_GRANULE;
}

static void step_map_or_unmap(model *m, int place, int g) {
    uint64_t offset = (uint64_t)place * GRANULE;
    if (m->mapped[place] >= 0) {
        must(mnem_range_unmap(&m->range, offset, 1));
        m->mapped[place] = -1;
        return;
    }
    mnem_status status = mnem_range_map(&m->range, offset, &m->granule[g], 1);
    assert_int_equal(status, m->taken[g] ? MNEM_OK : MNEM_INVALID);
    if (status == MNEM_OK) m->mapped[place] = g;
}

static void model_check(const model *m) {
    uint64_t taken = 0;
    for (int i = 0; i < GRANULES; i++) taken += m->taken[i];
    for (int i = 0; i < PLACES; i++)
        if (m->mapped[i] >= 0 && word_at(m, i))
            assert_int_equal(*word_at(m, i), m->stamp[m->mapped[i]]);
    assert_int_equal(available(m->device), 64 * MIB - taken * GRANULE);
}

static void random_steps_agree_with_a_model(void **state) {
    model m = {.device = device_open(*state, 64 * MIB), .random = 20261121};
    print_message("seed %llu\n", (unsigned long long)m.random);
    must(mnem_range_reserve(m.device, PLACES * GRANULE, &m.range));
    for (int i = 0; i < PLACES; i++) m.mapped[i] = -1;
    for (int i = 0; i < GRANULES; i++) m.granule[i] = NO_GRANULE;
    for (uint32_t i = 1; i <= STEPS; i++) {
        int place = (int)draw(&m, PLACES), g = (int)draw(&m, GRANULES);
        uint32_t what = draw(&m, 8);
        if (what == 0) step_take_or_give(&m, g);
        if (what >= 4) step_map_or_unmap(&m, place, g);
        if (m.mapped[place] >= 0 && word_at(&m, place))
            *word_at(&m, place) = m.stamp[m.mapped[place]] = i;
        model_check(&m);
    }
    mnem_range_release(&m.range);
    for (int i = 0; i < GRANULES; i++)
        if (m.taken[i]) must(mnem_granules_give(m.device, &m.granule[i], 1));
    must(mnem_device_close(m.device));
}

/* ---- failures at every call ---- */

/* Everything that can fail, once; what fails is undone by the caller's own means. */
static mnem_status everything(mnem_device *device) {
    mnem_range a = {0}, b = {0};
    uint64_t g[4];
    bool taken = false;
    mnem_status status = mnem_range_reserve(device, 4 * GRANULE, &a);
    if (status == MNEM_OK) status = mnem_range_reserve(device, 4 * GRANULE, &b);
    if (status == MNEM_OK) status = mnem_granules_take(device, MNEM_SPACE_DEVICE, g, 4);
    taken = status == MNEM_OK;
    if (status == MNEM_OK) /* three mappings, undone when the last fails */
        status = mnem_range_map(&a, 0, (uint64_t[]){g[0], g[2], g[1], g[3]}, 4);
    if (status == MNEM_OK) status = mnem_range_map(&b, GRANULE, g, 2);
    if (status == MNEM_OK) status = mnem_range_unmap(&a, 0, 2);
    mnem_range_release(&b);
    mnem_range_release(&a);
    if (taken) must(mnem_granules_give(device, g, 4));
    return status;
}

/* fail_at is one of the two: of the heap and the pages, or of the device's calls. */
static void fail_everywhere(void **state, void (*fail_at)(uint64_t n, bool sticky), bool sticky) {
    mnem_heap_usage before, after;
    for (uint64_t n = 1;; n++) {
        mnem_heap_usage_get(&before);
        mnem_device *device = device_open(*state, 64 * MIB);
        fail_at(n, sticky);
        mnem_status status = everything(device);
        fail_at(0, false);
        assert_int_equal(available(device), 64 * MIB);
        assert_int_equal(file_bytes(device), 0);
        must(everything(device)); /* it works as before */
        must(mnem_device_close(device));
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (status == MNEM_OK) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_true(n < 50);
    }
}

static void no_memory_at_any_call_loses_nothing(void **state) {
    fail_everywhere(state, mnem__heap_fail_at, false);
    fail_everywhere(state, mnem__heap_fail_at, true);
}

static void a_device_that_fails_at_any_call_loses_nothing(void **state) {
    fail_everywhere(state, mnem__device_fail_at, false);
    fail_everywhere(state, mnem__device_fail_at, true);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 40 };

typedef struct worker {
    mnem_device *device;
    uint8_t number;
    const char *failed;
    char why[256];
    pthread_t thread;
} worker;

/* What failed, NULL for nothing: asserts belong to the main thread. */
static const char *rounds(worker *w) {
    for (int round = 0; round < ROUNDS; round++) {
        mnem_range range;
        uint64_t g[2];
        uint32_t count = 1 + (uint32_t)(round + w->number) % 2;
        if (mnem_range_reserve(w->device, 2 * GRANULE, &range) != MNEM_OK) return "reserve";
        if (mnem_granules_take(w->device, MNEM_SPACE_DEVICE, g, count) != MNEM_OK) return "take";
        if (mnem_range_map(&range, 0, g, count) != MNEM_OK) return "map";
        mnem_device_info info; /* while others take granules */
        mnem_device_info_get(w->device, &info);
        if (info.granules_live < count || !*info.granule_pages) return "info";
        uint8_t *p = mnem_range_host(&range);
        for (uint64_t at = 0; p && at < count * GRANULE; at += 4096) {
            if (p[at]) return "not zero";
            p[at] = w->number;
        }
        for (uint64_t at = 0; p && at < count * GRANULE; at += 4096)
            if (p[at] != w->number) return "not mine";
        if (round % 3 && mnem_range_unmap(&range, 0, count) != MNEM_OK) return "unmap";
        mnem_range_release(&range);
        if (mnem_granules_give(w->device, g, count) != MNEM_OK) return "give";
    }
    return NULL;
}

static void *work(void *context) {
    worker *w = context;
    w->failed = rounds(w);
    strncpy(w->why, mnem_last_error(), sizeof w->why - 1);
    return NULL;
}

static void threads_share_a_device(void **state) {
    worker workers[THREADS];
    mnem_device *device = device_open(*state, 64 * MIB);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .number = (uint8_t)(i + 1)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].failed) fail_msg("thread %d: %s: %s", i, workers[i].failed, workers[i].why);
    }
    assert_int_equal(available(device), 64 * MIB);
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
        ON_ALL(random_steps_agree_with_a_model),
        ON_ALL(no_memory_at_any_call_loses_nothing),
        ON_ALL(a_device_that_fails_at_any_call_loses_nothing),
        ON_ALL(threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
