/* plan_knob.h: the one option that would make a refused plan fit. */
#ifndef MNEM_SRC_PLAN_PLAN_KNOB_H
#define MNEM_SRC_PLAN_PLAN_KNOB_H

#include "mnem/plan.h"

/* Values of an option that are tried: the first, then each half of the one before, down to the
 * least, 1 or more. A first below the least: none. */
typedef struct mnem__knob_range {
    mnem_knob_kind kind;
    int64_t first, least;
} mnem__knob_range;

typedef bool mnem__knob_fits(void *owner, mnem_knob knob);
/* The first value that fits, of the first range that has one; kind MNEM_KNOB_NONE: there is none.
 * Ranges come in the order of what changing the option costs. */
mnem_knob mnem__knob_find(const mnem__knob_range *ranges, int count, mnem__knob_fits *fits,
                          void *owner);

#endif
