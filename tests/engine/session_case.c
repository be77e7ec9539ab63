/* session_case.c: a ledger, a model and a session in one, for tests. */
#include "engine/session_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mnem_status session_case_open(session_case *c, const char *path, uint64_t budget,
                              const mnem_engine_options *options) {
    *c = (session_case){0};
    mnem_status status =
        mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &c->ledger);
    if (status == MNEM_OK) status = mnem_ledger_watch_heap(c->ledger);
    if (status == MNEM_OK) status = mnem_model_open(path, &c->model);
    if (options) c->options = *options;
    c->options.ledger = c->ledger;
    if (status == MNEM_OK) status = mnem_engine_plan_make(c->model, &c->options, &c->plan);
    if (status == MNEM_OK)
        status = mnem_session_create(c->model, &c->options, &c->plan, &c->session);
    if (status != MNEM_OK) session_case_close(c);
    return status;
}

void session_case_close(session_case *c) {
    const mnem_engine_plan plan = c->plan;
    mnem_session_destroy(c->session);
    mnem_model_close(c->model);
    if (mnem_ledger_destroy(c->ledger) != MNEM_OK) {
        fprintf(stderr, "session_case: %s\n", mnem_last_error());
        abort(); /* something was left behind */
    }
    *c = (session_case){.plan = plan};
}

uint64_t session_case_least(const char *path, const mnem_engine_options *options) {
    session_case c;
    if (session_case_open(&c, path, 1 << 19, options) != MNEM_OVER_BUDGET) abort();
    return c.plan.needed_bytes;
}

void session_case_ids(int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++) ids[i] = (i * 53 + 7) % 2047;
}

int32_t session_case_vocab(const session_case *c) {
    mnem_transformer t = {0};
    mnem_model_transformer(c->model, &t);
    return t.vocab;
}

typedef struct copy {
    float *out;
    int32_t n;
} copy;

static bool copy_logits(void *context, int32_t index, const float *logits) {
    (void)index;
    const copy *to = context;
    memcpy(to->out, logits, (size_t)to->n * sizeof *logits);
    return true;
}

mnem_status session_case_logits(session_case *c, const int32_t *ids, int32_t n, float *logits) {
    copy to = {logits, session_case_vocab(c)};
    return mnem_session_eval(c->session, ids, n, n - 1, copy_logits, &to);
}

int32_t argmax(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

mnem_status session_case_greedy(session_case *c, const int32_t *prompt, int32_t n, int32_t *out,
                                int32_t count) {
    const int32_t vocab = session_case_vocab(c);
    float *logits = calloc((size_t)vocab, sizeof *logits);
    mnem_status status = session_case_logits(c, prompt, n, logits);
    for (int32_t i = 0; i < count && status == MNEM_OK; i++) {
        out[i] = argmax(logits, vocab);
        if (i + 1 < count) status = session_case_logits(c, &out[i], 1, logits);
    }
    free(logits);
    return status;
}
