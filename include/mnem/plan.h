/* mnem/plan.h: advice for a plan that doesn't fit its budget: the option that would help, besides
 * the bytes; and the choice of how many sequences to run together next, from measurements. Values
 * only: the caller knows the names of its own options.
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
    MNEM_KNOB_NONE, /* no single option helps: a larger budget or a smaller job does */
    /* The plan fits if only this option gets the value. */
    MNEM_KNOB_CHUNK,   /* tokens run together */
    MNEM_KNOB_KV,      /* a mnem_kv_choice */
    MNEM_KNOB_CONTEXT, /* tokens */
    MNEM_KNOB_DRAFT,   /* tokens of a draft; 0: none */
    MNEM_KNOB_DEVICES, /* bytes that each device lacks */
    /* This value takes less memory, which may be enough. */
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
 * The choice follows measurements with the present number: half as many when the budget is under
 * pressure (above 0.8), half as many more when the machine isn't fully used (efficiency below 0.6)
 * and there is room. A change that doesn't help is reverted, and no further change is made; so it
 * settles after few changes, whatever is measured. */
typedef struct mnem_adapt {
    int32_t now;         /* in, out */
    int32_t least, most; /* limits of the choice */
    int32_t divides;     /* not 0: only divisors of this are chosen */
    /* internal; zero at first */
    int32_t before;
    double before_pressure, before_rate;
    bool settled;
} mnem_adapt;

typedef struct mnem_load {
    double pressure;   /* live bytes divided by the budget */
    double efficiency; /* fraction of the machine's capacity; 0: not known, no growth */
    double rate;       /* throughput, in any unit per second */
} mnem_load;

typedef enum mnem_adapt_step {
    MNEM_ADAPT_KEEP,
    MNEM_ADAPT_LESS,
    MNEM_ADAPT_MORE,
    MNEM_ADAPT_BACK, /* the last change didn't help */
} mnem_adapt_step;
mnem_adapt_step mnem_adapt_next(mnem_adapt *adapt, const mnem_load *load);
/* The choice of mnem_adapt_next is not possible: treats it as reverted. */
void mnem_adapt_refused(mnem_adapt *adapt);

#ifdef __cplusplus
}
#endif
#endif
