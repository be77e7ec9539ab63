/* lora_steps.h: what tests that train adapters share: models, one batch again and again, steps. */
#ifndef MNEM_TESTS_TRAIN_LORA_STEPS_H
#define MNEM_TESTS_TRAIN_LORA_STEPS_H

#include "kit/kit.h"
#include "train/lora_case.h"

enum { BATCH = 3, TOKENS = BATCH * SEQUENCE };

static const char llama[] = "--arch llama --heads 4 --kv-heads 2 --type F32 --tied";
static const char gpt2[] = "--arch gpt2 --heads 4 --type F32 --tied";
static const char mixed[] = "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --output-type Q4_0";

typedef struct batch {
    int32_t ids[TOKENS], targets[TOKENS];
    int32_t micro_batch, at;
} batch;

LORA_CASE void fill_batch(batch *b, int32_t micro_batch) {
    *b = (batch){.micro_batch = micro_batch};
    fill_ids(b->ids, TOKENS);
    for (int i = 0; i < TOKENS; i++) b->targets[i] = (i * 53 + 11) % 256;
}

LORA_CASE mnem_status next(void *context, mnem_train_batch *out) {
    batch *b = context;
    *out = (mnem_train_batch){b->ids + b->at * SEQUENCE, b->targets + b->at * SEQUENCE,
                              b->micro_batch};
    b->at = (b->at + b->micro_batch) % BATCH;
    return MNEM_OK;
}

LORA_CASE mnem_train_options options_of(int32_t rank) {
    return (mnem_train_options){.lora = {.rank = rank},
                                .sequence = SEQUENCE,
                                .batch = BATCH,
                                .threads = 1,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                                .norm_max = 1};
}

LORA_CASE double gradients(made *m) {
    batch b;
    double loss;
    fill_batch(&b, m->plan.micro_batch);
    if (mnem_trainer_gradients(m->trainer, &(mnem_train_source){next, &b}, &loss) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return loss;
}

LORA_CASE double step(made *m) {
    batch b;
    mnem_train_report report;
    fill_batch(&b, m->plan.micro_batch);
    if (mnem_trainer_step(m->trainer, &(mnem_train_source){next, &b}, &report) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return report.loss;
}

#endif
