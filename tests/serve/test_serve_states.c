/* test_serve_states.c: requests to a model with recurrent layers: what they share through snapshots
 * of states, in memory and in the swap file, and how many are served by few states. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/minmax.h"
#include "serve/serve_case.h"
#include "serve/serve_private.h"

enum { CLIENTS = 8, SEQUENCES = 16, END = 7, EVERY = 100 };

static const char model[] = MNEM_TEST_DATA "/architectures/qwen35.gguf";
static const int32_t end_of_turn = END;
static engine_case c, alone;
static mnem_scheduler *scheduler;
static serve_ask ask[CLIENTS];

static const mnem_engine_options plain = {.context = SERVE_CONTEXT,
                                          .kv = MNEM_KV_F32,
                                          .threads = 1,
                                          .chunk = 32,
                                          .sequences = SEQUENCES,
                                          .logits_rows = CLIENTS,
                                          .pages_fill = true,
                                          .snapshot_tokens = EVERY};

static int set_up(void **state) {
    (void)state;
    engine_case_open(&alone, model, 0,
                     &(mnem_engine_options){
                         .context = SERVE_CONTEXT, .kv = MNEM_KV_F32, .threads = 1, .chunk = 64});
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    engine_case_close(&alone);
    return 0;
}

/* swap: a file so fast that nothing is computed again for its own sake; NULL: none. */
static bool keeps;

static void open_swap(const mnem_engine_options *options, uint64_t budget, const char *swap,
                      uint64_t swap_bytes) {
    engine_case_open(&c, model, budget, options);
    if (budget) must(mnem_ledger_budget_set(c.ledger, budget + (64 << 20)));
    const mnem_scheduler_options o = {.engine = c.engine,
                                      .running = CLIENTS,
                                      .queue_requests = CLIENTS,
                                      .ends = &end_of_turn,
                                      .end_count = 1,
                                      .swap = swap,
                                      .swap_bytes = swap_bytes,
                                      .keep_cache = keeps,
                                      .swap_bytes_per_s = 1e12};
    must(mnem_scheduler_create(&o, &scheduler));
}

static void open_with(const mnem_engine_options *options, uint64_t budget) {
    open_swap(options, budget, NULL, 0);
}

static void close_all(void) {
    mnem_scheduler_destroy(scheduler);
    engine_case_close(&c);
}

/* Words of a text of its own, none of which ends a turn. */
static void say(serve_ask *a, int32_t from, int32_t n, uint32_t text) {
    for (int32_t i = from; i < from + n; i++) {
        text = text * 1664525u + 1013904223u;
        a->prompt[i] = 8 + (int32_t)(text >> 16) % 80;
    }
}

static void set(serve_ask *a, int32_t prompt, int32_t tokens) {
    a->request = (mnem_request){.prompt_tokens = prompt, .tokens = tokens, .ignore_end = true};
    serve_ask_set(a);
    serve_ask_alone(a, alone.engine, alone.vocab);
}

static void submit(serve_ask *a) {
    must(mnem_scheduler_submit(scheduler, &a->request, &a->number, NULL));
}

static uint64_t tokens_run(void) {
    mnem_engine_stats stats;
    mnem_engine_stats_get(c.engine, &stats);
    return stats.tokens;
}

