/* plan_adapt.c: how many to run together next, by pressure and efficiency.
 *
 * Invariant: now stays within [least, most], and each call that changes it either comes nearer to a
 * limit in one direction or settles, so that there are at most about log2(most) changes and one
 * back. */
#include "mnem/plan.h"

static const double pressed = 0.8, idle = 0.6;
static const double felt = 0.02; /* of pressure, and of the rate: less is noise */

/* The nearest that may be chosen from n on, downwards or upwards; 0: there is none. */
static int32_t allowed(const mnem_adapt *a, int32_t n, int32_t step) {
    for (; n >= a->least && n <= a->most; n += step)
        if (!a->divides || a->divides % n == 0) return n;
    return 0;
}

static bool helped(const mnem_adapt *a, const mnem_load *load) {
    if (a->now < a->before)
        return load->pressure <= pressed || load->pressure < a->before_pressure - felt;
    return load->pressure <= pressed && load->rate > (1 + felt) * a->before_rate;
}

static mnem_adapt_step go(mnem_adapt *a, const mnem_load *load, int32_t to, mnem_adapt_step step) {
    if (to <= 0 || to == a->now) {
        a->settled = true;
        return MNEM_ADAPT_KEEP;
    }
    a->before = a->now;
    a->before_pressure = load->pressure;
    a->before_rate = load->rate;
    a->now = to;
    return step;
}

mnem_adapt_step mnem_adapt_next(mnem_adapt *a, const mnem_load *load) {
    if (a->settled || a->now < 1) return MNEM_ADAPT_KEEP;
    const bool fell = a->before > a->now;
    if (a->before && !helped(a, load)) {
        mnem_adapt_refused(a);
        return MNEM_ADAPT_BACK;
    }
    if (load->pressure > pressed) {
        const int32_t half = a->now / 2 > 0 ? a->now / 2 : 1;
        return go(a, load, allowed(a, half, -1), MNEM_ADAPT_LESS);
    }
    if (load->efficiency <= 0 || load->efficiency >= idle || fell) return MNEM_ADAPT_KEEP;
    const int32_t more = a->now + (a->now / 2 > 0 ? a->now / 2 : 1);
    return go(a, load, allowed(a, more, 1), MNEM_ADAPT_MORE);
}

void mnem_adapt_refused(mnem_adapt *a) {
    if (a->before) a->now = a->before;
    a->before = 0;
    a->settled = true;
}
