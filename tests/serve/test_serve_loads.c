/* test_serve_loads.c: whatever else a scheduler has to do, a request says what it says alone.
 *
 * test_serve_loads [LOADS] [FIRST] [states]     60 by default; states: of a model with these, where
 *                                               there may be fewer of them than sequences
 *
 * A load is an engine at random (sequences, pages, chunk, kind of keys and values, windows or not),
 * a scheduler with or without a swap file, and up to 24 requests that come while others run:
 * prompts along a tree of texts, so that many begin alike, greedy or seeded, with penalties and
 * biases, of several trees and priorities, some cancelled on the way. What each says was found out
 * before, by an engine of one sequence. The load's number, which is its seed, is in every
 * message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "serve/serve_case.h"
#include "serve/serve_private.h"

enum { STREAMS = 6, ASKS = 24, VOCAB = 96 };

static struct {
    const char *arguments; /* of make_model; NULL: path is there */
    char path[256];
} models[] = {
    {"--arch llama --heads 4 --kv-heads 2 --type Q8_0 --context 512", ""},
    {"--arch lfm2 --heads 4 --kv-heads 2 --type Q8_0 --context 512", ""},
    {NULL, MNEM_TEST_DATA "/architectures/phi3_window.gguf"}, /* windows in all layers, */
    {NULL, MNEM_TEST_DATA "/architectures/gemma3.gguf"},      /* in some */
    {NULL, MNEM_TEST_DATA "/architectures/qwen35.gguf"},      /* recurrent layers */
};
enum {
    MODELS = sizeof models / sizeof models[0],
    STORED = 2,
    OF_STATES = MODELS - 1
}; /* from STORED on: kv f32 */

static int loads = 60, first_load;
static bool of_states;
static uint64_t state_;
static int32_t streams[STREAMS][SERVE_CONTEXT];
static engine_case alone[MODELS];
static struct {
    uint64_t tokens, cached, preemptions, swapped, recomputed, cancelled, states_out, states_in;
} sum;

static uint64_t random_bits(void) { /* xorshift64* */
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
}

/* From low to high. */
static int32_t pick(int32_t low, int32_t high) {
    return low + (int32_t)((random_bits() >> 33) % (uint64_t)(high - low + 1));
}

static void make_streams(void) {
    state_ = 7;
    for (int32_t s = 0; s < STREAMS; s++) {
        const int32_t common = s ? pick(1, SERVE_CONTEXT - 10) : 0;
        memcpy(streams[s], streams[s ? pick(0, s - 1) : 0], sizeof streams[s]);
        for (int32_t i = common; i < SERVE_CONTEXT; i++) streams[s][i] = pick(0, VOCAB - 1);
    }
}

/* ---- one load ---- */

typedef struct load {
    engine_case c;
    mnem_scheduler *scheduler;
    serve_ask ask[ASKS];
    int32_t asks, submitted;
    int model;
} load;

static mnem_sampler_options random_sampler(serve_ask *a) {
    mnem_sampler_options o = {0};
    if (pick(0, 2) == 0) return o;
    o = mnem_sampler_usual();
    o.seed = (uint64_t)pick(0, 1000);
    if (pick(0, 1)) o.top_k = 0;
    if (pick(0, 2) == 0) o.repeat_penalty = 1.2f;
    if (pick(0, 2) == 0) o.presence_penalty = (float)pick(-4, 4) / 2;
    if (pick(0, 2) == 0) o.frequency_penalty = (float)pick(-4, 4) / 4;
    o.bias_count = pick(0, 3) ? 0 : pick(1, SERVE_BIASES);
    for (int i = 0; i < SERVE_BIASES; i++)
        a->bias[i] = (mnem_logit_bias){pick(0, VOCAB - 1), (float)pick(-10, 10)};
    o.bias = a->bias;
    return o;
}

