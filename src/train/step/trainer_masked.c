/* trainer_masked.c: weights of a trainer that stay zero (train_mask.c explains why). */
#include "train/program/train_mask.h"
#include "train/step/trainer_private.h"

static void apply(const mnem_worker *worker, void *context) {
    const mnem_trainer *t = context;
    mnem__train_mask_apply(worker, t->setup.shape, t->masks, t->gradients);
}

mnem_status mnem__trainer_mask_apply(mnem_trainer *t) {
    return t->masks ? mnem__trainer_team_run(t, apply, t) : MNEM_OK;
}

mnem_status mnem__trainer_mask_count(mnem_trainer *t, bool find) {
    MNEM__TRY(mnem__device_enter(t->taken.device));
    if (find) mnem__train_mask_find(t->setup.shape, t->weights, t->masks);
    mnem__train_mask_count(t->setup.shape, t->masks, &t->masked);
    mnem__device_leave(t->taken.device);
    return MNEM_OK;
}

mnem_train_masked mnem_trainer_masked(const mnem_trainer *t) {
    return t->masked;
}
