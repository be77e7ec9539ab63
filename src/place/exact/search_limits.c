/* search_limits.c: when a search has to end.
 *
 * Idea: one answer for three reasons, asked for between pieces of work that take about a
 * millisecond. Steps count work in a way that is the same on every machine.
 * Invariant: once reached, always reached.
 * Cost: a look at the clock. */
#include "place/exact/search_limits.h"

#include "base/clock.h"
#include "base/error.h"

static const double seconds_default = 1;

mnem_status mnem__search_limits_start(const mnem_place_options *options,
                                      mnem__search_limits *limits) {
    if (!(options->seconds >= 0))
        return mnem__fail(MNEM_INVALID, "place: the time limit is %g seconds, expected 0 or more",
                          options->seconds);
    if (options->capacity_bytes > INT64_MAX)
        return mnem__fail(MNEM_INVALID,
                          "place: the capacity is %llu bytes, expected fewer than 2^63",
                          (unsigned long long)options->capacity_bytes);
    const double seconds = options->seconds > 0 ? options->seconds : seconds_default;
    *limits = (mnem__search_limits){.deadline = mnem__seconds() + seconds,
                                    .steps_max = options->steps_max,
                                    .stop = options->stop,
                                    .stop_context = options->stop_context};
    return MNEM_OK;
}

bool mnem__search_limits_check(mnem__search_limits *l, uint64_t steps) {
    l->steps += steps;
    if (l->reached) return true;
    l->reached = (l->steps_max && l->steps >= l->steps_max) || mnem__seconds() > l->deadline ||
                 (l->stop && l->stop(l->stop_context));
    return l->reached;
}

mnem__search_limits mnem__search_limits_share(const mnem__search_limits *l, double share) {
    mnem__search_limits part = *l;
    const double now = mnem__seconds();
    if (part.deadline > now) part.deadline = now + (part.deadline - now) * share;
    if (part.steps_max > part.steps)
        part.steps_max = part.steps + 1 + (uint64_t)((double)(part.steps_max - part.steps) * share);
    return part;
}
