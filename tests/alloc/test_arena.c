/* test_arena.c: arenas, and sets of them for workers. */
#include <pthread.h>
#include <string.h>

#include "alloc/arena.h"
#include "base/heap.h"
#include "device/backend/backend.h"
#include "kit/kit.h"

static void an_arena_measures_what_it_carves(void **state) {
    (void)state;
    static _Alignas(256) uint8_t memory[4096];
    mnem__arena measure, carve;
    mnem__arena_init(&measure, NULL, UINT64_MAX);
    mnem__arena_init(&carve, memory, sizeof memory);
    for (int i = 0; i < 10; i++) {
        uint64_t a = 0, b = 0, bytes = (uint64_t)i * 37 + 1, alignment = UINT64_C(1) << (i % 9);
        must(mnem__arena_alloc(&measure, bytes, alignment, &a));
        must(mnem__arena_alloc(&carve, bytes, alignment, &b));
        assert_int_equal(a, b);
        assert_int_equal((uintptr_t)(memory + b) % (alignment < 32 ? 32 : alignment), 0);
    }
    assert_int_equal(mnem__arena_peak(&measure), mnem__arena_peak(&carve));
    uint64_t offset = 0, peak = mnem__arena_peak(&carve);
    assert_int_equal(mnem__arena_alloc(&carve, 4096, 1, &offset), MNEM_OVER_BUDGET);
    assert_int_equal(mnem__arena_alloc(&carve, UINT64_MAX, 1, &offset), MNEM_OVER_BUDGET);
    assert_int_equal(mnem__arena_alloc(&carve, 1, 3, &offset), MNEM_INVALID);
    mnem__arena_reset(&carve);
    assert_int_equal(carve.bytes_used, 0);
    must(mnem__arena_alloc(&carve, 100, 1, &offset));
    assert_int_equal(mnem__arena_peak(&carve), peak);
    mnem__arena_reset(&carve);
    must(mnem__arena_alloc(&carve, 4096, 1, &offset));
    assert_int_equal(offset, 0);
    assert_int_equal(mnem__arena_peak(&carve), 4096);
}

static void a_measured_peak_is_enough_to_carve(void **state) {
    (void)state;
    static _Alignas(512) uint8_t memory[8192];
    for (uint64_t bytes = 1; bytes < 300; bytes++) {
        mnem__arena measure, carve;
        uint64_t offset;
        mnem__arena_init(&measure, NULL, UINT64_MAX);
        for (uint64_t i = 0; i < 9; i++)
            must(mnem__arena_alloc(&measure, bytes, UINT64_C(1) << i, &offset));
        mnem__arena_init(&carve, memory, mnem__arena_peak(&measure));
        for (uint64_t i = 0; i < 9; i++)
            must(mnem__arena_alloc(&carve, bytes, UINT64_C(1) << i, &offset));
        assert_int_equal(mnem__arena_peak(&carve), mnem__arena_peak(&measure));
    }
}

/* The address counts, not the offset: the base may be anywhere. */
static void blocks_are_aligned_apart_and_inside_from_any_base(void **state) {
    (void)state;
    static _Alignas(1024) uint8_t memory[8192];
    uint64_t random = 20261121;
    for (unsigned base = 0; base < 200; base++) {
        mnem__arena arena;
        mnem__arena_init(&arena, memory + base, sizeof memory - base);
        uint64_t end = 0, offset = 0;
        for (;;) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            uint64_t bytes = random >> 56, alignment = UINT64_C(1) << (random >> 32) % 11;
            if (mnem__arena_alloc(&arena, bytes, alignment, &offset) != MNEM_OK) break;
            assert_true(offset >= end);
            end = offset + bytes;
            assert_true(end <= arena.bytes);
            assert_int_equal(
                (uintptr_t)(memory + base + offset) % (alignment < 32 ? 32 : alignment), 0);
            assert_true(arena.bytes_used >= end && arena.bytes_used < end + 32);
        }
        assert_true(arena.bytes_used < end + 32); /* a refusal takes nothing */
        assert_true(arena.bytes_used <= arena.bytes);
        assert_int_equal(mnem__arena_peak(&arena), arena.bytes_used);
    }
}

