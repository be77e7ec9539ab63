/* mnem/plan.h: what a plan that doesn't fit its budget says beside the bytes: the option that would
 * help; and how many to run together next, by what was measured. Numbers only: who asked knows how
 * options are called where they were given.
 * Not here: the plans themselves (engine.h, train.h).
 *
 *     if (mnem_engine_plan_make(model, &o, &plan) == MNEM_OVER_BUDGET)
 *         mnem_ledger_budget_set(ledger, plan.needed_bytes); // the least that would do as it is
 *     if (plan.knob.kind == MNEM_KNOB_CONTEXT)
 *         o.context = (int32_t)plan.knob.value;              // or this
 */
#ifndef MNEM_PLAN_H
#define MNEM_PLAN_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mnem_knob_kind {
    MNEM_KNOB_NONE, /* no option alone: a larger budget, or a smaller job */
    /* With this value alone changed it fits. */
    MNEM_KNOB_CHUNK,   /* tokens run together */
    MNEM_KNOB_KV,      /* a mnem_kv_choice */
    MNEM_KNOB_CONTEXT, /* tokens */
    MNEM_KNOB_DEVICES, /* bytes that each device would need more */
    /* With this value it takes less, which may do. */
    MNEM_KNOB_MODEL,       /* a model in a smaller type; no value */
    MNEM_KNOB_MOMENTS,     /* a mnem_moments */
    MNEM_KNOB_MICRO_BATCH, /* sequences run together, at the least */
    MNEM_KNOB_COMPUTE,     /* a mnem_type */
} mnem_knob_kind;

typedef struct mnem_knob {
    mnem_knob_kind kind;
    int64_t value;
} mnem_knob;

/* ---- how many together: sequences of a micro-batch, conversations of a server ----
 *
 * By what was measured with as many as there are now: half as many where the budget is under
 * pressure (above 0.8), half as many more where they don't use the machine (efficiency below 0.6)
 * and there is room. A change that doesn't help is taken back, and that is the end of it; so it
 * ends after few changes, whatever is measured. */
typedef struct mnem_adapt {
    int32_t now;         /* in, out */
    int32_t least, most; /* what may be chosen */
    int32_t divides;     /* not 0: only what divides this is chosen */
    /* its own; zero at first */
    int32_t before;
    double before_pressure, before_rate;
    bool settled;
} mnem_adapt;

typedef struct mnem_load {
    double pressure;   /* bytes that are live, over the budget */
    double efficiency; /* of what the machine could do; 0: not known, and nothing is grown */
    double rate;       /* what is done in a second, in any unit */
} mnem_load;

typedef enum mnem_adapt_step {
    MNEM_ADAPT_KEEP,
    MNEM_ADAPT_LESS,
    MNEM_ADAPT_MORE,
    MNEM_ADAPT_BACK, /* the last change didn't help */
} mnem_adapt_step;
mnem_adapt_step mnem_adapt_next(mnem_adapt *adapt, const mnem_load *load);
/* What next chose can't be had: it is as though it had been taken back. */
void mnem_adapt_refused(mnem_adapt *adapt);

#ifdef __cplusplus
}
#endif
#endif
