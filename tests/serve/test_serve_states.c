/* test_serve_states.c: requests to a model with recurrent layers: what they share through snapshots
 * of states, in memory and in the swap file, and how many are served by few states. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "serve/states_case.h"

static serve_ask ask[CLIENTS];

static const mnem_engine_options plain = {.context = SERVE_CONTEXT,
                                          .kv = MNEM_KV_F32,
                                          .threads = 1,
                                          .chunk = 32,
                                          .sequences = SEQUENCES,
                                          .logits_rows = CLIENTS,
                                          .pages_fill = true,
                                          .snapshot_tokens = EVERY};

static void open_with(const mnem_engine_options *options, uint64_t budget) {
    open_swap(options, budget, NULL, 0);
}

/* With fewer rows of logits the plan doesn't weigh more states against what is resident. */
static void three_states_serve_eight_clients(void **state) {
    (void)state;
    mnem_engine_options o = plain;
    o.logits_rows = 3;
    uint64_t budget = engine_case_least(states_model, &o);
    for (c.plan.states = 0; c.plan.states < 3; budget += 4 << 10) {
        engine_case_open(&c, states_model, budget, &o);
        engine_case_close(&c);
    }
    for (int swap = 0; swap < 2; swap++) {
        memset(ask, 0, sizeof ask);
        open_swap(&o, budget, swap ? "." : NULL, 0);
        assert_int_equal(c.plan.states, 3);
        for (uint32_t i = 0; i < CLIENTS; i++) {
            say(&ask[i], 0, 40, i);
            set(&ask[i], 40, 30);
            submit(&ask[i]);
        }
        serve_run(scheduler, 10000);
        for (int i = 0; i < CLIENTS; i++) {
            serve_ask_check(&ask[i], "eight clients");
            assert_int_equal(ask[i].result.tokens, 30);
        }
        close_all();
    }
}

/* What a state costs is weighed against the time that a larger chunk, or a matrix in memory, saves
 * all sequences that could run together: seven more states of 11 KiB take less than a chunk of 128
 * takes more than one of 64. */
static void states_come_before_large_chunks_and_before_what_streams(void **state) {
    (void)state;
    mnem_engine_options o = plain;
    o.context = o.chunk = 0;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    mnem_engine_pages pages;
    mnem_engine_pages_get(alone.engine, &pages);
    const uint64_t least = engine_case_least(states_model, &o), four = 4 * pages.state_bytes;
    int checked = 0;
    for (uint64_t more = 0; more < MIB; more += 24 << 10) {
        engine_case_open(&c, states_model, least + more, &o);
        const mnem_engine_plan *p = &c.plan;
        if (p->chunk > 64) assert_true(p->states >= CLIENTS);
        if (p->streamed && p->weight_bytes_resident >= four && p->bytes_streamed_per_pass >= four)
            assert_true(p->states >= 4);
        checked += p->chunk > 64;
        engine_case_close(&c);
    }
    assert_true(checked > 4);
}

/* |system 40|user 50|asks 3| answer; the next prompt has another answer, as where thoughts are
 * gone. */
static void a_second_turn_runs_what_is_new_again_and_little_more(void **state) {
    (void)state;
    enum { SYSTEM = 40, USER = 50 };
    mnem_engine_options o = plain;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    memset(ask, 0, sizeof ask);
    open_with(&o, 0);
    say(&ask[0], 0, SYSTEM + USER + ASKS, 1);
    ask[0].prompt[SYSTEM - 1] = ask[0].prompt[SYSTEM + USER - 1] = END;
    const int32_t first = SYSTEM + USER + ASKS;
    set(&ask[0], first, 60);
    submit(&ask[0]);
    serve_run(scheduler, 1000);
    serve_ask_check(&ask[0], "first turn");

    memcpy(ask[1].prompt, ask[0].prompt, sizeof ask[1].prompt);
    say(&ask[1], first, 10 + 20 + ASKS, 2);
    ask[1].prompt[first + 9] = ask[1].prompt[first + 29] = END;
    set(&ask[1], first + 30 + ASKS, 5);
    const uint64_t before = tokens_run();
    submit(&ask[1]);
    serve_run(scheduler, 1000);
    serve_ask_check(&ask[1], "second turn");
    assert_int_equal(ask[1].result.cached_tokens, SYSTEM + USER);
    assert_in_range(tokens_run() - before, 0, 30 + ASKS + 4 + 16);

    /* edited where nobody expected it */
    memcpy(ask[2].prompt, ask[1].prompt, sizeof ask[2].prompt);
    say(&ask[2], SYSTEM + 20, 1, 3);
    set(&ask[2], first + 30 + ASKS, 5);
    submit(&ask[2]);
    serve_run(scheduler, 1000);
    serve_ask_check(&ask[2], "an edited turn");
    assert_int_equal(ask[2].result.cached_tokens, SYSTEM);
    close_all();
}

