/* serve_case.h: requests whose tokens are known, because each was run alone before. */
#ifndef MNEM_TESTS_SERVE_SERVE_CASE_H
#define MNEM_TESTS_SERVE_SERVE_CASE_H

#include "engine/engine_case.h"
#include "kit/kit.h"

enum { SERVE_CONTEXT = 256, SERVE_BIASES = 4 };

/* What came with a token. */
typedef struct serve_told {
    float logprob;
    mnem_token_logprob top[5];
} serve_told;

/* A request, what it should say and what it said. */
typedef struct serve_ask {
    mnem_request request; /* its context is the ask */
    int32_t prompt[SERVE_CONTEXT];
    mnem_logit_bias bias[SERVE_BIASES];
    int32_t want[SERVE_CONTEXT], wanted; /* alone */
    int32_t got[SERVE_CONTEXT];
    serve_told told[SERVE_CONTEXT];
    uint64_t number;
    int stop_after; /* tokens, then on_token says false; 0: never */
    int ends, started, preempted, resumed;
    mnem_request_result result;
    char text[200]; /* of the result */
    mnem_engine *engine;
} serve_ask;

/* Callbacks, and the prompt's place. */
void serve_ask_set(serve_ask *ask);
/* Runs it alone: an engine of one sequence, a sampler of its own. */
void serve_ask_alone(serve_ask *ask, mnem_engine *engine, int32_t vocab);
/* Fails unless it ended once, with what it says alone (a beginning of that where it was cut). */
void serve_ask_check(const serve_ask *ask, const char *what);
/* Steps until nothing is left; fails after so many steps. Returns how many. */
int serve_run(mnem_scheduler *scheduler, int most);

#endif
