/* test_track_parts.c: the parts of libmnem-track.so by themselves: blocks against a plain table,
 * numbers of stacks from many threads, and stacks against the compiler's own unwinder. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "preload.h"

/* ---- live blocks ---- */

enum { ADDRESSES = 3000, STEPS = 200000 };

static uint64_t sum_bytes, sum_blocks;

static void add_up(void *context, const preload_block *block) {
    (void)context;
    sum_bytes += block->bytes;
    sum_blocks++;
}

static void blocks_are_those_of_a_plain_table(void **state) {
    (void)state;
    static uint64_t bytes[ADDRESSES]; /* 0: not live */
    uint64_t live = 0, blocks = 0, peak = 0, seed = 1234;
    preload_totals before, after;
    preload_totals_get(&before);
    for (uint64_t i = 1; i <= STEPS; i++) {
        const size_t k = next_random(&seed) % ADDRESSES;
        const uintptr_t address = 0x10000 + k * 16;
        preload_block b;
        if (bytes[k]) {
            assert_true(preload_block_take(address, &b));
            assert_int_equal(b.bytes, bytes[k]);
            assert_int_equal(b.address, address);
            live -= bytes[k];
            blocks--;
            bytes[k] = 0;
        } else {
            assert_false(preload_block_take(address, &b));
            bytes[k] = 1 + next_random(&seed) % 1000;
            assert_true(preload_block_add(
                &(preload_block){.address = address, .bytes = bytes[k], .serial = i}));
            live += bytes[k];
            blocks++;
            peak = live > peak ? live : peak;
        }
    }
    preload_totals_get(&after);
    assert_int_equal(after.bytes_live - before.bytes_live, live);
    assert_int_equal(after.blocks_live - before.blocks_live, blocks);
    assert_int_equal(after.bytes_peak, peak);
    assert_int_equal(after.allocations - after.frees, blocks);
    sum_bytes = sum_blocks = 0;
    preload_block_each(add_up, NULL);
    assert_int_equal(sum_bytes, live);
    assert_int_equal(sum_blocks, blocks);
    for (size_t k = 0; k < ADDRESSES; k++) {
        preload_block b;
        assert_int_equal(preload_block_take(0x10000 + k * 16, &b), bytes[k] != 0);
    }
}

static void an_address_that_comes_again_replaces_its_block(void **state) {
    (void)state;
    preload_totals t;
    preload_block b;
    preload_block_add(&(preload_block){.address = 0x500, .bytes = 100});
    preload_block_add(&(preload_block){.address = 0x500, .bytes = 7});
    preload_totals_get(&t);
    assert_int_equal(t.bytes_live, 7);
    assert_int_equal(t.blocks_live, 1);
    assert_true(preload_block_take(0x500, &b));
    assert_int_equal(b.bytes, 7);
    assert_false(preload_block_take(0x500, &b));
}

/* ---- many threads ---- */

enum { THREADS = 4, STACKS = 20000 };
static uint32_t numbers[THREADS][STACKS];

static void *number_all(void *context) {
    const size_t me = (size_t)(uintptr_t)context;
    for (uint32_t i = 0; i < STACKS; i++) {
        const uint32_t k = (i + (uint32_t)me * 777) % STACKS;
        const uintptr_t pcs[] = {0x1000 + k, 0x2000, 0x3000 + k % 7};
        numbers[me][k] = preload_stack_number(pcs, 2 + (int)(k % 2));
        const uintptr_t address = 0x100000 * (me + 1) + k * 16;
        preload_block b;
        preload_block_add(&(preload_block){.address = address, .bytes = 8, .stack = k});
        if (k % 3 && !preload_block_take(address, &b)) numbers[me][k] = 0;
    }
    return NULL;
}

static void a_stack_has_one_number_whoever_asks(void **state) {
    (void)state;
    pthread_t id[THREADS];
    preload_totals before, after;
    preload_totals_get(&before);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, number_all, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
    for (uint32_t k = 0; k < STACKS; k++) {
        int count;
        assert_int_not_equal(numbers[0][k], 0);
        for (size_t i = 1; i < THREADS; i++) assert_int_equal(numbers[i][k], numbers[0][k]);
        const uintptr_t *pcs = preload_stack_frames(numbers[0][k], &count);
        assert_int_equal(count, 2 + k % 2);
        assert_int_equal(pcs[0], 0x1000 + k);
    }
    assert_int_equal(preload_stack_count(), 1 + STACKS);
    preload_totals_get(&after);
    const uint64_t kept = THREADS * ((STACKS + 2) / 3);
    assert_int_equal(after.blocks_live - before.blocks_live, kept);
    assert_int_equal(after.bytes_live - before.bytes_live, 8 * kept);
}

