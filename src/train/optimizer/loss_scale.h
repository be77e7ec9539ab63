/* loss_scale.h: dynamic loss scaling, for training in f16.
 *
 * Gradients below 6e-8 are zero in f16. So the loss, and with it every gradient, is multiplied by a
 * scale, as large as doesn't overflow: it falls when a gradient isn't finite (that step is left
 * out) and rises again after many good steps (Micikevicius et al., "Mixed precision training",
 * 2018). The optimizer divides it out (mnem__optimizer_update_args.scale).
 * Threads: a plain struct; one thread at a time. It goes into checkpoints as it is.
 *
 *     mnem__loss_scale s = mnem__loss_scale_start(NULL);
 *     ... gradients of loss * s.scale, update with .scale = 1 / s.scale ...
 *     if (mnem__loss_scale_next(NULL, &s, result.applied) != MNEM_OK) stop;
 */
#ifndef MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H
#define MNEM_SRC_TRAIN_OPTIMIZER_LOSS_SCALE_H

#include "mnem/base.h"

/* Zero means default. */
typedef struct mnem__loss_scale_options {
    double start;          /* 65536 */
    double floor;          /* 1 */
    double ceiling;        /* 2^24 */
    double growth;         /* factor after growth_steps good steps in a row: 2 */
    double backoff;        /* factor after an overflow: 0.5 */
    uint32_t growth_steps; /* 2000 */
    uint32_t give_up;      /* overflows in a row at the floor: 10 */
} mnem__loss_scale_options;

typedef struct mnem__loss_scale {
    double scale;
    uint32_t good;     /* steps since the last overflow or growth */
    uint32_t at_floor; /* overflows in a row with the scale at the floor */
    uint64_t skipped;  /* overflows in all */
} mnem__loss_scale;

/* MNEM_INVALID: not 0 < floor <= start <= ceiling, growth < 1, or backoff not in (0, 1]. Powers of
 * two lose no bits. options NULL: the defaults, here and below. */
mnem_status mnem__loss_scale_check(const mnem__loss_scale_options *options);
mnem__loss_scale mnem__loss_scale_start(const mnem__loss_scale_options *options);

/* After a step: finite is whether every gradient was. When not, the step must have been left out.
 * MNEM_OK: go on. MNEM_NOT_READY: give_up overflows in a row at the floor; the run can't recover
 * (the loss itself isn't finite, or the rate is too high), and the text says so. The state is right
 * after both. */
mnem_status mnem__loss_scale_next(const mnem__loss_scale_options *options, mnem__loss_scale *state,
                                  bool finite);

/* MNEM_BAD_FILE when a state, read from a file, can't be one of these options. */
mnem_status mnem__loss_scale_restore(const mnem__loss_scale_options *options,
                                     const mnem__loss_scale *state);

#endif
