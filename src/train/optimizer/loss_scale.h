/* loss_scale.h: dynamic loss scaling, for training in f16.
 *
 * Gradients below 6e-8 are zero in f16. So the loss, and with it every gradient, is multiplied
 * by the largest scale that doesn't overflow: it decreases when a gradient isn't finite (that
 * step is skipped) and increases after many good steps (Micikevicius et al., "Mixed precision
 * training", 2018). The optimizer divides by it (mnem__optimizer_update_args.scale). Threads: a
 * plain struct; one thread at a time. It goes into checkpoints as it is.
 *
 *     mnem__loss_scale s = mnem__loss_scale_start();
 *     ... gradients of loss * s.scale, update with .scale = 1 / s.scale ...
 *     if (mnem__loss_scale_next(&s, result.applied) != MNEM_OK) stop;
 * */
#ifndef MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H
#define MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H

#include "mnem/base.h"

typedef struct mnem__loss_scale {
    double scale;
    uint32_t good;     /* steps since the last overflow or growth */
    uint32_t at_floor; /* successive overflows with the scale at its minimum */
    uint64_t skipped;  /* all overflows */
} mnem__loss_scale;

mnem__loss_scale mnem__loss_scale_start(void);

/* Call it after a step; finite: every gradient was finite, otherwise the caller skipped the
 * step. MNEM_OK: continue. MNEM_NOT_READY: ten successive overflows at the minimum; the run
 * can't recover (the loss isn't finite, or the rate is too high). The state is valid after both. */
mnem_status mnem__loss_scale_next(mnem__loss_scale *state, bool finite);

/* MNEM_BAD_FILE: a state from a file is invalid. */
mnem_status mnem__loss_scale_restore(const mnem__loss_scale *state);

#endif
