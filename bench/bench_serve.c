/* bench_serve.c: many clients against one, a beginning that all share, and a long prompt that comes
 * while others generate, in one process.
 *
 * bench_serve MODEL [TOKENS [PROMPT [SHARED [LONG [MIB [PAIRS]]]]]]     128 128 1024 4000
 *                                                                      0: leave that out
 * MIB: a budget, of which weights and pages are planned as `mnem serve` does; weights that don't
 * fit are read past the page cache. 0: all is in memory.
 * PAIRS: only 1 client and 8 in turn, so many times (a disk isn't as fast now as a minute ago), and
 * the median of how many times the tokens a second those have.
 *
 * Prompts are numbers of a generator, the same each time; greedy; tokens that end a turn don't.
 * Each line is one run: the rate of all tokens chosen, by the clock and by the processor's time (on
 * a busy machine, with one thread, only that says something), the time to the first and the
 * gaps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mnem/mnem.h"

enum { CLIENTS = 8, GAPS = 1 << 16, PAIRS = 99 };

typedef struct rate {
    double clock, work; /* tokens a second */
} rate;

typedef struct client {
    mnem_request request;
    int32_t *prompt;
    double submitted, first, last, longest; /* seconds; longest: gap */
    uint64_t number;
} client;

static client clients[CLIENTS];
static double gaps[GAPS], firsts[CLIENTS];
static int gap_count;
static mnem_opened opened;
static mnem_engine *engine;
static mnem_scheduler *scheduler;
static int32_t vocab;

static void must(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_serve: %s\n", mnem_last_error());
    exit(1);
}

static bool on_token(void *context, const mnem_request_token *token) {
    client *c = context;
    const double now = mnem__seconds();
    if (token->index == 0) {
        c->first = now;
    } else {
        if (now - c->last > c->longest) c->longest = now - c->last;
        if (gap_count < GAPS) gaps[gap_count++] = now - c->last;
    }
    c->last = now;
    return true;
}

static void on_end(void *context, const mnem_request_result *result) {
    (void)context;
    if (result->end == MNEM_END_LENGTH) return;
    fprintf(stderr, "bench_serve: %s %s\n", mnem_request_end_text(result->end), result->text);
    exit(1);
}

/* Client i's prompt: the first `shared` ids are everybody's, the rest its own. */
static void submit(int i, int32_t n, int32_t shared, int32_t tokens) {
    client *c = &clients[i];
    static uint64_t fresh = 1;
    uint64_t x = 0x9e3779b97f4a7c15;
    c->prompt = realloc(c->prompt, (size_t)n * sizeof *c->prompt);
    for (int32_t k = 0; k < n; k++) {
        if (k == shared) x += ++fresh * 0xbf58476d1ce4e5b9;
        x = x * 6364136223846793005 + 1442695040888963407;
        c->prompt[k] = (int32_t)((x >> 33) % (uint64_t)vocab);
    }
    c->request = (mnem_request){.prompt = c->prompt,
                                .prompt_tokens = n,
                                .tokens = tokens,
                                .ignore_end = true,
                                .on_token = on_token,
                                .on_end = on_end,
                                .context = c};
    c->submitted = mnem__seconds();
    c->longest = 0;
    must(mnem_scheduler_submit(scheduler, &c->request, &c->number, NULL));
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, int n, double q) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return n > 0 ? values[(int)(q * (n - 1))] : 0;
}

static void finish(void) {
    for (bool more = true; more;) must(mnem_scheduler_step(scheduler, &more));
}

/* Everybody at once. */
static rate run(const char *name, int count, int32_t prompt, int32_t shared, int32_t tokens) {
    const double start = mnem__seconds();
    const clock_t used = clock();
    mnem_engine_stats before, after;
    mnem_engine_stats_get(engine, &before);
    gap_count = 0;
    for (int i = 0; i < count; i++) submit(i, prompt, shared, tokens);
    finish();
    const double seconds = mnem__seconds() - start;
    const double work = (double)(clock() - used) / CLOCKS_PER_SEC;
    for (int i = 0; i < count; i++) firsts[i] = clients[i].first - clients[i].submitted;
    printf("%-22s %7.1f tok/s %7.1f of work %6.2f s   first p50 %6.0f p99 %6.0f ms   gap p50 %5.0f "
           "p99 %5.0f "
           "max %5.0f ms\n",
           name, count * tokens / seconds, count * tokens / work, seconds,
           1e3 * quantile(firsts, count, 0.5), 1e3 * quantile(firsts, count, 0.99),
           1e3 * quantile(gaps, gap_count, 0.5), 1e3 * quantile(gaps, gap_count, 0.99),
           1e3 * quantile(gaps, gap_count, 1));
    mnem_engine_stats_get(engine, &after);
    if (after.bytes_streamed > before.bytes_streamed)
        printf("%-22s %.0f MiB read, %.2f s of steps, in which %.2f s waited for the disk\n", "",
               (double)(after.bytes_streamed - before.bytes_streamed) / (1 << 20),
               after.seconds_eval - before.seconds_eval,
               after.seconds_waiting - before.seconds_waiting);
    fflush(stdout);
    return (rate){count * tokens / seconds, count * tokens / work};
}