static void make_ask(load *l, serve_ask *a) {
    const int32_t n = pick(0, 3) ? pick(1, 120) : pick(1, SERVE_CONTEXT - 10);
    memcpy(a->prompt, streams[pick(0, STREAMS - 1)], sizeof a->prompt);
    a->request = (mnem_request){.prompt_tokens = n,
                                .tokens = pick(0, 1) ? pick(1, 40) : pick(1, SERVE_CONTEXT),
                                .sampler = random_sampler(a),
                                .tree = (uint64_t)(pick(0, 4) == 0),
                                .no_sharing = pick(0, 9) == 0,
                                .top = pick(0, 9) ? 0 : 3,
                                .priority = pick(0, 9) ? 0 : pick(-1, 1)};
    a->stop_after = pick(0, 9) ? 0 : pick(1, 20);
    serve_ask_set(a);
    serve_ask_alone(a, alone[l->model].engine, alone[l->model].vocab);
}

static void open_load(load *l) {
    l->model = pick(0, 5) < 4 ? 0 : pick(1, OF_STATES - 1);
    if (of_states) l->model = OF_STATES;
    const int32_t sequences = pick(1, 8);
    mnem_engine_options engine = {.context = SERVE_CONTEXT,
                                  .kv = l->model >= STORED ? MNEM_KV_F32 : MNEM_KV_F16,
                                  .sequences = sequences,
                                  .pages_tokens = pick(0, 3) ? SERVE_CONTEXT * pick(1, 2) : 0,
                                  .threads = 1,
                                  .chunk = pick(0, 1) ? pick(1, 96) : 128};
    uint64_t budget = 0;
    if (of_states && pick(0, 3)) {
        engine.pages_fill = pick(0, 1);
        engine.snapshots = pick(0, 1) ? MNEM_SNAPSHOTS_FILL : pick(0, 20);
        engine.snapshot_tokens = pick(5, 100);
        if (engine.pages_fill)
            budget = engine_case_least(models[l->model].path, &engine) + (uint64_t)pick(0, 1 << 17);
    }
    engine_case_open(&l->c, models[l->model].path, budget, &engine);
    if (budget) must(mnem_ledger_budget_set(l->c.ledger, budget + (64 << 20))); /* for books */
    mnem_scheduler_options o = {.engine = l->c.engine,
                                .running = pick(0, 3) ? 0 : pick(1, sequences),
                                .queue_requests = ASKS,
                                .reserve = pick(1, 64),
                                .age_milliseconds = pick(0, 1) ? 1 : 0,
                                .no_sharing = pick(0, 7) == 0,
                                .swap = pick(0, 2) ? "." : NULL};
    if (of_states && o.swap) {
        if (pick(0, 3)) o.swap_bytes_per_s = 1e12;
        if (pick(0, 1)) o.swap_bytes = (uint64_t)pick(1, 1 << 18);
    }
    must(mnem_scheduler_create(&o, &l->scheduler));
}

static void submit_some(load *l) {
    for (int32_t n = pick(0, 2) ? 0 : pick(1, 6); n > 0 && l->submitted < l->asks; n--) {
        serve_ask *a = &l->ask[l->submitted++];
        must(mnem_scheduler_submit(l->scheduler, &a->request, &a->number, NULL));
    }
    if (pick(0, 200) == 0 && l->submitted > 0)
        mnem_scheduler_cancel(l->scheduler, l->ask[pick(0, l->submitted - 1)].number);
}

/* A byte of a state in the file is another one. */
static void damage_state(mnem_scheduler *s) {
    uint8_t byte = 0;
    const int32_t slot = pick(0, SERVE_CONTEXT);
    if (slot >= s->state_slots || !s->state_slot[slot].taken) return;
    const off_t place = (off_t)(s->slots_at + s->slot_bytes * (uint64_t)slot) + pick(0, 8000);
    assert_int_equal(pread(s->swap.fd, &byte, 1, place), 1);
    byte ^= 0x41;
    assert_int_equal(pwrite(s->swap.fd, &byte, 1, place), 1);
}

/* A slot is taken exactly where a list has it; returns the bytes of all. */
static uint64_t check_slots(const mnem_scheduler *s) {
    const mnem__snapshots *x = &s->engine->snapshots;
    uint64_t bytes = 0;
    int32_t stored = 0;
    for (int32_t i = 0; i < s->state_slots; i++) {
        int32_t found = 0;
        for (int32_t l = 0; l < x->list_count; l++)
            for (int32_t k = 0; k < x->lists[l].count; k++)
                found += x->lists[l].at[k].page < 0 && x->lists[l].at[k].slot == i;
        assert_int_equal(found > 0, s->state_slot[i].taken);
        stored += found;
        if (found) bytes += s->engine->pages[MNEM__KV_STATES].page_bytes;
    }
    assert_int_equal(stored, x->stored);
    return bytes;
}

