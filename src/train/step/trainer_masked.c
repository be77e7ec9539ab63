/* trainer_masked.c: weights of a trainer that stay zero (train_mask.c says why they do). */
#include "train/program/train_mask.h"
#include "train/step/trainer_private.h"

static void apply(const mnem_worker *worker, void *context) {
    const mnem_trainer *t = context;
    mnem__train_mask_apply(worker, t->setup.shape, t->masks, t->gradients);
}

void mnem__trainer_mask_apply(mnem_trainer *t) {
    if (t->masks) mnem_team_run(t->team, apply, t);
}

mnem_train_masked mnem_trainer_masked(const mnem_trainer *t) {
    return t->masked;
}
