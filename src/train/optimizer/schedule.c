/* schedule.c: the learning rate of each step: a linear warm-up, then half a cosine down.
 *
 * Invariant: a function of the step and the schedule, so a resumed run needs only its step;
 * never above the peak, and after the warm-up never below the floor. */
#include <math.h>

#include "base/error.h"
#include "train/optimizer/optimizer.h"

mnem_status mnem__schedule_check(const mnem_schedule *s) {
    if (!(s->rate_floor >= 0.0 && s->rate_floor <= s->rate_peak && s->rate_peak <= 1e6))
        return mnem__fail(MNEM_INVALID,
                          "schedule: the learning rate goes from %g down to %g, expected a peak of "
                          "at most 1e6 and an end of 0 to the peak",
                          s->rate_peak, s->rate_floor);
    if (s->warmup_steps > s->total_steps)
        return mnem__fail(
            MNEM_INVALID,
            "schedule: the warm-up has %llu steps, expected at most the %llu steps of the run",
            (unsigned long long)s->warmup_steps, (unsigned long long)s->total_steps);
    return MNEM_OK;
}

double mnem__schedule_rate(const mnem_schedule *s, uint64_t step) {
    if (step <= s->warmup_steps && s->warmup_steps > 0)
        return s->rate_peak * (double)step / (double)s->warmup_steps;
    if (step >= s->total_steps) return s->rate_floor;
    const double way =
        (double)(step - s->warmup_steps) / (double)(s->total_steps - s->warmup_steps);
    return s->rate_floor +
           0.5 * (s->rate_peak - s->rate_floor) * (1.0 + cos(3.14159265358979324 * way));
}