static void count(const load *l) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(l->scheduler, &stats);
    sum.tokens += stats.tokens;
    sum.cached += stats.prefix_hits;
    sum.preemptions += stats.preemptions;
    sum.swapped += stats.swapped_in;
    sum.recomputed += stats.tokens_recomputed;
    sum.cancelled += stats.ended[MNEM_END_CANCELLED];
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.queue_bytes, 0);
    sum.states_out += stats.snapshots_out;
    sum.states_in += stats.snapshots_in;
    assert_int_equal(stats.swap_bytes_live, check_slots(l->scheduler));
    assert_int_equal(stats.pages_private + stats.pages_shared, 0);
    assert_int_equal(stats.pages_cached + stats.pages_free, stats.pages);
}

static void run_load(int number) {
    static load l;
    char what[64];
    bool more = true;
    mnem_ledger_info before, after;
    l = (load){.asks = pick(1, ASKS)};
    snprintf(what, sizeof what, "load %d", number);
    open_load(&l);
    for (int32_t i = 0; i < l.asks; i++) make_ask(&l, &l.ask[i]);
    mnem_ledger_info_get(l.c.ledger, &before);
    for (int steps = 0; more || l.submitted < l.asks; steps++) {
        if (steps == 200000) fail_msg("%s: no end", what);
        submit_some(&l);
        must(mnem_scheduler_step(l.scheduler, &more));
        if (of_states && steps % 50 == 0) damage_state(l.scheduler);
    }
    mnem_ledger_info_get(l.c.ledger, &after);
    for (int32_t i = 0; i < l.asks; i++) {
        serve_ask_check(&l.ask[i], what);
        assert_in_range(l.ask[i].result.preemptions, 0, 3);
    }
    assert_true(after.bytes_peak == before.bytes_peak); /* nothing is allocated on the way */
    count(&l);
    mnem_scheduler_destroy(l.scheduler);
    mnem_engine_stats stats;
    mnem_engine_stats_get(l.c.engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    engine_case_close(&l.c);
}

static void every_request_says_what_it_says_alone(void **state) {
    (void)state;
    for (int i = first_load; i < first_load + loads; i++) {
        state_ = 0x9e3779b97f4a7c15 * (uint64_t)(i + 1);
        random_bits();
        run_load(i);
    }
    print_message("%d loads: %llu tokens, %llu of prompts shared, set aside %llu times, read back "
                  "%llu, %llu tokens computed again, %llu requests cancelled, %llu states to the "
                  "swap file, %llu from it\n",
                  loads, (unsigned long long)sum.tokens, (unsigned long long)sum.cached,
                  (unsigned long long)sum.preemptions, (unsigned long long)sum.swapped,
                  (unsigned long long)sum.recomputed, (unsigned long long)sum.cancelled,
                  (unsigned long long)sum.states_out, (unsigned long long)sum.states_in);
}

static int set_up(void **state) {
    (void)state;
    make_streams();
    for (int i = 0; i < MODELS; i++) {
        if (models[i].arguments) {
            snprintf(models[i].path, sizeof models[i].path, "loads-%d-%d.gguf", (int)getpid(), i);
            make_model(models[i].path, models[i].arguments);
        }
        engine_case_open(&alone[i], models[i].path, 0,
                         &(mnem_engine_options){.context = SERVE_CONTEXT,
                                                .kv = i >= STORED ? MNEM_KV_F32 : MNEM_KV_F16,
                                                .threads = 1,
                                                .chunk = 64});
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = MODELS; i-- > 0;) {
        engine_case_close(&alone[i]);
        if (models[i].arguments) remove(models[i].path);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_says_what_it_says_alone),
    };
    if (argc > 1) loads = atoi(argv[1]);
    if (argc > 2) first_load = atoi(argv[2]);
    of_states = argc > 3;
    if (MNEM_SANITIZED && loads > 12) loads = 12;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
