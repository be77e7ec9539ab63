/* loss_scale.c: a state machine of three numbers.
 *
 *              overflow: scale * backoff, not below the floor; good = 0
 *     scale  ------------------------------------------------------------>  at the floor:
 *            <------------------------------------------------------------  at_floor++ ... give up
 *              GROWTH_STEPS good ones: scale * growth, not above the ceiling; good = 0
 *
 * Invariant: floor <= scale <= ceiling; good < GROWTH_STEPS; at_floor > 0 only at the floor. */
#include "train/optimizer/loss_scale.h"

#include <math.h>

#include "base/error.h"

enum { GROWTH_STEPS = 2000, GIVE_UP = 10 }; /* steps without overflow; overflows at the floor */
static const double start = 65536, least = 1, most = 0x1p24, growth = 2, backoff = 0.5;

mnem__loss_scale mnem__loss_scale_start(void) {
    return (mnem__loss_scale){.scale = start};
}

static void grow(mnem__loss_scale *s) {
    s->at_floor = 0;
    if (++s->good < GROWTH_STEPS) return;
    s->scale = fmin(s->scale * growth, most);
    s->good = 0;
}

mnem_status mnem__loss_scale_next(mnem__loss_scale *state, bool finite) {
    if (finite) {
        grow(state);
        return MNEM_OK;
    }
    state->skipped++;
    state->good = 0;
    if (state->scale > least) {
        state->scale = fmax(state->scale * backoff, least);
        return MNEM_OK;
    }
    if (state->at_floor < UINT32_MAX) state->at_floor++;
    if (state->at_floor < GIVE_UP) return MNEM_OK;
    return mnem__fail(MNEM_NOT_READY,
                      "loss scale: %u steps in a row overflowed at the lowest scale, %g: f16 can't "
                      "recover; use a lower learning rate, or bf16",
                      state->at_floor, least);
}

mnem_status mnem__loss_scale_restore(const mnem__loss_scale *state) {
    if (!(state->scale >= least && state->scale <= most) || state->good >= GROWTH_STEPS ||
        (state->at_floor > 0 && state->scale > least))
        return mnem__fail(MNEM_BAD_FILE,
                          "loss scale: the state is invalid: the scale is %g after %u steps "
                          "without overflow and %u overflows at the lowest scale, expected a scale "
                          "of %g to %g and fewer than %u steps without overflow",
                          state->scale, state->good, state->at_floor, least, most,
                          (unsigned)GROWTH_STEPS);
    return MNEM_OK;
}
