/* serve_bench.h: an engine of a small model of random weights, its scheduler, and requests. */
#ifndef MNEM_TESTS_SERVE_SERVE_BENCH_H
#define MNEM_TESTS_SERVE_SERVE_BENCH_H

#include "serve/serve_case.h"

enum { SERVE_ASKS = 12 };

typedef struct serve_bench {
    engine_case c;
    mnem_scheduler *scheduler;
    serve_ask ask[SERVE_ASKS];
} serve_bench;

/* Of a group of tests: the model, and a serve_bench as their state. */
int serve_set_up(void **state);
int serve_tear_down(void **state);
/* What serve_open opens: the model of serve_set_up, unless a test says otherwise. */
extern const char *serve_model;

/* pages_tokens, sequences: of the engine. options: all but the engine. */
void serve_open(serve_bench *b, int32_t sequences, int32_t pages_tokens,
                mnem_scheduler_options options);
/* Fails where pages are left. */
void serve_close(serve_bench *b);
/* Request i, as new, with a prompt of n tokens of text t. */
serve_ask *serve_request(serve_bench *b, int i, int32_t t, int32_t n, int32_t tokens);
mnem_status serve_submit(serve_bench *b, serve_ask *a);
void serve_step(serve_bench *b);
mnem_scheduler_stats serve_stats(const serve_bench *b);

#endif
