/* lora_case.h: what tests of adapters share: models, trainers on them, adapters not zero. */
#ifndef MNEM_TESTS_TRAIN_LORA_CASE_H
#define MNEM_TESTS_TRAIN_LORA_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/mnem.h"

#define LORA_CASE static inline __attribute__((unused))

enum { SEQUENCE = 20, VOCAB = 384, RANK = 4 };

LORA_CASE mnem_model *open_model(const char *name) {
    mnem_model *model;
    if (mnem_model_open(name, &model) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return model;
}

/* Tokens below 256. */
LORA_CASE void fill_ids(int32_t *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = (i * 37 + 5) % 256;
}

typedef struct made {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_train_options options;
    mnem_train_plan plan;
    mnem_trainer *trainer;
} made;

/* Ledger, model and options; without a rank, of the whole model. */
LORA_CASE made open_made(const char *model, const mnem_train_options *options, uint64_t budget) {
    made m = {.options = *options, .model = NULL};
    const mnem_ledger_options limit = {.budget_bytes = budget};
    assert_int_equal(mnem_ledger_create(&limit, &m.ledger), MNEM_OK);
    assert_int_equal(mnem_ledger_watch_heap(m.ledger), MNEM_OK);
    m.model = open_model(model);
    m.options.ledger = m.ledger;
    m.options.lora.base = m.model;
    if (!m.options.lora.rank)
        assert_int_equal(mnem_model_transformer(m.model, &m.options.shape), MNEM_OK);
    return m;
}

/* Planned, created and loaded; adapters of seed 7. */
LORA_CASE made make(const char *model, const mnem_train_options *options, uint64_t budget) {
    made m = open_made(model, options, budget);
    if (mnem_train_plan_make(&m.options, &m.plan) != MNEM_OK ||
        mnem_trainer_create(&m.options, &m.plan, &m.trainer) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_trainer_init(m.trainer, 7);
    if (mnem_trainer_load(m.trainer, m.model) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return m;
}

LORA_CASE void unmake(made *m) {
    mnem_trainer_destroy(m->trainer);
    mnem_model_close(m->model);
    assert_int_equal(mnem_ledger_destroy(m->ledger), MNEM_OK);
}

/* B isn't zero any more. */
LORA_CASE void fill_adapters(mnem_trainer *trainer) {
    mnem_parameter p;
    uint32_t state = 1;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        for (int64_t j = 0; strstr(p.name, ".lora_b") && j < p.shape[0] * p.shape[1]; j++) {
            state = state * 1664525u + 1013904223u;
            p.weights[j] = (float)((double)(state >> 8) / 16777216.0 - 0.5) * 0.2f;
        }
}

#endif
