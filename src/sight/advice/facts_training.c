/* facts_training.c: facts of a plan of training, and of its neighbours, each with one option
 * changed and the others as they were chosen. */
#include "sight/advice/checks.h"

typedef struct trying {
    const mnem_train_options *options;
    const mnem_train_plan *plan;
    mnem_facts *facts;
} trying;

#define SET(name, value) mnem_facts_set(t->facts, MNEM_FACT_##name, (double)(value))

static mnem_train_options as_chosen(const trying *t) {
    mnem_train_options o = *t->options;
    o.micro_batch = t->plan->micro_batch;
    return o;
}

static void try_peak(const trying *t, const mnem_train_options *o, mnem_fact fact,
                     mnem_train_plan *with) {
    if (mnem_train_plan_make(o, with) == MNEM_OK)
        mnem_facts_set(t->facts, fact, (double)with->peak_bytes);
}

static void try_micro(const trying *t, mnem_train_plan *with) {
    mnem_train_options o = *t->options;
    o.micro_batch = t->plan->micro_batch / 2;
    const int32_t batch = t->plan->micro_batch * t->plan->accumulation;
    if (o.micro_batch >= 1 && batch % o.micro_batch == 0)
        try_peak(t, &o, MNEM_FACT_TRY_MICRO_PEAK, with);
}

static void try_batch(const trying *t, mnem_train_plan *with) {
    mnem_train_options o = *t->options;
    const int32_t batch = t->plan->micro_batch * t->plan->accumulation;
    o.batch = o.micro_batch = batch + batch / 2 + (batch == 1);
    SET(TRY_BATCH, o.batch);
    try_peak(t, &o, MNEM_FACT_TRY_BATCH_PEAK, with);
}

static void try_types(const trying *t, mnem_train_plan *with) {
    mnem_train_options o = as_chosen(t);
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    if (t->options->optimizer.moments != MNEM_MOMENTS_8BIT)
        try_peak(t, &o, MNEM_FACT_TRY_MOMENTS_PEAK, with);
    o = as_chosen(t);
    o.compute = MNEM_TYPE_BF16;
    if (t->options->compute == MNEM_TYPE_F32) try_peak(t, &o, MNEM_FACT_TRY_BF16_PEAK, with);
}

static void try_lora(const trying *t, const mnem_model *base, mnem_train_plan *with) {
    mnem_train_options o = as_chosen(t);
    if (!base || o.lora.rank) return;
    o.lora = (mnem_lora){.rank = 8, .base = base};
    o.masked = false;
    try_peak(t, &o, MNEM_FACT_TRY_LORA_PEAK, with);
}

mnem_status mnem_facts_training(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_facts *facts) {
    const trying all = {options, plan, facts}, *t = &all;
    mnem_train_plan with;
    SET(TRAINING, 1);
    SET(PEAK, plan->peak_bytes);
    if (plan->budget_bytes) SET(BUDGET, plan->budget_bytes);
    SET(MICRO_BATCH, plan->micro_batch);
    SET(BATCH, plan->micro_batch * plan->accumulation);
    SET(THREADS, plan->threads);
    SET(OPTIMIZER, plan->optimizer_bytes);
    SET(GRADIENTS, plan->gradient_bytes);
    SET(MOMENTS_SMALL, options->optimizer.moments == MNEM_MOMENTS_8BIT);
    SET(COMPUTE_F32, options->compute == MNEM_TYPE_F32);
    SET(LORA, options->lora.rank);
    SET(FROM_MODEL, options->lora.base != NULL);
    SET(LAYERS_AGAIN, plan->layers_recomputed);
    if (plan->larger_bytes) {
        SET(TRY_LARGER, plan->larger_bytes);
        SET(TRY_LARGER_COST, plan->larger_cost);
    }
    try_micro(t, &with);
    try_batch(t, &with);
    try_types(t, &with);
    try_lora(t, options->lora.base, &with);
    return MNEM_OK;
}
