/* session_case.h: a ledger, a model and a session in one, for tests. */
#ifndef MNEM_TESTS_ENGINE_SESSION_CASE_H
#define MNEM_TESTS_ENGINE_SESSION_CASE_H

#include "mnem/mnem.h"

#define MODEL_F16     MNEM_TEST_DATA "/model/kjv-5m-f16.gguf"
#define MODEL_SHIPPED MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf"
#define MODEL_Q8_0    MODEL_SHIPPED /* of the same shape */
#define MODEL_Q4_0    MNEM_TEST_DATA "/model/kjv-5m-q4_0.gguf"
#define MODEL_Q4_K_M  MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf"

typedef struct session_case {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_session *session;
} session_case;

/* Opens everything; budget 0: none. options->ledger is filled in. On failure everything is closed
 * again and the status returned. */
mnem_status session_case_open(session_case *c, const char *path, uint64_t budget,
                              const mnem_engine_options *options);
void session_case_close(session_case *c);

/* The logits behind the last of n tokens, copied. */
mnem_status session_case_logits(session_case *c, const int32_t *ids, int32_t n, float *logits);
/* Index of the largest; the lowest of equals. */
int32_t argmax(const float *logits, int32_t n);
/* Greedy continuation: evaluates prompt, then count tokens one by one. */
mnem_status session_case_greedy(session_case *c, const int32_t *prompt, int32_t n, int32_t *out,
                                int32_t count);
/* The least budget that does with these options. */
uint64_t session_case_least(const char *path, const mnem_engine_options *options);
/* Any n tokens of the models above. */
void session_case_ids(int32_t *ids, int32_t n);
/* The vocabulary of the open model. */
int32_t session_case_vocab(const session_case *c);

#endif
