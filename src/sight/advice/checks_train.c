/* checks_train.c: checks of a training plan or run: batch, types, what is trained. */
#include "sight/advice/checks.h"

static bool pressure(const mnem__checking *c) {
    if (!V(TRAINING) || V(PEAK) <= 0.8 * V(BUDGET) || V(MICRO_BATCH) < 2) return false;
    if (V(TRY_MICRO_PEAK) >= V(PEAK)) return false;
    c->out->severe = V(PEAK) > 0.95 * V(BUDGET);
    mnem__say_evidence(c, "%.0f %% of the budget is used, with %.0f sequences at a time",
                       100 * V(PEAK) / V(BUDGET), V(MICRO_BATCH));
    mnem__say_options(c, "--micro-batch %.0f", (double)((int)V(MICRO_BATCH) / 2));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_MICRO_PEAK), "bytes", "plan");
}

/* What a step does whatever its batch is shared by more sequences. */
static bool efficiency(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (!V(TRAINING) || V(EFFICIENCY) >= 0.6 || V(TRY_BATCH_PEAK) > 0.8 * V(BUDGET)) return false;
    if (V(TRY_BATCH) <= V(BATCH)) return false;
    const double fixed = V(STEP_SECONDS) * (1 - V(EFFICIENCY)), own = V(STEP_SECONDS) - fixed;
    mnem__say_evidence(c,
                       "%.0f %% of a step's time does not depend on the batch; a batch of %.0f "
                       "sequences would take %s",
                       100 * (1 - V(EFFICIENCY)), V(TRY_BATCH), mnem__size(V(TRY_BATCH_PEAK), a));
    mnem__say_options(c, "--batch %.0f --micro-batch %.0f", V(TRY_BATCH), V(TRY_BATCH));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(STEP_SECONDS) / V(BATCH),
                          fixed / V(TRY_BATCH) + own / V(BATCH), "seconds", "history");
}

static bool moments(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (!V(TRAINING) || V(MOMENTS_SMALL) || V(OPTIMIZER) <= 0.4 * V(PEAK)) return false;
    if (V(TRY_MOMENTS_PEAK) >= V(PEAK)) return false;
    mnem__say_evidence(c, "moments are %s, %.0f %% of the peak", mnem__size(V(OPTIMIZER), a),
                       100 * V(OPTIMIZER) / V(PEAK));
    mnem__say_options(c, "--moments 8bit");
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_MOMENTS_PEAK), "bytes", "plan");
}

static bool precision(const mnem__checking *c) {
    if (!V(TRAINING) || !V(COMPUTE_F32) || V(BF16_GAIN) < 1.2 || V(TRY_BF16_PEAK) > V(PEAK))
        return false;
    mnem__say_evidence(c,
                       "activations are f32; bf16 products are %.1f times as fast on this machine",
                       V(BF16_GAIN));
    mnem__say_options(c, "--precision bf16");
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_BF16_PEAK), "bytes", "plan");
}

static bool adapters(const mnem__checking *c) {
    if (!V(TRAINING) || !V(FROM_MODEL) || V(LORA)) return false;
    const double part = (V(OPTIMIZER) + V(GRADIENTS)) / V(PEAK);
    if (part <= 0.5 || V(TRY_LORA_PEAK) >= V(PEAK)) return false;
    mnem__say_evidence(c, "gradients and moments of all weights are %.0f %% of the peak",
                       100 * part);
    mnem__say_options(c, "--lora 8");
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_LORA_PEAK), "bytes", "plan");
}

static bool computed_again(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (!V(TRAINING) || V(LAYERS_AGAIN) <= 0 || V(TRY_LARGER) <= V(BUDGET)) return false;
    if (V(TRY_LARGER) > V(AVAILABLE) || V(TRY_LARGER_COST) >= 0.995) return false;
    mnem__say_evidence(c, "%.0f layers are recomputed to save memory, but the machine has enough",
                       V(LAYERS_AGAIN));
    mnem__say_options(c, "--memory %s", mnem__budget(V(TRY_LARGER), a));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, 1, V(TRY_LARGER_COST), "of a step", "plan");
}

#define F(name) MNEM_FACT_##name
const mnem__check mnem__checks_train[] = {
    MNEM__CHECK(pressure, "training-pressure", "peak / budget above 0.8 in training", F(TRAINING),
                F(PEAK), F(BUDGET), F(MICRO_BATCH), F(TRY_MICRO_PEAK)),
    MNEM__CHECK(efficiency, "training-efficiency",
                "less than 60 % of a step's time depends on its batch, and a larger batch fits",
                F(TRAINING), F(EFFICIENCY), F(STEP_SECONDS), F(BATCH), F(TRY_BATCH),
                F(TRY_BATCH_PEAK), F(BUDGET)),
    MNEM__CHECK(moments, "optimizer-moments", "f32 moments are more than 40 % of the peak",
                F(TRAINING), F(MOMENTS_SMALL), F(OPTIMIZER), F(PEAK), F(TRY_MOMENTS_PEAK)),
    MNEM__CHECK(precision, "precision", "f32 where bf16 is fast", F(TRAINING), F(COMPUTE_F32),
                F(BF16_GAIN), F(PEAK), F(TRY_BF16_PEAK)),
    MNEM__CHECK(adapters, "adapters-suffice",
                "all weights of a model are trained, which takes more than half of the peak",
                F(TRAINING), F(FROM_MODEL), F(LORA), F(OPTIMIZER), F(GRADIENTS), F(PEAK),
                F(TRY_LORA_PEAK)),
    MNEM__CHECK(computed_again, "computed-again",
                "layers are recomputed, and the machine has more memory", F(TRAINING),
                F(LAYERS_AGAIN), F(BUDGET), F(AVAILABLE), F(TRY_LARGER), F(TRY_LARGER_COST)),
    {{.name = NULL}, NULL},
};