static void an_arena_is_filled_to_the_last_unit_and_says_so(void **state) {
    (void)state;
    mnem__arena arena;
    uint64_t offset = 7;
    mnem__arena_init(&arena, NULL, 100); /* three units of 32 bytes */
    must(mnem__arena_alloc(&arena, 10, 1, &offset));
    assert_int_equal(mnem__arena_alloc(&arena, 65, 1, &offset), MNEM_OVER_BUDGET);
    assert_string_equal(mnem_last_error(), "arena: needs 65 bytes, 32 of 96 used");
    must(mnem__arena_alloc(&arena, 64, 1, &offset));
    assert_int_equal(offset, 32);
    must(mnem__arena_alloc(&arena, 0, 1, &offset));
    assert_int_equal(offset, 96);
    assert_int_equal(mnem__arena_alloc(&arena, 0, 64, &offset), MNEM_OVER_BUDGET); /* at 128 */
    assert_int_equal(mnem__arena_alloc(&arena, 0, UINT64_C(1) << 63, &offset), MNEM_OVER_BUDGET);
    assert_int_equal(mnem__arena_alloc(&arena, UINT64_MAX, 1, &offset), MNEM_OVER_BUDGET);
    assert_int_equal(offset, 96);
    mnem__arena_init(&arena, NULL, UINT64_MAX);
    must(mnem__arena_alloc(&arena, UINT64_MAX - 70, 1, &offset));
    assert_int_equal(mnem__arena_alloc(&arena, 1, 128, &offset), MNEM_OVER_BUDGET);
    must(mnem__arena_alloc(&arena, 3, 1, &offset));
    assert_int_equal(offset, UINT64_MAX - 63);
    assert_int_equal(mnem__arena_alloc(&arena, 1, 1, &offset), MNEM_OVER_BUDGET);
}

static void an_arena_smaller_than_its_first_address_is_empty(void **state) {
    (void)state;
    static _Alignas(32) uint8_t memory[64];
    mnem__arena arena;
    uint64_t offset;
    for (unsigned bytes = 0; bytes < 63; bytes++) {
        mnem__arena_init(&arena, memory + 1, bytes);
        assert_int_equal(mnem__arena_alloc(&arena, 1, 1, &offset), MNEM_OVER_BUDGET);
        mnem__arena_reset(&arena);
        assert_int_equal(mnem__arena_alloc(&arena, 1, 1, &offset), MNEM_OVER_BUDGET);
    }
    mnem__arena_init(&arena, memory + 1, 63);
    must(mnem__arena_alloc(&arena, 32, 1, &offset));
    assert_int_equal(offset, 31);
}

/* ---- sets: state is the device's name ---- */

static void a_set_is_one_charged_block_in_equal_pieces(void **state) {
    enum { WORKERS = 5, BYTES = 1000, PIECE = 1024 };
    mnem_device *device;
    mnem_ledger *ledger;
    mnem__arena_set *set;
    mnem_account_info account;
    must(mnem_device_open(*state, NULL, &device));
    must(mnem_ledger_create(NULL, &ledger));
    must(mnem__arena_set_create(ledger, device, MNEM_KIND_WORKSPACE, "scratch", WORKERS, BYTES,
                                &set));
    const mnem_block *block = mnem__arena_set_block(set);
    assert_int_equal(block->bytes, mnem__arena_set_bytes(device, WORKERS, BYTES));
    assert_true(mnem_ledger_account_get(ledger, 0, &account));
    assert_string_equal(account.tag, "scratch");
    assert_int_equal(account.bytes_live, block->bytes);
    for (unsigned i = 0; i < WORKERS; i++) {
        mnem__arena *arena = mnem__arena_set_get(set, i);
        assert_int_equal(arena->base, block->address + i * PIECE);
        assert_int_equal(arena->bytes, PIECE);
        assert_int_equal((uintptr_t)arena % 64, 0);
        assert_int_equal(arena->base % 64, 0);
        if (mnem_block_host(block))
            assert_int_equal((uintptr_t)mnem__arena_set_host(set, i), arena->base);
        else
            assert_null(mnem__arena_set_host(set, i));
        uint64_t offset;
        must(mnem__arena_alloc(arena, 100 * (i + 1), 64, &offset));
    }
    assert_null(mnem__arena_set_get(set, WORKERS));
    assert_null(mnem__arena_set_host(set, WORKERS));
    mnem__arena_set_reset(set);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(mnem__arena_set_get(set, i)->bytes_used, 0);
    assert_int_equal(mnem__arena_set_peak(set), 512);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_BUSY);
    mnem__arena_set_destroy(set);
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