static void run_pairs(int32_t count, int32_t prompt, int32_t tokens) {
    static double ratio[PAIRS];
    const int n = count < PAIRS ? count : PAIRS;
    for (int i = 0; i < n; i++) {
        const rate first = run(i % 2 ? "8 clients" : "1 client", i % 2 ? 8 : 1, prompt, 0, tokens);
        const rate then = run(i % 2 ? "1 client" : "8 clients", i % 2 ? 1 : 8, prompt, 0, tokens);
        ratio[i] = i % 2 ? first.clock / then.clock : then.clock / first.clock;
    }
    const double median = quantile(ratio, n, 0.5);
    printf("8 clients have %.2f times the tokens a second of one (median of %d pairs: %.2f to "
           "%.2f)\n",
           median, n, quantile(ratio, n, 0), quantile(ratio, n, 1));
}

static void run_all(int32_t prompt, int32_t tokens) {
    double one = 0;
    for (int n = 1; n <= CLIENTS; n *= 2) {
        char name[32];
        snprintf(name, sizeof name, "%d client%s", n, n > 1 ? "s" : "");
        const double work = run(name, n, prompt, 0, tokens).work;
        if (n == 1) one = work;
        if (n == CLIENTS) printf("%-22s %.2f times one, by work\n", "", work / one);
    }
}

/* Seven that generate, and then a long prompt. */
static void run_long(int32_t tokens, int32_t prompt, int32_t long_prompt) {
    bool more;
    double longest = 0;
    for (int i = 0; i < CLIENTS - 1; i++) submit(i, prompt, 0, 4 * tokens);
    while (clients[CLIENTS - 2].first < clients[CLIENTS - 2].submitted)
        must(mnem_scheduler_step(scheduler, &more));
    for (int i = 0; i < CLIENTS - 1; i++) clients[i].longest = 0;
    submit(CLIENTS - 1, long_prompt, 0, 1);
    const client *last = &clients[CLIENTS - 1];
    while (last->first < last->submitted) must(mnem_scheduler_step(scheduler, &more));
    for (int i = 0; i < CLIENTS - 1; i++)
        if (clients[i].longest > longest) longest = clients[i].longest;
    printf("%-22s longest gap of 7 that generate %5.0f ms, first token of the prompt of %d after "
           "%.1f s\n",
           "a long prompt", 1e3 * longest, long_prompt, last->first - last->submitted);
    finish();
}

static void open_all(const char *path, int32_t context, int32_t mib) {
    mnem_transformer t;
    must(mnem_ledger_create_process(&(mnem_ledger_options){.preparing = true,
                                                           .own_process = true,
                                                           .budget_bytes = (uint64_t)mib << 20},
                                    &opened.ledger));
    must(mnem_model_open(path, &opened.model));
    must(mnem_model_transformer(opened.model, &t));
    vocab = t.vocab;
    if (context > t.context) context = t.context;
    const mnem_engine_options o = {.ledger = opened.ledger,
                                   .context = context,
                                   .sequences = 2 * CLIENTS,
                                   .logits_rows = CLIENTS,
                                   .pages_fill = mib > 0,
                                   .pages_tokens = mib > 0           ? 0
                                                   : 16384 > context ? 16384
                                                                     : context};
    mnem_scheduler_options s = {.running = CLIENTS};
    const uint64_t books = mnem_scheduler_bytes(&s, o.sequences, context, vocab);
    must(mnem_ledger_charge(opened.ledger, MNEM_KIND_HOST, "books", books));
    must(mnem_engine_plan_make(opened.model, &o, &opened.plan));
    must(mnem_engine_create(opened.model, &o, &opened.plan, &engine));
    mnem_ledger_release(opened.ledger, MNEM_KIND_HOST, "books", books);
    s.engine = engine;
    must(mnem_scheduler_create(&s, &scheduler));
    printf("context %d, chunk %d, %d pages, %.1f MiB read for a pass%s\n", opened.plan.context,
           opened.plan.chunk, opened.plan.pages,
           (double)opened.plan.bytes_streamed_per_pass / (1 << 20),
           opened.plan.direct_io ? ", directly" : "");
}

static int32_t argument(int argc, char **argv, int i, int32_t unset) {
    return argc > i ? atoi(argv[i]) : unset;
}

int main(int argc, char **argv) {
    const int32_t tokens = argument(argc, argv, 2, 128), prompt = argument(argc, argv, 3, 128);
    const int32_t shared = argument(argc, argv, 4, 1024), longest = argument(argc, argv, 5, 4000);
    const int32_t pairs = argument(argc, argv, 7, 0);
    if (argc < 2) {
        fprintf(stderr, "bench_serve MODEL [TOKENS [PROMPT [SHARED [LONG [MIB [PAIRS]]]]]]\n");
        return 2;
    }
    open_all(argv[1], (longest > shared + prompt ? longest : shared + prompt) + 4 * tokens,
             argument(argc, argv, 6, 0));
    run("warm", 1, prompt, 0, 16);
    if (pairs > 0)
        run_pairs(pairs, prompt, tokens);
    else
        run_all(prompt, tokens);
    if (shared > 0 && pairs == 0) {
        run("8, nothing shared", CLIENTS, shared + prompt, 0, tokens);
        run("8, a shared beginning", CLIENTS, shared + prompt, shared, tokens);
    }
    if (longest > 0 && pairs == 0) run_long(tokens, prompt, longest);
    mnem_scheduler_destroy(scheduler);
    mnem_engine_destroy(engine);
    mnem_close(&opened);
    for (int i = 0; i < CLIENTS; i++) free(clients[i].prompt);
    return 0;
}
