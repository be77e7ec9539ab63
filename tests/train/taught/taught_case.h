/* taught_case.h: model files of small trainers, for tests that begin with one or learn from one. */
#ifndef MNEM_TESTS_TRAIN_TAUGHT_TAUGHT_CASE_H
#define MNEM_TESTS_TRAIN_TAUGHT_TAUGHT_CASE_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "train/trainer_case.h"

#define TAUGHT_CASE static inline __attribute__((unused))

/* A path of this process, and the file of the trainer's model there. */
TAUGHT_CASE const char *case_path(const char *name) {
    static char path[4][80];
    static int at;
    char *text = path[at = (at + 1) % 4];
    snprintf(text, sizeof path[0], "/tmp/test_taught.%d.%s", (int)getpid(), name);
    return text;
}

TAUGHT_CASE const char *write_model(mnem_trainer *trainer, mnem_type type, const char *name) {
    const char *path = case_path(name);
    mnem_gguf_writer *writer;
    assert_int_equal(mnem_gguf_create(path, &writer), MNEM_OK);
    if (mnem_trainer_write(trainer, type, writer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
    return path;
}

/* The case's weights of an architecture, in F32. */
TAUGHT_CASE const char *write_case(const char *architecture) {
    const mnem_train_options o = options_of(architecture, NULL);
    made m = make(&o, 0);
    const char *path = write_model(m.trainer, MNEM_TYPE_F32, architecture);
    unmake(&m);
    return path;
}

TAUGHT_CASE mnem_model *open_model(const char *path) {
    mnem_model *model;
    if (mnem_model_open(path, &model) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return model;
}

/* Steps over the case's batch, with the micro-batch of the plan. */
TAUGHT_CASE void run_steps(const made *m, int steps) {
    batch b;
    mnem_train_report report;
    fill_batch(&b, m->plan.micro_batch);
    for (int i = 0; i < steps; i++) {
        b.left = BATCH;
        if (mnem_trainer_step(m->trainer, &(mnem_train_source){next, &b}, &report) != MNEM_OK)
            fail_msg("%s", mnem_last_error());
    }
}

/* A trainer and the model that it learns from. */
typedef struct taught {
    made made;
    mnem_model *model;
} taught;

TAUGHT_CASE taught learn_from(const char *teacher, mnem_train_options o, uint64_t budget) {
    taught t = {.model = open_model(teacher)};
    o.distill.teacher = t.model;
    t.made = make(&o, budget);
    if (mnem_trainer_load_teacher(t.made.trainer, t.model) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return t;
}

TAUGHT_CASE void leave(taught *t) {
    unmake(&t->made);
    mnem_model_close(t->model);
}

/* After so many steps, all weights in one checksum. */
TAUGHT_CASE uint64_t bits_of_steps(const taught *t, int steps) {
    mnem_parameter p;
    uint64_t sum = 0;
    run_steps(&t->made, steps);
    for (int32_t i = 0; mnem_trainer_parameter_get(t->made.trainer, i, &p); i++) {
        const int64_t n = p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
        for (int64_t j = 0; j < n; j++) {
            uint32_t x;
            memcpy(&x, &p.weights[j], sizeof x);
            sum = sum * 1099511628211u + x;
        }
    }
    return sum;
}

#endif