static void a_set_that_can_not_be_is_refused(void **state) {
    mnem_device *device;
    mnem_ledger *ledger;
    mnem__arena_set *set = (void *)1;
    must(mnem_device_open(*state, NULL, &device));
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 1 << 20}, &ledger));
    assert_int_equal(mnem__arena_set_create(NULL, device, MNEM_KIND_WORKSPACE, "a", 0, 10, &set),
                     MNEM_INVALID);
    assert_null(set);
    assert_int_equal(mnem__arena_set_create(NULL, device, MNEM_KIND_WORKSPACE, "a", 3, 0, &set),
                     MNEM_INVALID);
    assert_int_equal(
        mnem__arena_set_create(NULL, device, MNEM_KIND_WORKSPACE, "a", 3, UINT64_MAX / 2, &set),
        MNEM_INVALID);
    assert_int_equal(mnem__arena_set_bytes(device, 3, UINT64_MAX / 2), UINT64_MAX);
    assert_int_equal(
        mnem__arena_set_create(ledger, device, MNEM_KIND_WORKSPACE, "a", 3, 1 << 20, &set),
        MNEM_OVER_BUDGET);
    assert_null(set);
    mnem__arena_set_destroy(set);
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

/* fail_at is one of the two: of the heap and the pages, or of the device's calls. */
static void fail_everywhere(const char *name, void (*fail_at)(uint64_t n, bool sticky)) {
    mnem_device *device;
    mnem_ledger *ledger;
    mnem__arena_set *set;
    mnem_ledger_info info;
    mnem_heap_usage before, after;
    must(mnem_device_open(name, NULL, &device));
    must(mnem_ledger_create(NULL, &ledger));
    for (uint64_t n = 1;; n++) {
        mnem_heap_usage_get(&before);
        fail_at(n, false);
        mnem_status status =
            mnem__arena_set_create(ledger, device, MNEM_KIND_WORKSPACE, "scratch", 4, 100, &set);
        fail_at(0, false);
        mnem__arena_set_destroy(set);
        mnem_ledger_info_get(ledger, &info);
        mnem_heap_usage_get(&after);
        assert_int_equal(info.bytes_live, 0);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_true(n < 10);
    }
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

static void no_memory_for_a_set_leaves_nothing_taken(void **state) {
    fail_everywhere(*state, mnem__heap_fail_at);
    fail_everywhere(*state, mnem__device_fail_at);
}

/* ---- workers ---- */

typedef struct worker {
    mnem__arena *arena;
    uint8_t *base;
    uint8_t number;
    uint64_t bytes_wrong;
    pthread_t thread;
} worker;

static void *work(void *context) {
    worker *w = context;
    for (int step = 0; step < 200; step++) {
        uint64_t offset;
        while (mnem__arena_alloc(w->arena, 48, 32, &offset) == MNEM_OK)
            memset(w->base + offset, w->number, 48);
        for (uint64_t i = 0; i < w->arena->bytes_used; i++)
            w->bytes_wrong += w->base[i] != w->number && i % 64 < 48;
        mnem__arena_reset(w->arena);
    }
    return NULL;
}

static void workers_use_their_arenas_at_once(void **state) {
    (void)state;
    enum { WORKERS = 4 };
    mnem_device *device;
    mnem__arena_set *set;
    worker workers[WORKERS];
    must(mnem_device_open("host", NULL, &device));
    must(mnem__arena_set_create(NULL, device, MNEM_KIND_WORKSPACE, "a", WORKERS, 4096, &set));
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.arena = mnem__arena_set_get(set, i),
                              .base = mnem__arena_set_host(set, i),
                              .number = (uint8_t)(i + 1)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < WORKERS; i++) assert_int_equal(workers[i].bytes_wrong, 0);
    assert_int_equal(mnem__arena_set_peak(set), 4096);
    mnem__arena_set_destroy(set);
    must(mnem_device_close(device));
}

#define ON(test, name)                                                                             \
    { #test " (" name ")", test, NULL, NULL, (void *)(uintptr_t)name }
#define ON_ALL(test) ON(test, "host"), ON(test, "null")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_measures_what_it_carves),
        cmocka_unit_test(blocks_are_aligned_apart_and_inside_from_any_base),
        cmocka_unit_test(a_measured_peak_is_enough_to_carve),
        cmocka_unit_test(an_arena_is_filled_to_the_last_unit_and_says_so),
        cmocka_unit_test(an_arena_smaller_than_its_first_address_is_empty),
        ON_ALL(a_set_is_one_charged_block_in_equal_pieces),
        ON_ALL(a_set_that_can_not_be_is_refused),
        ON_ALL(no_memory_for_a_set_leaves_nothing_taken),
        cmocka_unit_test(workers_use_their_arenas_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
