/* facts_training.c: facts of a plan of training, and of its neighbours, each with one option
 * changed and the others as they were chosen. */
#include <math.h>

#include "base/minmax.h"
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

/* Of so many sequences a step's own work is 60 % of it, by what is known of a run. A step is its
 * update, which takes as long for any batch, what goes once through weights and gradients (twice
 * each, a micro-batch), and what each sequence adds; of that the last grows only. A fourth more,
 * since the sequences of a larger batch take less each; at most 16 times as many. */
static int32_t batch_wanted(const trying *t, int32_t batch) {
    enum { MOST = 16 };
    const bool *known = t->facts->known;
    const double *value = t->facts->value;
    if (!known[MNEM_FACT_EFFICIENCY] || !known[MNEM_FACT_STEP_SECONDS] ||
        !known[MNEM_FACT_READ_RATE])
        return batch + batch / 2 + (batch == 1);
    const double step = value[MNEM_FACT_STEP_SECONDS];
    const double update = step * (1 - value[MNEM_FACT_EFFICIENCY]), own = step - update;
    const double passes = 4 * (double)t->plan->gradient_bytes / value[MNEM_FACT_READ_RATE];
    const double pass = mnem__min_f64(passes, 0.8 * own / mnem__max_i32(t->plan->accumulation, 1));
    const double each = (own - pass * t->plan->accumulation) / batch;
    const double wanted = each > 0 ? 1.25 * (1.5 * update - pass) / each : MOST * (double)batch;
    return (int32_t)mnem__min_f64(mnem__max_f64(ceil(wanted), batch + 1), MOST * (double)batch);
}

/* The one that is wanted, or as near to it as four fifths of the budget let. */
static void try_batch(const trying *t, mnem_train_plan *with) {
    mnem_train_options o = *t->options;
    const int32_t batch = t->plan->micro_batch * t->plan->accumulation;
    for (int32_t tried = batch_wanted(t, batch); tried > batch; tried -= (tried - batch + 1) / 2) {
        o.batch = o.micro_batch = tried;
        if (mnem_train_plan_make(&o, with) != MNEM_OK) continue;
        SET(TRY_BATCH, tried);
        SET(TRY_BATCH_PEAK, with->peak_bytes);
        if (!t->plan->budget_bytes || with->peak_bytes <= 0.8 * (double)t->plan->budget_bytes)
            return;
    }
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
