/* test_guard.c: every kind of misuse is found, with both call sites; correct use reports nothing.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "alloc/track/guard.h"
#include "base/heap.h"
#include "kit/kit.h"

enum { BYTES = 1 << 20, RAW = 1024, FRONT = 256 };

/* A pool in small: one piece of memory, block id at id * RAW. */
typedef struct yard {
    mnem_device *device;
    mnem_block memory;
    mnem__track track;
    mnem__guard *guard;
    uint32_t generation[64];
} yard;

static void yard_open(yard *y, const char *device) {
    memset(y, 0, sizeof *y);
    must(mnem_device_open(device, NULL, &y->device));
    must(mnem_device_alloc(y->device, MNEM_SPACE_DEVICE, BYTES, 4096, &y->memory));
    must(mnem__track_init(&y->track, 0));
    must(mnem__track_reserve(&y->track, 64));
    must(mnem__guard_create(y->device, MNEM_SPACE_DEVICE, &y->track, &y->guard));
    must(mnem__guard_reserve(y->guard, 64));
    mnem__guard_fresh(y->guard, y->memory.address, BYTES);
}

static void yard_close(yard *y) {
    mnem__guard_destroy(y->guard);
    mnem__track_fini(&y->track);
    mnem_device_free(&y->memory);
    must(mnem_device_close(y->device));
}

static uint32_t site_at(yard *y, uint32_t line) {
    uint32_t tag;
    must(mnem__tag_of(&y->track.sites, MNEM_KIND_WEIGHTS, "embed", &tag));
    return mnem__site_of(&y->track.sites, tag, "model.c", line, 0);
}

/* Takes block id as by model.c:line; returns its bytes. */
static uint8_t *take(yard *y, uint32_t id, uint64_t bytes, uint32_t line, mnem_stream *stream) {
    y->generation[id] = mnem__track_add(&y->track, id, bytes, site_at(y, line), 0);
    const mnem__guard_block block = {.raw = y->memory.address + id * RAW,
                                     .raw_bytes = RAW,
                                     .address = y->memory.address + id * RAW + FRONT,
                                     .bytes = bytes,
                                     .gap = true};
    mnem__guard_take(y->guard, id, y->generation[id], &block, stream);
    return (uint8_t *)mnem_block_host(&y->memory) + id * RAW + FRONT;
}

static void give(yard *y, uint32_t id, uint32_t line, mnem_stream *stream) {
    mnem__guard_give(y->guard, id, site_at(y, line));
    mnem__guard_end(y->guard, id, true, stream);
    mnem__track_remove(&y->track, id);
}

static void assert_found(yard *y, uint64_t index, const char *text) {
    mnem_misuse m;
    char line[1024];
    assert_int_equal(mnem__guard_found(y->guard), index + 1);
    assert_true(mnem__guard_misuse(y->guard, index, &m));
    assert_string_equal(mnem_misuse_text(&m, line, sizeof line), text);
}

static void right_use_finds_nothing(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t id = 0; id < 64; id++) {
            uint8_t *p = take(&y, id, 1 + id * 10, 1, NULL);
            assert_int_equal(p[0], MNEM__POISON_TAKEN);
            memset(p, (int)id, 1 + id * 10); /* every byte of it */
        }
        mnem__guard_check(y.guard);
        for (uint32_t id = 0; id < 64; id++) give(&y, id, 2, NULL);
        mnem__guard_check_free(y.guard, y.memory.address, BYTES);
    }
    assert_int_equal(mnem__guard_found(y.guard), 0);
    assert_false(mnem__guard_misuse(y.guard, 0, &(mnem_misuse){0}));
    yard_close(&y);
}

static void a_write_past_the_end_is_found_by_the_free(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    uint8_t *p = take(&y, 3, 100, 120, NULL);
    p[100] = 1;
    p[102] = 1;
    give(&y, 3, 140, NULL);
    assert_found(
        &y, 0,
        "write past the end of weights embed (100 bytes, allocated at model.c:120): 2 bytes, "
        "the first 1 past the end; found by the free at model.c:140");
    mnem_misuse m;
    assert_true(mnem__guard_misuse(y.guard, 0, &m));
    assert_int_equal(m.offset, 100);
    assert_int_equal(m.address, y.memory.address + 3 * RAW + FRONT + 100);
    p = take(&y, 3, 100, 121, NULL); /* told once; the memory is clean again */
    give(&y, 3, 141, NULL);
    assert_int_equal(mnem__guard_found(y.guard), 1);
    yard_close(&y);
}

