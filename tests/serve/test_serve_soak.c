/* test_serve_soak.c: one scheduler for a long time: nothing grows, nobody starves, all is right.
 *
 * test_serve_soak [REQUESTS] [SEED]     2000 by default; 200000 is what a release has seen
 *
 * Clients come at random, more of them than there is room for: prompts that begin alike, greedy or
 * seeded, some of another tree, some that leave, some that are told to retry. Each answer is
 * one that was found out before by an engine of one sequence. Waiting is counted in steps, from
 * when a request is taken until it begins: a step is what the others get meanwhile. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit_model.h"
#include "serve/serve_case.h"

enum { STREAMS = 6, KINDS = 96, CLIENTS = 48, QUEUE = 16, SEQUENCES = 8, VOCAB = 96 };
/* Whoever waits has QUEUE + SEQUENCES before it at the most. Each of them takes a step for a token,
 * of which there are up to a context, and those in the same step wait for none. */
enum { WAIT_MOST = (QUEUE + SEQUENCES) * SERVE_CONTEXT };

static const struct {
    const char *name, *arguments; /* of make_model; NULL: name is a path */
    mnem_kv_choice kv;
    bool swap;
} settings[] = {
    {"llama", "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --context 512", MNEM_KV_F16, true},
    {"llama", "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --context 512", MNEM_KV_F16, false},
    {"lfm2", "--arch lfm2 --heads 4 --kv-heads 2 --type Q8_0 --context 512", MNEM_KV_F16, true},
    {MNEM_TEST_DATA "/architectures/gemma3.gguf", NULL, MNEM_KV_F32, true},
    {MNEM_TEST_DATA "/architectures/phi3_window.gguf", NULL, MNEM_KV_F32, true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct client {
    serve_ask ask;
    bool busy, begun;
    long submitted; /* the step before */
} client;

static int requests = 2000;
static uint64_t state_ = 1;
static int32_t streams[STREAMS][SERVE_CONTEXT];
static serve_ask kinds[KINDS];
static client clients[CLIENTS];
static uint32_t waits[WAIT_MOST + 1]; /* requests by steps waited */
static engine_case c;
static mnem_scheduler *scheduler;
static struct { long steps, taken, done, later, cancelled, longest; } sum;

static int32_t pick(int32_t low, int32_t high) {
    state_ ^= state_ >> 12; /* xorshift64* */
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const uint64_t bits = state_ * 0x2545f4914f6cdd1d;
    return low + (int32_t)((bits >> 33) % (uint64_t)(high - low + 1));
}

/* ---- what clients ask ---- */

static void make_streams(void) {
    for (int32_t s = 0; s < STREAMS; s++) {
        const int32_t common = s ? pick(1, SERVE_CONTEXT - 10) : 0;
        memcpy(streams[s], streams[s ? pick(0, s - 1) : 0], sizeof streams[s]);
        for (int32_t i = common; i < SERVE_CONTEXT; i++) streams[s][i] = pick(0, VOCAB - 1);
    }
}

static void make_kind(serve_ask *a, const engine_case *alone) {
    const int32_t n = pick(0, 7) ? pick(1, 60) : pick(1, SERVE_CONTEXT - 10);
    *a = (serve_ask){0};
    memcpy(a->prompt, streams[pick(0, STREAMS - 1)], sizeof a->prompt);
    a->request = (mnem_request){.prompt_tokens = n,
                                .tokens = pick(0, 7) ? pick(1, 12) : pick(1, SERVE_CONTEXT)};
    if (pick(0, 1)) a->request.sampler = mnem_sampler_usual();
    a->request.sampler.seed = (uint64_t)pick(0, 1000);
    serve_ask_set(a);
    serve_ask_alone(a, alone->engine, alone->vocab);
}

static void make_kinds(const char *path, mnem_kv_choice kv) {
    engine_case alone;
    engine_case_open(
        &alone, path, 0,
        &(mnem_engine_options){.context = SERVE_CONTEXT, .kv = kv, .threads = 1, .chunk = 64});
    for (int i = 0; i < KINDS; i++) make_kind(&kinds[i], &alone);
    engine_case_close(&alone);
}

/* ---- clients ---- */

static void come(client *p) {
    *p = (client){.ask = kinds[pick(0, KINDS - 1)], .submitted = sum.steps};
    serve_ask *a = &p->ask;
    serve_ask_set(a);
    a->request.tree = (uint64_t)(pick(0, 9) == 0);
    a->request.no_sharing = pick(0, 19) == 0;
    a->stop_after = pick(0, 19) ? 0 : pick(1, 10);
    mnem_request_refusal refusal;
    const mnem_status status = mnem_scheduler_submit(scheduler, &a->request, &a->number, &refusal);
    if (status == MNEM_BUSY) {
        assert_in_range(refusal.retry_after_seconds, 1, 60);
        sum.later++;
        return;
    }
    must(status);
    p->busy = true;
    sum.taken++;
}

static void note_wait(client *p) {
    const long steps = sum.steps - p->submitted;
    p->begun = true;
    waits[steps < WAIT_MOST ? steps : WAIT_MOST]++;
    if (steps > sum.longest) sum.longest = steps;
}

static void look(client *p) {
    if (!p->busy) return;
    if (p->ask.started && !p->begun) note_wait(p);
    if (!p->ask.ends) return;
    serve_ask_check(&p->ask, "soak");
    sum.cancelled += p->ask.result.end == MNEM_END_CANCELLED;
    sum.done++;
    p->busy = false;
}

/* Some come, where there are any left; some leave. */
static void stir(long most) {
    client *p = &clients[pick(0, CLIENTS - 1)];
    for (int n = pick(0, 3) ? 0 : pick(1, 4); n > 0 && sum.taken < most; n--) {
        client *q = &clients[pick(0, CLIENTS - 1)];
        if (!q->busy) come(q);
    }
    if (pick(0, 99) == 0 && p->busy) mnem_scheduler_cancel(scheduler, p->ask.number);
}

static void run_until(long most) {
    bool more = true;
    while (more || sum.taken < most) {
        stir(most);
        must(mnem_scheduler_step(scheduler, &more));
        sum.steps++;
        for (int i = 0; i < CLIENTS; i++) look(&clients[i]);
    }
    assert_true(sum.done == sum.taken);
}

/* ---- a scheduler's life ---- */

static void check_empty(void) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(scheduler, &stats);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.queue_bytes, 0);
    assert_int_equal(stats.swap_bytes_live, 0);
    assert_int_equal(stats.pages_private + stats.pages_shared, 0);
    assert_int_equal(stats.pages_cached + stats.pages_free, stats.pages);
    assert_int_equal(stats.ended[MNEM_END_ERROR], 0);
}

