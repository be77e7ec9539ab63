/* trainer_case.c: small trainers for tests, with the weights and tokens of the stored reference. */
#include "train/trainer_case.h"

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"

static uint64_t hash(uint64_t i) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill_weights(mnem_trainer *trainer) {
    mnem_parameter p;
    uint64_t at = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++) {
        const bool bias = strstr(p.name, ".bias") != NULL;
        const bool norm = !bias && strstr(p.name, "norm") != NULL;
        const float size = bias ? 0.1f : norm ? 0.2f : 0.3f, plus = norm ? 1.0f : 0.0f;
        const int64_t count = p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
        for (int64_t j = 0; j < count; j++)
            p.weights[j] = plus + size * (float)((double)(hash(at++) >> 40) / 8388608.0 - 1.0);
    }
}

void fill_batch(batch *b, int32_t micro_batch) {
    *b = (batch){.micro_batch = micro_batch, .left = INT32_MAX};
    for (uint64_t i = 0; i < TOKENS; i++) {
        b->ids[i] = (int32_t)(hash(((uint64_t)1 << 32) + i) % VOCAB);
        b->targets[i] = (int32_t)(hash(((uint64_t)1 << 33) + i) % VOCAB);
    }
}

mnem_status next(void *context, mnem_train_batch *out) {
    batch *b = context;
    if (b->left < 1) return MNEM_NOT_FOUND;
    const int32_t n = b->left < b->micro_batch ? b->left : b->micro_batch;
    b->left -= n;
    *out = (mnem_train_batch){b->ids + b->at * SEQUENCE, b->targets + b->at * SEQUENCE, n};
    b->at = (b->at + b->micro_batch) % BATCH;
    return MNEM_OK;
}

static mnem_transformer shape_of(const char *architecture) {
    mnem_transformer t = {.layers = 2,
                          .embd = 32,
                          .heads = 4,
                          .kv_heads = !strcmp(architecture, "gpt2") ? 4 : 2,
                          .head_dim = 8,
                          .ff = 48,
                          .vocab = VOCAB,
                          .context = 24,
                          .epsilon = 1e-5f,
                          .rope = {.dims = 8, .base = 10000}};
    snprintf(t.architecture, sizeof t.architecture, "%s", architecture);
    return t;
}

mnem_train_options options_of(const char *architecture, mnem_ledger *ledger) {
    return (mnem_train_options){.ledger = ledger,
                                .shape = shape_of(architecture),
                                .sequence = SEQUENCE,
                                .batch = BATCH,
                                .threads = 1,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                                .norm_max = 1,
                                .optimizer.weight_decay = 0.1};
}

mnem_ledger *ledger_new(uint64_t budget) {
    mnem_ledger *ledger;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    assert_int_equal(mnem_ledger_watch_heap(ledger), MNEM_OK);
    return ledger;
}

made make(const mnem_train_options *options, uint64_t budget) {
    made m = {.ledger = ledger_new(budget)};
    mnem_train_options o = *options;
    o.ledger = m.ledger;
    if (mnem_train_plan_make(&o, &m.plan) != MNEM_OK) fail_msg("%s", mnem_last_error());
    if (mnem_trainer_create(&o, &m.plan, &m.trainer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    fill_weights(m.trainer);
    return m;
}

void unmake(made *m) {
    mnem_trainer_destroy(m->trainer);
    assert_int_equal(mnem_ledger_destroy(m->ledger), MNEM_OK);
}

int64_t count_of(const mnem_trainer *trainer) {
    mnem_parameter p;
    int64_t count = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        count += p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
    return count;
}