static void eight_conversations_share_what_they_begin_with(void **state) {
    (void)state;
    enum { SYSTEM = 120 };
    mnem_engine_options o = plain;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    memset(ask, 0, sizeof ask);
    open_with(&o, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        say(&ask[i], 0, SYSTEM, 9);
        ask[i].prompt[SYSTEM - 1] = END;
        say(&ask[i], SYSTEM, 30, i);
        ask[i].prompt[SYSTEM + 26] = END;
        set(&ask[i], SYSTEM + 30, 10);
        submit(&ask[i]);
    }
    serve_run(scheduler, 1000);
    for (int i = 0; i < CLIENTS; i++) {
        serve_ask_check(&ask[i], "eight conversations");
        assert_int_equal(ask[i].result.cached_tokens, i ? SYSTEM : 0);
    }
    close_all();
}

static void run_to(mnem_sequence *s, int32_t n) {
    static const int32_t zeros[SERVE_CONTEXT];
    const int32_t more = n - mnem_sequence_length(s);
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, zeros, more, more}, 1, NULL, NULL));
}

/* Of two conversations that begin alike: where they part, and the end of each; not the turns before
 * that, however many tokens they are of. */
static void ends_of_conversations_stay_and_where_they_part(void **state) {
    (void)state;
    enum { PART = 20, TURN = 30 };
    mnem_sequence *s[2];
    mnem_engine_options o = plain;
    o.snapshots = 3;
    o.pages_fill = false;
    o.snapshot_tokens = SERVE_CONTEXT;
    engine_case_open(&c, states_model, 0, &o);
    must(mnem_sequence_create(c.engine, &s[0]));
    mnem_sequence_snapshots_at(s[0], (const int32_t[]){PART}, 1);
    run_to(s[0], PART + 1);
    must(mnem_sequence_fork(s[0], PART, &s[1]));
    for (int32_t end = PART + TURN; end < SERVE_CONTEXT - 2; end += TURN)
        for (int32_t i = 0; i < 2; i++) {
            mnem_sequence_snapshots_at(s[i], (const int32_t[]){end + i}, 1);
            run_to(s[i], end + i + 1);
            assert_int_equal(mnem__sequence_ready(s[i], end + i), end + i);
            assert_int_equal(mnem__sequence_ready(s[i], PART + 1), PART);
        }
    engine_case_close(&c);
}

/* ---- states in the swap file ---- */

/* All turns; most: tokens of one conversation's turn that may run again. Nothing is taken on the
 * way. */
static uint64_t run_talk(int together, uint64_t most) {
    mnem_ledger_info begin, end;
    uint64_t again = 0;
    make_talk();
    mnem_ledger_info_get(c.ledger, &begin);
    for (int turn = 0; turn < TURNS; turn++) {
        const uint64_t here = run_turn(turn, together);
        assert_true(here <= CLIENTS * most);
        again += here;
    }
    mnem_ledger_info_get(c.ledger, &end);
    assert_true(end.bytes_peak == begin.bytes_peak);
    return again;
}

/* Eight conversations, one after another or all at once, with and without a file. */
static void a_snapshot_in_the_swap_file_is_gone_on_from(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    for (int together = 1; together <= CLIENTS; together += CLIENTS - 1) {
        uint64_t again[2];
        for (int swap = 0; swap < 2; swap++) {
            open_swap(&few, budget, swap ? "." : NULL, 0);
            again[swap] = run_talk(together, swap ? 16 : SERVE_CONTEXT);
            const mnem_scheduler_stats stats = stats_now();
            print_message("%d at a time, %s swap: %d tokens of prompts ran again, %d states out, "
                          "%d in\n",
                          together, swap ? "with" : "without", (int)again[swap],
                          (int)stats.snapshots_out, (int)stats.snapshots_in);
            assert_int_equal(stats.swap_failures, 0);
            if (swap) assert_true(stats.snapshots_in >= CLIENTS * (TURNS - 1));
            close_all();
        }
        assert_true(again[0] > 16 * CLIENTS * (TURNS - 1));
    }
}

/* Without a file: a state that runs and one to go on from for each of eight conversations are
 * enough, however the plan divides them. */