static void soak(int setting) {
    char path[256];
    mnem_ledger_info before, after;
    const bool made = settings[setting].arguments != NULL;
    if (made)
        snprintf(path, sizeof path, "soak-%d.gguf", (int)getpid());
    else
        snprintf(path, sizeof path, "%s", settings[setting].name);
    if (made) make_model(path, settings[setting].arguments);
    make_kinds(path, settings[setting].kv);
    engine_case_open(&c, path, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT,
                                            .kv = settings[setting].kv,
                                            .sequences = SEQUENCES + 4,
                                            .pages_tokens = 2 * SERVE_CONTEXT,
                                            .threads = 1,
                                            .chunk = 64});
    must(mnem_scheduler_create(
        &(mnem_scheduler_options){.engine = c.engine,
                                  .running = SEQUENCES,
                                  .queue_requests = QUEUE,
                                  .reserve = 8,
                                  .age_milliseconds = 1,
                                  .swap = settings[setting].swap ? "." : NULL},
        &scheduler));
    const size_t heap = mallinfo2().uordblks;
    mnem_ledger_info_get(c.ledger, &before);
    run_until(sum.taken + requests / SETTINGS);
    mnem_ledger_info_get(c.ledger, &after);
    assert_true(after.bytes_live == before.bytes_live && after.bytes_peak == before.bytes_peak);
    assert_true(mallinfo2().uordblks == heap);
    check_empty();
    mnem_scheduler_destroy(scheduler);
    engine_case_close(&c);
    if (made) remove(path);
}

/* The steps within which that many of a thousand began. */
static int wait_of(double thousandths) {
    uint64_t all = 0, seen = 0;
    int steps = 0;
    for (int i = 0; i <= WAIT_MOST; i++) all += waits[i];
    for (; steps < WAIT_MOST; steps++)
        if ((double)(seen += waits[steps]) >= (double)all * thousandths / 1000) break;
    return steps;
}

static void nothing_grows_and_nobody_starves(void **state) {
    (void)state;
    print_message("%d requests, seed %llu\n", requests, (unsigned long long)state_);
    make_streams();
    for (int i = 0; i < SETTINGS; i++) soak(i);
    const int p999 = wait_of(999);
    print_message("%ld answered in %ld steps, %ld told to retry, %ld cancelled; steps waited: "
                  "p50 %d, p99 %d, p99.9 %d, longest %ld\n",
                  sum.done, sum.steps, sum.later, sum.cancelled, wait_of(500), wait_of(990), p999,
                  sum.longest);
    assert_in_range(p999, 0, WAIT_MOST - 1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_grows_and_nobody_starves)};
    if (argc > 1) requests = atoi(argv[1]);
    if (argc > 2) state_ = 0x9e3779b97f4a7c15 * (uint64_t)(atoi(argv[2]) + 1);
    if (MNEM_SANITIZED && requests > 400) requests = 400;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
