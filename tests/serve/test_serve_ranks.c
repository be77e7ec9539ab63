/* test_serve_ranks.c: a scheduler whose engine is one of several ranks, of layers or of rows: every
 * request says what it says alone, with several steps under way, and so does every embedding that
 * is made between them; a rank that is lost ends it. One of the models has recurrent states, fewer
 * than requests that run, and snapshots of them.
 *
 * Ranks are threads; rank 0 is the test's. What a request says alone comes of an engine of one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "kit/kit_random.h"
#include "serve/serve_ranks.h"

enum { ASKS = 12, LOADS = MNEM_SANITIZED ? 4 : 16, VOCAB = 96 };

static char path[200];
static bool stateful;
static engine_case alone;
static uint64_t random_state;

static int32_t pick(int32_t low, int32_t high) {
    return low + (int32_t)(next_random(&random_state) % (uint64_t)(high - low + 1));
}

/* ---- embeddings between steps ---- */

enum { TEXTS = 4, EMBD_MOST = 64 };
static int32_t words[SERVE_CONTEXT];
static const mnem_embed_text texts[TEXTS] = {
    {words, 1}, {words + 2, 64}, {words + 3, 65}, {words, 200}};
static const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};
static float embedded[TEXTS * EMBD_MOST]; /* alone */
static int32_t embd;
static int made;

