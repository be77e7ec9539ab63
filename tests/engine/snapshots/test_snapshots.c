/* test_snapshots.c: states of earlier positions: kept as far as the budget has room, shared by
 * forks, dropped by cuts, and gone on from with the bits of a text that never was cut. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/snapshots/snapshots_case.h"

static uint64_t line_of(const engine_case *c, const char *tag) {
    for (unsigned i = 0; i < c->plan.lines; i++)
        if (strcmp(c->plan.line[i].tag, tag) == 0) return c->plan.line[i].bytes;
    return 0;
}

static uint64_t live_of(const engine_case *c, const char *tag) {
    mnem_account_info account;
    for (unsigned i = 0; mnem_ledger_account_get(c->ledger, i, &account); i++)
        if (strcmp(account.tag, tag) == 0) return account.bytes_live;
    return 0;
}

static void a_plan_has_a_line_of_snapshots_and_the_ledger_a_tag(void **state) {
    (void)state;
    engine_case c;
    open_with(&c, 16, 12);
    assert_int_equal(c.plan.states, 3);
    assert_int_equal(c.plan.snapshots, 12);
    assert_int_equal(c.plan.snapshot_tokens, EVERY);
    const uint64_t bytes = (12 * pages_of(&c).state_bytes + 4095) / 4096 * 4096;
    assert_int_equal(line_of(&c, "state snapshots"), bytes);
    assert_int_equal(live_of(&c, "state snapshots"), bytes);
    assert_int_equal(pages_of(&c).snapshots, 12);
    assert_int_equal(pages_of(&c).snapshots_used, 0);
    assert_int_equal(pages_of(&c).all.states, 3);
    assert_int_equal(pages_of(&c).free.states, 3);
    engine_case_close(&c);
    open_with(&c, 16, MNEM_SNAPSHOTS_FILL);
    assert_int_equal(c.plan.snapshots, 3 * (CONTEXT / EVERY + 8));
    engine_case_close(&c);
    open_with(&c, 16, 0);
    assert_int_equal(c.plan.snapshots, 0);
    assert_int_equal(line_of(&c, "state snapshots"), 0);
    engine_case_close(&c);
}

static void as_many_are_planned_as_the_budget_has_bytes_for(void **state) {
    (void)state;
    mnem_engine_options o = snapshots_plain;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    int32_t last = 0;
    engine_case c;
    open_with(&c, 16, 0);
    engine_case_close(&c);
    const uint64_t without = c.plan.peak_bytes; /* all is resident */
    for (uint64_t more = 0; more <= 128 << 10; more += 8 << 10) {
        engine_case_open(&c, STATES, without + more, &o);
        assert_true(c.plan.peak_bytes <= without + more);
        assert_true(c.plan.snapshots >= last);
        assert_int_equal(c.plan.states, 3);
        last = c.plan.snapshots;
        engine_case_close(&c);
    }
    assert_true(last > 0);
}

static void a_fill_plans_fewer_live_states_where_they_do_not_fit(void **state) {
    (void)state;
    mnem_engine_options o = snapshots_plain;
    o.pages_fill = true;
    o.sequences = 16;
    o.logits_rows = 1;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    engine_case c;
    engine_case_open(&c, STATES, engine_case_least(STATES, &o), &o);
    assert_in_range(c.plan.states, 1, 15);
    mnem_sequence *s[16];
    for (int i = 0; i < 16; i++) {
        must(mnem_sequence_create(c.engine, &s[i]));
        if (i < c.plan.states) {
            check(&c, s[i], 1);
            continue;
        }
        assert_int_equal(
            mnem_engine_step(c.engine, &(mnem_step_part){s[i], text, 1, 1}, 1, NULL, NULL),
            MNEM_OVER_BUDGET);
    }
    engine_case_close(&c);
}

static void a_cut_goes_on_from_the_nearest_snapshot(void **state) {
    (void)state;
    for (int32_t chunk = 5; chunk <= 80; chunk += 25)
        for (int32_t at = 1; at < 150; at += 7) {
            engine_case c;
            mnem_sequence *s, *fork;
            open_with(&c, chunk, 24);
            must(mnem_sequence_create(c.engine, &s));
            assert_int_equal(check(&c, s, 150), 0);
            assert_int_equal(pages_of(&c).snapshots_used, 150 / EVERY);
            must(mnem_sequence_fork(s, at, &fork));
            must(mnem_sequence_truncate(s, at));
            assert_int_equal(check(&c, fork, at + 1), at % EVERY);
            assert_int_equal(check(&c, fork, LENGTH), 0);
            assert_int_equal(check(&c, s, at + 2), at % EVERY);
            assert_int_equal(check(&c, s, LENGTH), 0);
            mnem_sequence_destroy(s);
            mnem_sequence_destroy(fork);
            assert_int_equal(pages_of(&c).snapshots_used, 0);
            assert_int_equal(pages_of(&c).free.states, 3);
            engine_case_close(&c);
        }
}

