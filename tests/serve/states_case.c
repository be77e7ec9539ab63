/* states_case.c: see states_case.h. */
#include "serve/states_case.h"

#include <string.h>

const char states_model[] = MNEM_TEST_DATA "/architectures/qwen35.gguf";
static const int32_t end_of_turn = END;
engine_case c, alone;
mnem_scheduler *scheduler;

int set_up(void **state) {
    (void)state;
    engine_case_open(&alone, states_model, 0,
                     &(mnem_engine_options){
                         .context = SERVE_CONTEXT, .kv = MNEM_KV_F32, .threads = 1, .chunk = 64});
    return 0;
}

int tear_down(void **state) {
    (void)state;
    engine_case_close(&alone);
    return 0;
}

bool keeps;

void open_swap(const mnem_engine_options *options, uint64_t budget, const char *swap,
               uint64_t swap_bytes) {
    engine_case_open(&c, states_model, budget, options);
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

void close_all(void) {
    mnem_scheduler_destroy(scheduler);
    engine_case_close(&c);
}

void say(serve_ask *a, int32_t from, int32_t n, uint32_t text) {
    for (int32_t i = from; i < from + n; i++) {
        text = text * 1664525u + 1013904223u;
        a->prompt[i] = 8 + (int32_t)(text >> 16) % 80;
    }
}

void set(serve_ask *a, int32_t prompt, int32_t tokens) {
    a->request = (mnem_request){.prompt_tokens = prompt, .tokens = tokens, .ignore_end = true};
    serve_ask_set(a);
    serve_ask_alone(a, alone.engine, alone.vocab);
}

void submit(serve_ask *a) {
    must(mnem_scheduler_submit(scheduler, &a->request, &a->number, NULL));
}

uint64_t tokens_run(void) {
    mnem_engine_stats stats;
    mnem_engine_stats_get(c.engine, &stats);
    return stats.tokens;
}

mnem_scheduler_stats stats_now(void) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(scheduler, &stats);
    return stats;
}

uint64_t budget_of_three(const mnem_engine_options *o) {
    uint64_t budget = engine_case_least(states_model, o);
    for (c.plan.states = 0; c.plan.states < 3; budget += 4 << 10) {
        engine_case_open(&c, states_model, budget, o);
        engine_case_close(&c);
    }
    assert_int_equal(c.plan.states, 3);
    assert_int_equal(c.plan.snapshots, 0);
    return budget - (4 << 10);
}

const mnem_engine_options few = {.context = SERVE_CONTEXT,
                                 .kv = MNEM_KV_F32,
                                 .threads = 1,
                                 .chunk = 32,
                                 .sequences = SEQUENCES,
                                 .logits_rows = 3,
                                 .pages_fill = true,
                                 .pages_tokens = SEQUENCES * SERVE_CONTEXT,
                                 .snapshot_tokens = EVERY};

/* |system 20 E|user 37 E|asks 3|, then in each turn |answer 15 E|user 9 E|asks 3|. */
static int32_t say_turn(serve_ask *a, int turn, uint32_t who) {
    const int32_t from = turn ? FIRST + (turn - 1) * NEW : 0, to = FIRST + turn * NEW;
    say(a, from, to - from + ASKS, 1000 * who + (uint32_t)turn);
    if (turn == 0) a->prompt[19] = END;
    if (turn > 0) a->prompt[from + 15] = END;
    a->prompt[to - 1] = END;
    return to + ASKS;
}

serve_ask talk[TURNS][CLIENTS];

void make_talk(void) {
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

uint64_t run_turn(int turn, int together) {
    const uint64_t before = tokens_run();
    for (int i = 0; i < CLIENTS; i++) {
        submit(&talk[turn][i]);
        if ((i + 1) % together == 0) serve_run(scheduler, 1000);
    }
    for (int i = 0; i < CLIENTS; i++) serve_ask_check(&talk[turn][i], "a turn");
    assert_true(tokens_run() - before >= CLIENTS * fresh_of(turn));
    return tokens_run() - before - CLIENTS * fresh_of(turn);
}