static void embed_alone(void) {
    mnem_transformer t;
    must(mnem_model_transformer(alone.model, &t));
    embd = t.embd;
    assert_in_range(embd, 1, EMBD_MOST);
    for (int32_t i = 0; i < SERVE_CONTEXT; i++) words[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    must(mnem_engine_embed(alone.engine, texts, TEXTS, &mean, embedded));
}

/* Pages and sequences may all be others' just then. */
static void embed_one(void *context, mnem_engine *engine) {
    const int32_t which = *(const int32_t *)context;
    float out[EMBD_MOST];
    const mnem_status status = mnem_engine_embed(engine, &texts[which], 1, &mean, out);
    assert_true(status == MNEM_OK || status == MNEM_OVER_BUDGET);
    if (status != MNEM_OK) return;
    assert_memory_equal(out, embedded + which * embd, (size_t)embd * sizeof *out);
    made++;
}

static void call_embed(mnem_scheduler *scheduler) {
    static int32_t which[TEXTS];
    const int32_t at = pick(0, TEXTS - 1);
    which[at] = at;
    must(mnem_scheduler_call(scheduler, 1, embed_one, &which[at]));
}

/* ---- loads ---- */

static void make_ask(serve_ask *a, const int32_t *common) {
    const int32_t n = pick(1, 100), shared = pick(0, 1) ? pick(0, n) : 0;
    for (int32_t i = 0; i < n; i++) a->prompt[i] = i < shared ? common[i] : pick(0, VOCAB - 1);
    a->request = (mnem_request){.prompt_tokens = n, .tokens = pick(1, 40)};
    if (pick(0, 1)) {
        a->request.sampler = mnem_sampler_usual();
        a->request.sampler.seed = (uint64_t)pick(0, 1000);
    }
    a->stop_after = pick(0, 5) ? 0 : pick(1, 10);
    serve_ask_set(a);
    serve_ask_alone(a, alone.engine, alone.vocab);
}

static void run_load(int number) {
    static serve_ask ask[ASKS];
    static int32_t common[SERVE_CONTEXT];
    serve_rank members[SERVE_RANKS_MAX] = {0};
    mnem_scheduler *scheduler;
    char what[32];
    bool more = true;
    int32_t submitted = 0;
    const int32_t ranks = pick(2, SERVE_RANKS_MAX), sequences = pick(1, 8);
    memset(ask, 0, sizeof ask);
    snprintf(what, sizeof what, "load %d", number);
    for (int32_t i = 0; i < SERVE_CONTEXT; i++) common[i] = pick(0, VOCAB - 1);
    for (int32_t i = 0; i < ASKS; i++) make_ask(&ask[i], common);
    const mnem_engine_options options = {.context = SERVE_CONTEXT,
                                         .sequences = sequences,
                                         .states = stateful ? pick(1, sequences) : 0,
                                         .snapshots = stateful ? pick(0, 8) : 0,
                                         .snapshot_tokens = stateful ? pick(8, 64) : 0,
                                         .pages_tokens = pick(0, 2) ? SERVE_CONTEXT * 2 : 0,
                                         .logits_rows = pick(0, 1) ? 0 : pick(1, 8),
                                         .threads = 1,
                                         .chunk = pick(0, 1) ? pick(1, 64) : 64,
                                         .cut = pick(0, 2) || stateful ? MNEM_CUT_LAYERS
                                                                       : MNEM_CUT_ROWS};
    serve_ranks_open(members, ranks, path, &options);
    const mnem_scheduler_options o = {
        .engine = members[0].engine, .queue_requests = ASKS, .reserve = pick(1, 64)};
    assert_true(!stateful || members[0].plan.states == options.states);
    must(mnem_scheduler_create(&o, &scheduler));
    for (int steps = 0; more || submitted < ASKS; steps++) {
        if (steps == 100000) fail_msg("%s: no end", what);
        for (int32_t n = pick(0, 2); n > 0 && submitted < ASKS; n--, submitted++)
            must(mnem_scheduler_submit(scheduler, &ask[submitted].request, &ask[submitted].number,
                                       NULL));
        if (pick(0, 60) == 0 && submitted > 0)
            mnem_scheduler_cancel(scheduler, ask[pick(0, submitted - 1)].number);
        if (pick(0, 3) == 0) call_embed(scheduler);
        must(mnem_scheduler_step(scheduler, &more));
    }
    for (int32_t i = 0; i < ASKS; i++) serve_ask_check(&ask[i], what);
    mnem_scheduler_destroy(scheduler);
    serve_ranks_close(members, ranks, MNEM_OK);
}

static void ranks_say_what_one_says(void **state) {
    (void)state;
    made = 0;
    for (int i = 0; i < LOADS; i++) {
        random_state = 0x9e3779b97f4a7c15 * (uint64_t)(i + 1);
        run_load(i);
    }
    print_message("%d embeddings beside them\n", made);
    assert_true(made > LOADS);
}

/* What was asked for ends with an error, and so does the loop. */
static void a_lost_rank_ends_the_server(void **state) {
    (void)state;
    static serve_ask ask;
    serve_rank members[2] = {0};
    mnem_scheduler *scheduler;
    random_state = 5;
    make_ask(&ask, ask.prompt);
    ask.request.tokens = 40;
    ask.stop_after = 0;
    serve_ranks_open(members, 2, path,
                     &(mnem_engine_options){.context = SERVE_CONTEXT, .threads = 1});
    must(mnem_scheduler_create(&(mnem_scheduler_options){.engine = members[0].engine}, &scheduler));
    must(mnem_scheduler_submit(scheduler, &ask.request, &ask.number, NULL));
    mnem_comm_abort(members[0].comm, "that was all");
    assert_int_equal(mnem_scheduler_run(scheduler), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "that was all"));
    mnem_scheduler_destroy(scheduler);
    assert_int_equal(ask.ends, 1);
    assert_int_equal(ask.result.end, MNEM_END_ERROR);
    serve_ranks_close(members, 2, MNEM_IO);
}

static void open_alone(void) {
    engine_case_open(&alone, path, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT, .threads = 1, .chunk = 64});
    embed_alone();
}

static int set_up(void **state) {
    (void)state;
    stateful = false;
    snprintf(path, sizeof path, "serve-ranks-%d.gguf", (int)getpid());
    make_model(path, "--arch llama --heads 4 --kv-heads 2 --head-dim 32 --layers 3 --type Q8_0");
    open_alone();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    engine_case_close(&alone);
    if (!stateful) remove(path);
    return 0;
}

static int set_up_states(void **state) {
    (void)state;
    stateful = true;
    snprintf(path, sizeof path, "%s", MNEM_TEST_DATA "/architectures/qwen35.gguf");
    open_alone();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_say_what_one_says, set_up, tear_down),
        {"ranks_with_states_say_what_one_says", ranks_say_what_one_says, set_up_states, tear_down,
         NULL},
        cmocka_unit_test_setup_teardown(a_lost_rank_ends_the_server, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
