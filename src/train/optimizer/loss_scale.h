/* loss_scale.h: dynamic loss scaling, for training in f16.
 *
 * Gradients below 6e-8 are zero in f16. So the loss, and with it every gradient, is multiplied by a
 * scale, as large as doesn't overflow: it falls when a gradient isn't finite (that step is left
 * out) and rises again after many good steps (Micikevicius et al., "Mixed precision training",
 * 2018). The optimizer divides it out (mnem__optimizer_update_args.scale).
 * Threads: a plain struct; one thread at a time. It goes into checkpoints as it is.
 *
 *     mnem__loss_scale s = mnem__loss_scale_start();
 *     ... gradients of loss * s.scale, update with .scale = 1 / s.scale ...
 *     if (mnem__loss_scale_next(&s, result.applied) != MNEM_OK) stop;
 */
#ifndef MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H
#define MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H

#include "mnem/base.h"

typedef struct mnem__loss_scale {
    double scale;
    uint32_t good;     /* steps since the last overflow or growth */
    uint32_t at_floor; /* overflows in a row with the scale at the floor */
    uint64_t skipped;  /* overflows in all */
} mnem__loss_scale;

mnem__loss_scale mnem__loss_scale_start(void);

/* After a step: finite is whether every gradient was. When not, the step must have been left out.
 * MNEM_OK: go on. MNEM_NOT_READY: ten overflows in a row at the floor; the run can't recover
 * (the loss itself isn't finite, or the rate is too high), and the text says so. The state is right
 * after both. */
mnem_status mnem__loss_scale_next(mnem__loss_scale *state, bool finite);

/* MNEM_BAD_FILE when a state, read from a file, can't be one of a run. */
mnem_status mnem__loss_scale_restore(const mnem__loss_scale *state);

#endif