static void a_snapshot_is_taken_where_the_caller_asks(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    open_with(&c, 64, 12);
    must(mnem_sequence_create(c.engine, &s));
    mnem_sequence_snapshots_at(s, (const int32_t[]){41, 77, 150}, 3);
    assert_int_equal(check(&c, s, 150), 0);
    assert_int_equal(pages_of(&c).snapshots_used, 150 / EVERY + 3);
    must(mnem_sequence_truncate(s, 83));
    assert_int_equal(check(&c, s, 84), 83 - 77);
    must(mnem_sequence_truncate(s, 41));
    assert_int_equal(check(&c, s, LENGTH), 0);
    engine_case_close(&c);
}

/* What was asked for stays, and of the others those that lie far apart. */
static void what_costs_the_least_goes_first(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    open_with(&c, 64, 3);
    must(mnem_sequence_create(c.engine, &s));
    mnem_sequence_snapshots_at(s, (const int32_t[]){41, 150}, 2);
    check(&c, s, LENGTH);
    assert_int_equal(pages_of(&c).snapshots_used, 3);
    must(mnem_sequence_truncate(s, 155));
    assert_int_equal(check(&c, s, 156), 5);
    must(mnem_sequence_truncate(s, 45));
    assert_int_equal(check(&c, s, 46), 4);
    engine_case_close(&c);
}

static bool stop_at(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part, (void)logits;
    return index != *(int32_t *)context;
}

static void a_stopped_step_goes_on_from_a_snapshot(void **state) {
    (void)state;
    for (int32_t at = 0; at < 60; at += 7) {
        engine_case c;
        mnem_sequence *s;
        const int32_t wrong[60] = {1, 2, 3};
        open_with(&c, 16, 12);
        must(mnem_sequence_create(c.engine, &s));
        check(&c, s, 75);
        assert_int_equal(
            mnem_engine_step(c.engine, &(mnem_step_part){s, wrong, 60, 0}, 1, stop_at, &at),
            MNEM_CANCELLED);
        must(mnem_sequence_truncate(s, 75));
        assert_int_equal(check(&c, s, 76), 75 - 64);
        check(&c, s, 140);
        engine_case_close(&c);
    }
}

/* A new file with the text's first 150 tokens, and the states at 0, 32, ..., 128 and 150. */
static int save_150(void) {
    engine_case c;
    mnem_sequence *s;
    const int fd = new_file();
    open_with(&c, 16, 12);
    must(mnem_sequence_create(c.engine, &s));
    check(&c, s, 150);
    must(mnem_sequence_save(s, text, 0, fd, 0));
    engine_case_close(&c);
    return fd;
}

static void a_save_has_the_snapshots_too(void **state) {
    (void)state;
    for (int32_t n = EVERY; n <= 150; n += 7) {
        engine_case c;
        mnem_sequence *s;
        mnem_saved saved;
        const int fd = save_150();
        open_with(&c, 16, 12);
        must(mnem_saved_open(c.engine, fd, 0, &saved));
        assert_int_equal(saved.states, 150 / EVERY + 1);
        must(mnem_sequence_create(c.engine, &s));
        must(mnem_sequence_load(s, &saved, n));
        assert_int_equal(check(&c, s, n + 1), n == 150 ? 0 : n % EVERY);
        must(mnem_sequence_truncate(s, n));
        assert_int_equal(check(&c, s, LENGTH), n == 150 ? 0 : n % EVERY);
        close(fd);
        engine_case_close(&c);
    }
}

/* The last ones first; of those that stay, the positions don't change. */
static void a_load_has_the_snapshots_that_fit(void **state) {
    (void)state;
    for (int32_t most = 0; most <= 7; most++) {
        engine_case c;
        mnem_sequence *s;
        mnem_saved saved;
        const int fd = save_150();
        open_with(&c, 16, most);
        must(mnem_saved_open(c.engine, fd, 0, &saved));
        must(mnem_sequence_create(c.engine, &s));
        must(mnem_sequence_load(s, &saved, 150));
        const int32_t used = most < 5 ? most : 5; /* of 150, 128, 96, 64 and 32 */
        assert_int_equal(pages_of(&c).snapshots_used, used);
        must(mnem_sequence_truncate(s, 149));
        assert_int_equal(check(&c, s, 150), used > 1 ? 149 - 128 : 149);
        must(mnem_sequence_truncate(s, 70));
        assert_int_equal(check(&c, s, LENGTH), used > 3 ? 70 - 64 : 70);
        close(fd);
        engine_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_a_line_of_snapshots_and_the_ledger_a_tag),
        cmocka_unit_test(as_many_are_planned_as_the_budget_has_bytes_for),
        cmocka_unit_test(a_fill_plans_fewer_live_states_where_they_do_not_fit),
        cmocka_unit_test(a_cut_goes_on_from_the_nearest_snapshot),
        cmocka_unit_test(a_snapshot_is_taken_where_the_caller_asks),
        cmocka_unit_test(what_costs_the_least_goes_first),
        cmocka_unit_test(a_stopped_step_goes_on_from_a_snapshot),
        cmocka_unit_test(a_save_has_the_snapshots_too),
        cmocka_unit_test(a_load_has_the_snapshots_that_fit),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
