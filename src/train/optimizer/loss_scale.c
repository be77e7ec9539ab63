/* loss_scale.c: a state machine of three numbers.
 *
 *              overflow: scale * backoff, not below the floor; good = 0
 *     scale  ------------------------------------------------------------>  at the floor:
 *            <------------------------------------------------------------  at_floor++ ... give up
 *              growth_steps good ones: scale * growth, not above the ceiling; good = 0
 *
 * Invariant: floor <= scale <= ceiling; good < growth_steps; at_floor > 0 only at the floor. */
#include "train/optimizer/loss_scale.h"

#include <math.h>

#include "base/error.h"

static mnem__loss_scale_options options_of(const mnem__loss_scale_options *given) {
    mnem__loss_scale_options o = given ? *given : (mnem__loss_scale_options){0};
    if (o.start == 0.0) o.start = 65536.0;
    if (o.floor == 0.0) o.floor = 1.0;
    if (o.ceiling == 0.0) o.ceiling = 0x1p24;
    if (o.growth == 0.0) o.growth = 2.0;
    if (o.backoff == 0.0) o.backoff = 0.5;
    if (o.growth_steps == 0) o.growth_steps = 2000;
    if (o.give_up == 0) o.give_up = 10;
    return o;
}

mnem_status mnem__loss_scale_check(const mnem__loss_scale_options *options) {
    const mnem__loss_scale_options o = options_of(options);
    if (!(o.floor > 0.0 && o.floor <= o.start && o.start <= o.ceiling && o.ceiling <= 0x1p120))
        return mnem__fail(MNEM_INVALID, "loss scale: starts at %g, expected %g (floor) to %g",
                          o.start, o.floor, o.ceiling);
    if (!(o.growth >= 1.0 && o.growth <= 1e6 && o.backoff > 0.0 && o.backoff <= 1.0))
        return mnem__fail(MNEM_INVALID, "loss scale: factors %g up and %g down", o.growth,
                          o.backoff);
    return MNEM_OK;
}

mnem__loss_scale mnem__loss_scale_start(const mnem__loss_scale_options *options) {
    return (mnem__loss_scale){.scale = options_of(options).start};
}

static void grow(const mnem__loss_scale_options *o, mnem__loss_scale *s) {
    s->at_floor = 0;
    if (++s->good < o->growth_steps) return;
    s->scale = fmin(s->scale * o->growth, o->ceiling);
    s->good = 0;
}

mnem_status mnem__loss_scale_next(const mnem__loss_scale_options *options, mnem__loss_scale *state,
                                  bool finite) {
    const mnem__loss_scale_options o = options_of(options);
    if (finite) {
        grow(&o, state);
        return MNEM_OK;
    }
    state->skipped++;
    state->good = 0;
    if (state->scale > o.floor) {
        state->scale = fmax(state->scale * o.backoff, o.floor);
        return MNEM_OK;
    }
    if (state->at_floor < UINT32_MAX) state->at_floor++;
    if (state->at_floor < o.give_up) return MNEM_OK;
    return mnem__fail(MNEM_NOT_READY,
                      "loss scale: %u steps in a row overflowed at the floor of %g: f16 can't "
                      "recover (a lower learning rate, or bf16, would)",
                      state->at_floor, o.floor);
}

mnem_status mnem__loss_scale_restore(const mnem__loss_scale_options *options,
                                     const mnem__loss_scale *state) {
    const mnem__loss_scale_options o = options_of(options);
    if (!(state->scale >= o.floor && state->scale <= o.ceiling) || state->good >= o.growth_steps ||
        (state->at_floor > 0 && state->scale > o.floor))
        return mnem__fail(MNEM_BAD_FILE,
                          "loss scale: %g after %u good steps and %u at the floor, expected %g to "
                          "%g and fewer than %u",
                          state->scale, state->good, state->at_floor, o.floor, o.ceiling,
                          o.growth_steps);
    return MNEM_OK;
}