/* ---- stacks ---- */

typedef struct stack {
    uintptr_t pcs[PRELOAD_DEPTH_MAX];
    int count;
} stack;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *to) {
    stack *s = to;
    const uintptr_t pc = _Unwind_GetIP(context);
    if (!pc || s->count == PRELOAD_DEPTH_MAX) return _URC_END_OF_STACK;
    s->pcs[s->count++] = pc;
    return _URC_NO_REASON;
}

static int compared;

/* The compiler's stack begins in this function, ours at its caller. */
static __attribute__((noinline)) void compare(void) {
    stack theirs = {.count = 0}, ours;
    _Unwind_Backtrace(take_frame, &theirs);
    const preload_frame from = {(uintptr_t)__builtin_return_address(0),
                                (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *),
                                *(uintptr_t *)__builtin_frame_address(0)};
    ours.count = preload_unwind(from, ours.pcs, PRELOAD_DEPTH_MAX - 1);
    assert_true(theirs.count > 4);
    for (int i = 0; i + 1 < theirs.count; i++) {
        assert_true(i < ours.count);
        assert_int_equal(ours.pcs[i], theirs.pcs[i + 1]);
    }
    compared++;
}

static int by_nothing(const void *a, const void *b) {
    if (compared % 5 == 0) compare(); /* through the C library's frames */
    compared += compared % 5 != 0;
    return *(const int *)a - *(const int *)b;
}

/* Frames of every size, with room that only the run knows, and values in many registers. */
static __attribute__((noinline)) long deep(int n, long a, long b, long c, double d) {
    volatile char room[64];
    char *more = __builtin_alloca((size_t)(n * 37 % 300) + 1);
    memset(more, n, (size_t)(n * 37 % 300) + 1);
    room[n % 64] = more[0];
    if (n == 0) {
        compare();
        return a + b + c;
    }
    const long left = deep(n - 1, b, c, a ^ n, d * 0.5);
    compare();
    return left + room[n % 64] + a * b + c + (long)d;
}

/* One whose frame begins at a multiple of 64. */
static __attribute__((noinline)) long aligned(int n) {
    _Alignas(64) volatile char room[128];
    room[n % 128] = (char)n;
    compare();
    return n ? aligned(n - 1) + room[n % 128] + ((uintptr_t)room % 64 != 0) : 0;
}

static void *in_a_thread(void *context) {
    (void)context;
    deep(10, 1, 2, 3, 4);
    return NULL;
}

static void stacks_are_those_of_the_compilers_unwinder(void **state) {
    (void)state;
#ifndef __x86_64__
    skip(); /* elsewhere frame pointers are followed, which a program need not have */
#endif
    pthread_t id;
    int values[50];
    for (int i = 0; i < 50; i++) values[i] = i * 7919 % 50;
    deep(20, 1, 2, 3, 4);
    aligned(10);
    qsort(values, 50, sizeof values[0], by_nothing);
    assert_int_equal(pthread_create(&id, NULL, in_a_thread, NULL), 0);
    pthread_join(id, NULL);
    preload_unwind_forget();
    deep(5, 1, 2, 3, 4);
    assert_true(compared > 50);
}

/* A stack that isn't one is given up, not followed. */
static void frames_that_lead_nowhere_end(void **state) {
    (void)state;
    uintptr_t pcs[8], words[4] = {0};
    const uintptr_t here = (uintptr_t)words;
    assert_int_equal(preload_unwind((preload_frame){0x1234, here, 0}, pcs, 8), 1);
    assert_int_equal(preload_unwind((preload_frame){0x1234, here, here + 1}, pcs, 8), 1);
    assert_int_equal(preload_unwind((preload_frame){0x1234, here, here - 4096}, pcs, 8), 1);
    assert_int_equal(preload_unwind((preload_frame){0x1234, here, UINTPTR_MAX - 7}, pcs, 8), 1);
    assert_int_equal(preload_unwind((preload_frame){0, here, here}, pcs, 8), 0);
    words[0] = 0;
    words[1] = 0x5678; /* a frame of a chain: one more, then nothing */
    assert_int_equal(preload_unwind((preload_frame){0x1234, here, here}, pcs, 8), 2);
    assert_int_equal(pcs[1], 0x5678);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_a_plain_table),
        cmocka_unit_test(an_address_that_comes_again_replaces_its_block),
        cmocka_unit_test(a_stack_has_one_number_whoever_asks),
        cmocka_unit_test(stacks_are_those_of_the_compilers_unwinder),
        cmocka_unit_test(frames_that_lead_nowhere_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
