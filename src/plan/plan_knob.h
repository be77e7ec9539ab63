/* plan_knob.h: the one option that would make a refused plan fit. */
#ifndef MNEM_SRC_PLAN_PLAN_KNOB_H
#define MNEM_SRC_PLAN_PLAN_KNOB_H

#include "mnem/plan.h"

/* The values of an option that are tried: first, then half of the previous value, down to least
 * (1 or more). first below least: no values. */
typedef struct mnem__knob_range {
    mnem_knob_kind kind;
    int64_t first, least;
} mnem__knob_range;

typedef bool mnem__knob_fits(void *owner, mnem_knob knob);
/* The first value that fits, of the first range with one; kind MNEM_KNOB_NONE: none. Ranges are in
 * the order of what a change of the option costs. */
mnem_knob mnem__knob_find(const mnem__knob_range *ranges, int count, mnem__knob_fits *fits,
                          void *owner);

#endif