static void a_write_before_the_start_is_found_by_a_check(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    uint8_t *p = take(&y, 3, 100, 120, NULL);
    p[-8] = 0;
    mnem__guard_check(y.guard);
    const char *text = "write before the start of weights embed (100 bytes, allocated at "
                       "model.c:120): 1 byte, the first 8 before the start; found by a check";
    assert_found(&y, 0, text);
    mnem__guard_check(y.guard); /* told once */
    give(&y, 3, 140, NULL);
    assert_found(&y, 0, text);
    yard_close(&y);
}

static void both_gaps_are_told_apart(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    uint8_t *p = take(&y, 0, 7, 1, NULL);
    memset(p - FRONT, 0, FRONT);
    memset(p + 7, 0, RAW - FRONT - 7);
    mnem__guard_check(y.guard);
    mnem_misuse m;
    assert_int_equal(mnem__guard_found(y.guard), 2);
    assert_true(mnem__guard_misuse(y.guard, 0, &m));
    assert_int_equal(m.what, MNEM_MISUSE_WRITE_BEFORE);
    assert_int_equal(m.offset, -FRONT);
    assert_int_equal(m.wrong, FRONT);
    assert_true(mnem__guard_misuse(y.guard, 1, &m));
    assert_int_equal(m.what, MNEM_MISUSE_WRITE_PAST);
    assert_int_equal(m.wrong, RAW - FRONT - 7);
    yard_close(&y);
}

static void a_write_after_free_is_found_when_the_memory_is_taken_again(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    uint8_t *p = take(&y, 5, 300, 120, NULL);
    give(&y, 5, 140, NULL);
    p[17] = 0;
    take(&y, 5, 200, 160, NULL);
    assert_found(
        &y, 0,
        "write after free of weights embed (300 bytes, allocated at model.c:120), freed at "
        "model.c:140: 1 byte, the first at offset 17; found by model.c:160");
    yard_close(&y);
}

static void a_write_after_free_is_found_by_a_check_of_free_memory(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    uint8_t *p = take(&y, 5, 300, 120, NULL);
    give(&y, 5, 140, NULL);
    p[0] = 0;
    mnem__guard_check_free(y.guard, y.memory.address, BYTES);
    const char *text =
        "write after free of weights embed (300 bytes, allocated at model.c:120), freed "
        "at model.c:140: 1 byte, the first at offset 0; found by a check";
    assert_found(&y, 0, text);
    mnem__guard_check_free(y.guard, y.memory.address, BYTES);
    assert_found(&y, 0, text);
    uint8_t *never = (uint8_t *)mnem_block_host(&y.memory) + BYTES - 1;
    *never = 0; /* memory that nobody ever had */
    mnem__guard_check_free(y.guard, y.memory.address, BYTES);
    mnem_misuse m;
    assert_true(mnem__guard_misuse(y.guard, 1, &m));
    assert_null(m.tag);
    assert_int_equal(m.address, y.memory.address + BYTES - 1);
    yard_close(&y);
}

static void a_double_free_names_three_places(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    take(&y, 5, 300, 120, NULL);
    const uint32_t generation = y.generation[5];
    give(&y, 5, 140, NULL);
    mnem_misuse m;
    mnem__guard_stale(y.guard, 5, generation, 0, (mnem_source){"model.c", 150}, &m);
    const char *text = "double free at model.c:150: weights embed (300 bytes, allocated at "
                       "model.c:120), freed at model.c:140";
    assert_found(&y, 0, text);
    take(&y, 5, 10, 121, NULL); /* the number has another block now */
    mnem__guard_stale(y.guard, 5, generation, 0, (mnem_source){"model.c", 150}, &m);
    assert_found(&y, 1, text);
    for (int i = 0; i < MNEM__GUARD_FREES; i++) { /* until the ring has forgotten it */
        take(&y, 6, 10, 122, NULL);
        give(&y, 6, 142, NULL);
    }
    mnem__guard_stale(y.guard, 5, generation, 0, (mnem_source){"model.c", 151}, &m);
    assert_found(&y, 2, "double free at model.c:151: an unknown block");
    yard_close(&y);
}

