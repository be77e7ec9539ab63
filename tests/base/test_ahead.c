/* test_ahead.c: a thread that fills places of a ring ahead of its owner. */
#include "base/team/ahead.h"
#include "kit/kit.h"

enum { PLACES = 3, STACK_BYTES = 64 * 1024 };

typedef struct maker {
    mnem__ahead ahead;
    uint64_t place[PLACES];
    uint64_t end, bad; /* numbers that end, and that fail */
} maker;

static mnem_status make(void *context, uint64_t number, bool *ended) {
    maker *m = context;
    if (number == m->bad) return mnem__fail(MNEM_IO, "number %d is bad", (int)number);
    m->place[number % PLACES] = number * number;
    *ended = number == m->end;
    return MNEM_OK;
}

static void start(maker *m, uint64_t end, uint64_t bad) {
    *m = (maker){.ahead = {.fill = make, .context = m, .places = PLACES}, .end = end, .bad = bad};
    assert_int_equal(mnem__ahead_start(&m->ahead, STACK_BYTES), MNEM_OK);
}

static void take(maker *m, int64_t expected) {
    int64_t number;
    assert_int_equal(mnem__ahead_take(&m->ahead, &number), MNEM_OK);
    assert_int_equal(number, expected);
    if (number >= 0) assert_int_equal(m->place[number % PLACES], number * number);
}

static void numbers_come_in_order_up_to_the_end(void **state) {
    (void)state;
    maker m;
    start(&m, 20, UINT64_MAX);
    for (int64_t i = 0; i < 20; i++) {
        take(&m, i);
        mnem__ahead_give(&m.ahead);
    }
    take(&m, -1);
    assert_true(mnem__ahead_ready(&m.ahead));
    take(&m, -1);
    mnem__ahead_stop(&m.ahead);
}

static void a_failure_comes_behind_what_was_filled(void **state) {
    (void)state;
    int64_t number;
    maker m;
    start(&m, UINT64_MAX, 2);
    take(&m, 0);
    take(&m, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mnem__ahead_take(&m.ahead, &number), MNEM_IO);
        assert_string_equal(mnem_last_error(), "number 2 is bad");
    }
    mnem__ahead_stop(&m.ahead);
}

static void a_round_can_be_left(void **state) {
    (void)state;
    maker m;
    start(&m, UINT64_MAX, UINT64_MAX);
    take(&m, 0);
    mnem__ahead_give(&m.ahead);
    mnem__ahead_skip(&m.ahead, 4);
    take(&m, 4);
    mnem__ahead_give(&m.ahead);
    for (int64_t i = 5; i < 8; i++) {
        take(&m, i);
        mnem__ahead_give(&m.ahead);
    }
    mnem__ahead_skip(&m.ahead, 4); /* none is begun */
    take(&m, 8);
    mnem__ahead_stop(&m.ahead); /* one is with the owner */
}

static void what_does_not_run_can_be_stopped(void **state) {
    (void)state;
    mnem__ahead ahead = {.places = 1};
    mnem__ahead_stop(&ahead);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_in_order_up_to_the_end),
        cmocka_unit_test(a_failure_comes_behind_what_was_filled),
        cmocka_unit_test(a_round_can_be_left),
        cmocka_unit_test(what_does_not_run_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
