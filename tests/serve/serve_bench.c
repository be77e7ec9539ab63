/* serve_bench.c: an engine, its scheduler, and requests. */
#include "serve/serve_bench.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit_model.h"

static char made_path[64];
const char *serve_model = made_path;

int serve_set_up(void **state) {
    static serve_bench b;
    *state = &b;
    snprintf(made_path, sizeof made_path, "serve-%d.gguf", (int)getpid());
    make_model(made_path, "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --context 512");
    return 0;
}

int serve_tear_down(void **state) {
    (void)state;
    return remove(made_path);
}

void serve_open(serve_bench *b, int32_t sequences, int32_t pages_tokens,
                mnem_scheduler_options options) {
    engine_case_open(&b->c, serve_model, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT,
                                            .kv = MNEM_KV_F16,
                                            .sequences = sequences,
                                            .pages_tokens = pages_tokens,
                                            .threads = 1,
                                            .chunk = 64});
    options.engine = b->c.engine;
    must(mnem_scheduler_create(&options, &b->scheduler));
    memset(b->ask, 0, sizeof b->ask);
}

void serve_close(serve_bench *b) {
    mnem_engine_stats stats;
    mnem_scheduler_destroy(b->scheduler);
    mnem_engine_stats_get(b->c.engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    engine_case_close(&b->c);
}

serve_ask *serve_request(serve_bench *b, int i, int32_t t, int32_t n, int32_t tokens) {
    serve_ask *a = &b->ask[i];
    *a = (serve_ask){.request = {.prompt_tokens = n, .tokens = tokens}};
    for (int32_t k = 0; k < n && k < SERVE_CONTEXT; k++)
        a->prompt[k] = (int32_t)((uint32_t)(k * 7 + t * 31 + k * k * t) % 380);
    serve_ask_set(a);
    return a;
}

mnem_status serve_submit(serve_bench *b, serve_ask *a) {
    return mnem_scheduler_submit(b->scheduler, &a->request, &a->number, NULL);
}

void serve_step(serve_bench *b) {
    bool more;
    must(mnem_scheduler_step(b->scheduler, &more));
}

mnem_scheduler_stats serve_stats(const serve_bench *b) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(b->scheduler, &stats);
    return stats;
}
