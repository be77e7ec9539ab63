/* adapt.c: under pressure down, with room and little use up, and never in circles.
 *
 * Idea: what was seen under pressure is remembered as one number for each setting of saving: the
 * smallest such batch. Going up stays below it.
 *
 *     batch    1 .... b/2 .... 3/4 b .... b = pressed_at      down to b/2, up to 3/4 b, no further
 *
 * Invariant: saving takes no more memory than not saving, so pressed_at[1] is never below
 * pressed_at[0] (0 counts as no bound): pressure while saving counts for both.
 * Why it ends: between two pressures the configuration only goes up, at most to batch_most; and
 * each pressure, but at the very least, is at a batch below the bound and becomes the bound. From
 * down * b one step reaches up * down * b: bounds fall by that factor (3/4 by default), or by one.
 * Where up * down is 1 or more, a step that would pass the bound is left out all the same. */
#include <math.h>

#include "base/error.h"
#include "plan/adapt.h"

enum { BATCH_MOST = 1 << 20 };

static double or_default(double given, double value) {
    return given != 0 ? given : value;
}

static mnem__adapt_options with_defaults(const mnem__adapt_options *options) {
    mnem__adapt_options o = *options;
    o.pressure_high = or_default(o.pressure_high, 0.8);
    o.efficiency_low = or_default(o.efficiency_low, 0.6);
    o.down = or_default(o.down, 0.5);
    o.up = or_default(o.up, 1.5);
    o.pressure_room = or_default(o.pressure_room, o.pressure_high / o.up);
    if (o.batch_least == 0) o.batch_least = 1;
    if (o.batch_most == 0) o.batch_most = o.batch_least > BATCH_MOST ? o.batch_least : BATCH_MOST;
    return o;
}

static mnem_status check(const mnem__adapt *a, const mnem__adapt_options *o,
                         const mnem__adapt_profile *p) {
    if (!(p->pressure >= 0) || !(p->efficiency >= 0))
        return mnem__fail(MNEM_INVALID, "adapt: pressure %g, efficiency %g: not from 0 on",
                          p->pressure, p->efficiency);
    if (!(o->pressure_high > 0) || !(o->pressure_room > 0) || !(o->efficiency_low > 0) ||
        o->pressure_room > o->pressure_high)
        return mnem__fail(MNEM_INVALID,
                          "adapt: pressure from %g to %g, efficiency %g: out of order",
                          o->pressure_room, o->pressure_high, o->efficiency_low);
    if (!(o->down > 0 && o->down < 1) || !(o->up > 1) || !isfinite(o->up))
        return mnem__fail(MNEM_INVALID, "adapt: factors %g and %g: not below and above 1", o->down,
                          o->up);
    if (o->batch_least < 1 || a->batch < o->batch_least || a->batch > o->batch_most)
        return mnem__fail(MNEM_INVALID, "adapt: a batch of %d, not from %d to %d", a->batch,
                          o->batch_least, o->batch_most);
    return MNEM_OK;
}

static void remember(mnem__adapt *a, bool saving) {
    int32_t *at = &a->pressed_at[saving];
    if (*at == 0 || a->batch < *at) *at = a->batch;
}

static void go_down(mnem__adapt *a, const mnem__adapt_options *o) {
    remember(a, false);
    if (a->saving) remember(a, true);
    const int32_t batch = (int32_t)(a->batch * o->down);
    a->batch = batch < o->batch_least ? o->batch_least : batch;
    a->saving = true;
}

static int32_t larger(const mnem__adapt *a, const mnem__adapt_options *o) {
    const double batch = floor(a->batch * o->up);
    if (batch >= o->batch_most) return o->batch_most;
    return (int32_t)batch > a->batch ? (int32_t)batch : a->batch + 1;
}

/* Takes a configuration above the present one, unless it or a smaller one was under pressure. */
static bool go_up(mnem__adapt *a, int32_t batch, bool saving) {
    const int32_t at = a->pressed_at[saving];
    if (batch == a->batch && saving == a->saving) return false;
    if (at != 0 && batch >= at) return false;
    a->batch = batch;
    a->saving = saving;
    return true;
}

mnem_status mnem__adapt_next(mnem__adapt *adapt, const mnem__adapt_options *options,
                             const mnem__adapt_profile *profile, bool *changed) {
    const mnem__adapt_options o = with_defaults(options);
    const mnem__adapt before = *adapt;
    *changed = false;
    const mnem_status status = check(adapt, &o, profile);
    if (status != MNEM_OK) return status;
    if (profile->pressure > o.pressure_high)
        go_down(adapt, &o);
    else if (profile->efficiency < o.efficiency_low && profile->pressure < o.pressure_room) {
        const int32_t batch = larger(adapt, &o);
        if (!go_up(adapt, batch, false) && adapt->saving && !go_up(adapt, batch, true))
            go_up(adapt, adapt->batch, false);
    }
    *changed = adapt->batch != before.batch || adapt->saving != before.saving;
    return MNEM_OK;
}