/* With fewer rows of logits the plan doesn't weigh more states against what is resident. */
static void three_states_serve_eight_clients(void **state) {
    (void)state;
    mnem_engine_options o = plain;
    o.logits_rows = 3;
    uint64_t budget = engine_case_least(model, &o);
    for (c.plan.states = 0; c.plan.states < 3; budget += 4 << 10) {
        engine_case_open(&c, model, budget, &o);
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
    const uint64_t least = engine_case_least(model, &o), four = 4 * pages.state_bytes;
    int checked = 0;
    for (uint64_t more = 0; more < MIB; more += 24 << 10) {
        engine_case_open(&c, model, least + more, &o);
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
    enum { SYSTEM = 40, USER = 50, ASKS = 3 };
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
    engine_case_open(&c, model, 0, &o);
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

static mnem_scheduler_stats stats_now(void) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(scheduler, &stats);
    return stats;
}

/* The smallest budget whose plan has three states, and pages for all conversations. */
static uint64_t budget_of_three(const mnem_engine_options *o) {
    uint64_t budget = engine_case_least(model, o);
    for (c.plan.states = 0; c.plan.states < 3; budget += 4 << 10) {
        engine_case_open(&c, model, budget, o);
        engine_case_close(&c);
    }
    assert_int_equal(c.plan.states, 3);
    assert_int_equal(c.plan.snapshots, 0);
    return budget - (4 << 10);
}

static const mnem_engine_options few = {.context = SERVE_CONTEXT,
                                        .kv = MNEM_KV_F32,
                                        .threads = 1,
                                        .chunk = 32,
                                        .sequences = SEQUENCES,
                                        .logits_rows = 3,
                                        .pages_fill = true,
                                        .pages_tokens = SEQUENCES * SERVE_CONTEXT,
                                        .snapshot_tokens = EVERY};

enum { FIRST = 60, NEW = 25, ASKS = 3, ANSWER = 8, TURNS = 3 };

/* |system 20 E|user 37 E|asks 3|, then in each turn |answer 15 E|user 9 E|asks 3|. */
static int32_t say_turn(serve_ask *a, int turn, uint32_t who) {
    const int32_t from = turn ? FIRST + (turn - 1) * NEW : 0, to = FIRST + turn * NEW;
    say(a, from, to - from + ASKS, 1000 * who + (uint32_t)turn);
    if (turn == 0) a->prompt[19] = END;
    if (turn > 0) a->prompt[from + 15] = END;
    a->prompt[to - 1] = END;
    return to + ASKS;
}

static serve_ask talk[TURNS][CLIENTS];

static void make_talk(void) {
    memset(talk, 0, sizeof talk);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < CLIENTS; i++) {
            serve_ask *a = &talk[turn][i];
            if (turn) memcpy(a->prompt, talk[turn - 1][i].prompt, sizeof a->prompt);
            set(a, say_turn(a, turn, (uint32_t)i), ANSWER);
        }
}

/* Tokens that a turn runs, if nothing runs again. */
static uint64_t fresh_of(int turn) {
    return (turn ? NEW : FIRST) + ASKS + ANSWER - 1;
}

/* A turn of some conversations at a time; returns the tokens that ran again. */
static uint64_t run_turn(int turn, int together) {
    const uint64_t before = tokens_run();
    for (int i = 0; i < CLIENTS; i++) {
        submit(&talk[turn][i]);
        if ((i + 1) % together == 0) serve_run(scheduler, 1000);
    }
    for (int i = 0; i < CLIENTS; i++) serve_ask_check(&talk[turn][i], "a turn");
    assert_true(tokens_run() - before >= CLIENTS * fresh_of(turn));
    return tokens_run() - before - CLIENTS * fresh_of(turn);
}

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
    uint64_t budget = engine_case_least(model, &o);
    for (int32_t last = 0; last < 3 * CLIENTS; budget += 4 << 10) {
        engine_case_open(&c, model, budget, &o);
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

/* ---- states of an unloaded model ---- */

/* Saves the prefix cache in bytes_most, and loads it into a new engine with the same options, as
 * `mnem serve --models` does. Returns the bytes of the file. */
static uint64_t unload_and_load(uint64_t budget, uint64_t bytes_most) {
    uint64_t bytes;
    const int fd = memfd_create("cache", MFD_CLOEXEC);
    must(mnem_scheduler_cache_save_within(scheduler, fd, bytes_most, &bytes));
    assert_in_range(lseek(fd, 0, SEEK_END), 1, mnem__min_u64(bytes, bytes_most));
    close_all();
    open_swap(&few, budget, ".", 0);
    must(mnem_scheduler_cache_load(scheduler, fd));
    close(fd);
    return bytes;
}

/* Two turns of all conversations, whose states are mostly in the swap file then. */
static void begin_talk(uint64_t budget) {
    make_talk();
    open_swap(&few, budget, ".", 0);
    for (int turn = 0; turn < TURNS - 1; turn++) (void)run_turn(turn, 1);
    assert_true(stats_now().snapshots_out > CLIENTS);
}

/* The tokens of the last turn's prompts that were cached, of each conversation. */
static void end_talk(int32_t cached[CLIENTS]) {
    (void)run_turn(TURNS - 1, 1);
    for (int i = 0; i < CLIENTS; i++) cached[i] = talk[TURNS - 1][i].result.cached_tokens;
    assert_int_equal(stats_now().swap_failures, 0);
}

/* Three live states and no snapshot in memory, for eight conversations. */
static void an_unloaded_model_keeps_the_states_that_were_in_the_file(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    int32_t never[CLIENTS], once[CLIENTS], twice[CLIENTS];
    begin_talk(budget);
    end_talk(never);
    close_all();
    begin_talk(budget);
    unload_and_load(budget, UINT64_MAX);
    end_talk(once);
    close_all();
    begin_talk(budget);
    for (int i = 0; i < 2; i++) unload_and_load(budget, UINT64_MAX);
    end_talk(twice);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(never[i], FIRST + NEW * (TURNS - 2)); /* all that has come before */
        assert_int_equal(once[i], never[i]);
        assert_int_equal(twice[i], never[i]);
    }
    close_all();
}

/* In less and less room first snapshots are left out, of the conversations that were needed the
 * longest ago first; then these conversations. */
static void a_small_cache_has_conversations_before_snapshots(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    mnem_engine_pages pages;
    mnem_engine_pages_get(alone.engine, &pages);
    begin_talk(budget);
    const uint64_t all = unload_and_load(budget, UINT64_MAX);
    close_all();
    int32_t last = INT32_MAX, most = 0;
    for (uint64_t less = 0, kept = 2; kept > 1; less += 16 * pages.state_bytes) {
        begin_talk(budget);
        unload_and_load(budget, all - less);
        int32_t snapshots = 0;
        kept = 0;
        for (int32_t i = 0; i < scheduler->lanes; i++) {
            const mnem__lane *lane = &scheduler->lane[i];
            if (lane->state != MNEM__LANE_CACHED) continue;
            kept++;
            snapshots += mnem__sequence_snapshots(lane->sequence)->count;
            assert_int_equal(mnem__sequence_ready(lane->sequence, lane->count), lane->count);
        }
        if (less == 0) most = (int32_t)kept;
        assert_true(snapshots <= last && most >= CLIENTS);
        if (snapshots > (int32_t)kept) assert_int_equal(kept, most); /* each has its own at least */
        last = snapshots;
        run_turn(TURNS - 1, 1);
        close_all();
    }
}

/* A state that is damaged in the swap file is left out; what it was for runs again. */
static void a_damaged_state_is_not_saved(void **state) {
    (void)state;
    const uint64_t budget = budget_of_three(&few);
    for (int damaged = 1; damaged < 8; damaged *= 2) {
        begin_talk(budget);
        for (int32_t i = 0; i < scheduler->state_slots; i++) {
            const uint64_t at = scheduler->slots_at + scheduler->slot_bytes * (uint64_t)i + 100;
            if (scheduler->state_slot[i].taken && i % 8 < damaged)
                assert_int_equal(pwrite(scheduler->swap.fd, "damage", 6, (off_t)at), 6);
        }
        unload_and_load(budget, UINT64_MAX);
        assert_true(run_turn(TURNS - 1, 1) > 0);
        close_all();
    }
}

/* Nothing of what is in memory or in the swap file changes. */
static void a_cache_that_can_not_be_written_costs_nothing(void **state) {
    (void)state;
    uint64_t bytes;
    int32_t cached[CLIENTS];
    begin_talk(budget_of_three(&few));
    const int full = open("/dev/full", O_RDWR);
    assert_int_equal(mnem_scheduler_cache_save_within(scheduler, full, UINT64_MAX, &bytes),
                     MNEM_IO);
    close(full);
    end_talk(cached);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(cached[i], FIRST + NEW * (TURNS - 2));
    close_all();
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
        cmocka_unit_test(an_unloaded_model_keeps_the_states_that_were_in_the_file),
        cmocka_unit_test(a_small_cache_has_conversations_before_snapshots),
        cmocka_unit_test(a_damaged_state_is_not_saved),
        cmocka_unit_test(a_cache_that_can_not_be_written_costs_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