static void a_foreign_free_names_the_place_in_the_other_pool(void **state) {
    (void)state;
    yard y, other;
    yard_open(&y, "host");
    yard_open(&other, "host");
    take(&y, 5, 10, 1, NULL);
    take(&other, 5, 300, 120, NULL);
    mnem_misuse m;
    mnem_source caller = {"model.c", 150};
    mnem__guard_stale(y.guard, 5, other.generation[5], 0, caller, &m);
    assert_found(&y, 0,
                 "free of a foreign block at model.c:150: weights embed (300 bytes, allocated at "
                 "model.c:120)");
    const uint32_t freed = other.generation[5];
    give(&other, 5, 140, NULL);
    take(&other, 5, 1, 1, NULL);
    mnem__guard_stale(y.guard, 5, freed, 0, caller, &m);
    assert_found(&y, 1,
                 "free of a foreign block at model.c:150: weights embed (300 bytes, allocated at "
                 "model.c:120), freed at model.c:140");
    mnem__guard_stale(y.guard, 77, 99, 0, caller, &m);
    assert_found(&y, 2, "free of a foreign block at model.c:150: an unknown block");
    assert_int_equal(mnem__guard_found(other.guard), 0);
    yard_close(&other);
    mnem__guard_stale(y.guard, 5, freed, 0, caller, &m); /* its pool is gone */
    assert_found(&y, 3, "free of a foreign block at model.c:150: an unknown block");
    yard_close(&y);
}

/* Holds a stream until it is opened. */
static void gate_wait(void *context) {
    while (!atomic_load((atomic_bool *)context)) {
    }
}

typedef struct write {
    uint8_t *at;
    size_t bytes;
} write;

static void write_run(void *context) {
    const write *w = context;
    memset(w->at, 7, w->bytes);
}

static void poison_keeps_the_order_of_the_stream(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    mnem_stream *s;
    must(mnem_stream_create(y.device, &s));
    atomic_bool gate = false;
    must(mnem_stream_launch(y.device, s, gate_wait, &gate));
    uint8_t *p = take(&y, 1, 64, 10, s);
    write all = {p, 64}, past = {p, 65};
    must(mnem_stream_launch(y.device, s, write_run, &all)); /* before the free: all right */
    mnem__guard_check(y.guard);                             /* its gaps aren't there yet */
    give(&y, 1, 11, s);
    assert_int_equal(p[0], MNEM__POISON_FREE); /* nothing ran */
    take(&y, 1, 64, 12, s);
    must(mnem_stream_launch(y.device, s, write_run, &past));
    give(&y, 1, 13, s);
    must(mnem_stream_launch(y.device, s, write_run, &all)); /* after the free */
    take(&y, 1, 64, 14, s);
    assert_int_equal(mnem__guard_found(y.guard), 0);
    atomic_store(&gate, true);
    must(mnem_stream_synchronize(s));
    mnem_misuse m;
    assert_int_equal(mnem__guard_found(y.guard), 2);
    assert_true(mnem__guard_misuse(y.guard, 0, &m));
    assert_int_equal(m.what, MNEM_MISUSE_WRITE_PAST);
    assert_int_equal(m.taken.line, 12);
    assert_int_equal(m.freed.line, 13);
    assert_true(mnem__guard_misuse(y.guard, 1, &m));
    assert_int_equal(m.what, MNEM_MISUSE_USE_AFTER_FREE);
    assert_int_equal(m.wrong, 64);
    assert_int_equal(m.taken.line, 12);
    assert_int_equal(m.freed.line, 13);
    assert_int_equal(m.caller.line, 14);
    p[64] = 0;
    mnem__guard_check(y.guard);
    assert_int_equal(mnem__guard_found(y.guard), 3);
    mnem_stream_destroy(s);
    yard_close(&y);
}

