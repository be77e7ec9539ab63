/* trainer_waiting.c: fills, adds and clears waiting rows (train_waiting.c explains them). */
#include <string.h>

#include "train/step/trainer_private.h"

float *mnem__trainer_waiting_at(const mnem_trainer *t, int64_t token, const int32_t *ids,
                                int64_t tokens) {
    if (t->rows.waiting != MNEM__TRAIN_WAITING_TOKENS) return t->waiting;
    memcpy(t->tables.waiting + token, ids, (size_t)tokens * sizeof *ids);
    return t->waiting + token * t->setup.shape->t.embd;
}

static void add(const mnem_worker *worker, void *context) {
    const mnem_trainer *t = context;
    const mnem__train_param *p = mnem__train_param_get(t->setup.shape, MNEM__ROLE_EMBEDDING, -1);
    mnem_op_run(&t->add_rows,
                &(mnem_op_args){.tokens = t->rows.rows,
                                .in = {t->waiting},
                                .out = t->gradients + p->gradients,
                                .ids = t->tables.waiting},
                worker);
}

mnem_status mnem__trainer_waiting_add(mnem_trainer *t) {
    if (!t->waiting) return MNEM_OK;
    MNEM__TRY(mnem__trainer_team_run(t, add, t));
    mnem__trainer_waiting_clear(t);
    return MNEM_OK;
}

void mnem__trainer_waiting_clear(mnem_trainer *t) {
    mnem__location_clear(mnem__part_at(&t->taken, MNEM__PART_WAITING),
                         (size_t)(t->rows.rows * t->setup.shape->t.embd) * sizeof(float));
}
