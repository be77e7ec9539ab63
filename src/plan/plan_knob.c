/* plan_knob.c: tries options one after another, each with smaller and smaller values.
 *
 * Cost: a plan's least for each value tried, log2 of them for an option. */
#include "plan/plan_knob.h"

mnem_knob mnem__knob_find(const mnem__knob_range *ranges, int count, mnem__knob_fits *fits,
                          void *owner) {
    for (int i = 0; i < count; i++)
        for (int64_t value = ranges[i].first; value >= ranges[i].least; value /= 2) {
            const mnem_knob knob = {ranges[i].kind, value};
            if (fits(owner, knob)) return knob;
        }
    return (mnem_knob){MNEM_KNOB_NONE, 0};
}