static void sixteen_states_are_enough_for_eight_conversations(void **state) {
    (void)state;
    mnem_engine_options o = few;
    o.logits_rows = CLIENTS;
    o.snapshots = MNEM_SNAPSHOTS_FILL;
    int32_t checked = 0;
    uint64_t budget = engine_case_least(states_model, &o);
    for (int32_t last = 0; last < 3 * CLIENTS; budget += 4 << 10) {
        engine_case_open(&c, states_model, budget, &o);
        engine_case_close(&c);
        const int32_t all = c.plan.states + c.plan.snapshots;
        if (all < 2 * CLIENTS || all <= last) continue;
        last = all;
        checked++;
        for (int together = 1; together <= CLIENTS; together += CLIENTS - 1) {
            open_with(&o, budget);
            assert_true(c.plan.peak_bytes <= budget);
            const uint64_t again = run_talk(together, 16);
            print_message("%d live states, %d snapshots, %d at a time: %d tokens ran again\n",
                          c.plan.states, c.plan.snapshots, together, (int)again);
            close_all();
        }
    }
    assert_true(checked > 4);
}

/* What could not be written runs again, as without the file. */
static void a_full_disk_costs_only_the_snapshots(void **state) {
    (void)state;
    open_swap(&few, budget_of_three(&few), ".", 0);
    const int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0 && dup2(full, scheduler->swap.fd) >= 0);
    close(full);
    assert_true(run_talk(1, SERVE_CONTEXT) > 0);
    const mnem_scheduler_stats stats = stats_now();
    assert_true(stats.swap_failures > 0);
    assert_int_equal(stats.snapshots_out, 0);
    assert_int_equal(stats.swap_bytes_live, 0);
    close_all();
}

/* Of more states than the file may have those stay that cost the most tokens. */
static void a_small_file_keeps_some(void **state) {
    (void)state;
    mnem_engine_pages pages;
    mnem_engine_pages_get(alone.engine, &pages);
    open_swap(&few, budget_of_three(&few), ".", 5 * pages.state_bytes);
    run_talk(1, SERVE_CONTEXT);
    const mnem_scheduler_stats stats = stats_now();
    assert_true(stats.snapshots_out > 5);
    assert_true(stats.swap_bytes_live <= 5 * pages.state_bytes);
    assert_int_equal(stats.swap_failures, 0);
    close_all();
}

/* More conversations than live states: their states are in the file when the server ends. */
static void a_kept_cache_has_the_states_that_were_in_the_file(void **state) {
    (void)state;
    static const char path[] = "states.swap";
    mnem_engine_options o = few;
    o.snapshots = SEQUENCES; /* room for them, at the next start */
    keeps = true;
    make_talk();
    open_swap(&few, budget_of_three(&few), path, 0);
    run_turn(0, 1);
    assert_true(stats_now().snapshots_out >= CLIENTS);
    close_all();
    o.pages_fill = false;
    open_swap(&o, 0, path, 0);
    for (int i = 0; i < CLIENTS; i++) { /* all that was run, and what goes on from it */
        serve_ask *a = &talk[1][i];
        const int32_t n = FIRST + ASKS;
        memcpy(a->prompt, talk[0][i].prompt, sizeof a->prompt);
        memcpy(a->prompt + n, talk[0][i].got, (ANSWER - 1) * sizeof *a->prompt);
        say(a, n + ANSWER - 1, NEW, (uint32_t)i);
        set(a, n + ANSWER - 1 + NEW, ANSWER);
        submit(a);
        serve_run(scheduler, 1000);
        serve_ask_check(a, "after a restart");
        assert_int_equal(a->result.cached_tokens, n + ANSWER - 1);
    }
    close_all();
    keeps = false;
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_states_serve_eight_clients),
        cmocka_unit_test(states_come_before_large_chunks_and_before_what_streams),
        cmocka_unit_test(a_second_turn_runs_what_is_new_again_and_little_more),
        cmocka_unit_test(eight_conversations_share_what_they_begin_with),
        cmocka_unit_test(ends_of_conversations_stay_and_where_they_part),
        cmocka_unit_test(a_snapshot_in_the_swap_file_is_gone_on_from),
        cmocka_unit_test(sixteen_states_are_enough_for_eight_conversations),
        cmocka_unit_test(a_full_disk_costs_only_the_snapshots),
        cmocka_unit_test(a_small_file_keeps_some),
        cmocka_unit_test(a_kept_cache_has_the_states_that_were_in_the_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
