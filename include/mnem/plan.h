/* mnem/plan.h: what a plan that doesn't fit its budget says beside the bytes: the option that would
 * help. Data only: who asked knows how options are called where they were given.
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

#ifdef __cplusplus
}
#endif
#endif