static void without_memory_for_a_job_the_stream_is_waited_for(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    mnem_stream *s;
    must(mnem_stream_create(y.device, &s));
    mnem__heap_fail_at(1, true);
    uint8_t *p = take(&y, 1, 64, 10, s);
    assert_int_equal(p[0], MNEM__POISON_TAKEN);
    p[64] = 1;
    give(&y, 1, 11, s);
    mnem__heap_fail_at(0, false);
    assert_int_equal(mnem__guard_found(y.guard), 1);
    mnem_stream_destroy(s);
    yard_close(&y);
}

static void memory_that_the_host_cannot_see_is_not_touched(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "null");
    take(&y, 1, 64, 10, NULL);
    mnem__guard_check(y.guard);
    give(&y, 1, 11, NULL);
    mnem__guard_check_free(y.guard, y.memory.address, BYTES);
    assert_int_equal(mnem__guard_found(y.guard), 0);
    mnem_misuse m;
    mnem__guard_stale(y.guard, 1, y.generation[1], 0, (mnem_source){"model.c", 12}, &m);
    assert_int_equal(m.what, MNEM_MISUSE_DOUBLE_FREE);
    assert_int_equal(m.freed.line, 11);
    yard_close(&y);
}

static void more_misuse_than_is_kept_is_counted(void **state) {
    (void)state;
    yard y;
    yard_open(&y, "host");
    mnem_misuse m;
    for (uint32_t i = 0; i < MNEM__GUARD_MISUSES + 5; i++)
        mnem__guard_stale(y.guard, 60, 2, 0, (mnem_source){"model.c", i}, &m);
    assert_int_equal(mnem__guard_found(y.guard), MNEM__GUARD_MISUSES + 5);
    assert_true(mnem__guard_misuse(y.guard, MNEM__GUARD_MISUSES - 1, &m));
    assert_int_equal(m.caller.line, MNEM__GUARD_MISUSES - 1);
    assert_false(mnem__guard_misuse(y.guard, MNEM__GUARD_MISUSES, &m));
    for (uint32_t i = 5; i < 5 + MNEM__GUARD_UNTOLD; i++) { /* the latest are told */
        assert_true(mnem__guard_next(y.guard, &m));
        assert_int_equal(m.caller.line, MNEM__GUARD_MISUSES - MNEM__GUARD_UNTOLD + i);
    }
    assert_false(mnem__guard_next(y.guard, &m));
    yard_close(&y);
}

static void texts_end_within_their_room(void **state) {
    (void)state;
    char long_name[600], out[64];
    memset(long_name, 'x', sizeof long_name);
    long_name[599] = 0;
    mnem_misuse m = {.tag = long_name, .taken = {long_name, 1}, .freed = {long_name, 2}};
    for (int what = 0; what <= MNEM_MISUSE_COUNT; what++) {
        m.what = (mnem_misuse_what)what;
        for (size_t n = 1; n <= sizeof out; n++)
            assert_int_equal(strlen(mnem_misuse_text(&m, out, n)), n - 1);
    }
    assert_string_equal(mnem_misuse_what_text(MNEM_MISUSE_COUNT), "unknown misuse");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_use_finds_nothing),
        cmocka_unit_test(a_write_past_the_end_is_found_by_the_free),
        cmocka_unit_test(a_write_before_the_start_is_found_by_a_check),
        cmocka_unit_test(both_gaps_are_told_apart),
        cmocka_unit_test(a_write_after_free_is_found_when_the_memory_is_taken_again),
        cmocka_unit_test(a_write_after_free_is_found_by_a_check_of_free_memory),
        cmocka_unit_test(a_double_free_names_three_places),
        cmocka_unit_test(a_foreign_free_names_the_place_in_the_other_pool),
        cmocka_unit_test(poison_keeps_the_order_of_the_stream),
        cmocka_unit_test(without_memory_for_a_job_the_stream_is_waited_for),
        cmocka_unit_test(memory_that_the_host_cannot_see_is_not_touched),
        cmocka_unit_test(more_misuse_than_is_kept_is_counted),
        cmocka_unit_test(texts_end_within_their_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
