/* rewrite.h: shared by the verbs that write a model as another file. */
#ifndef MNEM_SRC_MODEL_CONVERT_REWRITE_H
#define MNEM_SRC_MODEL_CONVERT_REWRITE_H

#include "mnem/base.h"
#include "mnem/model.h"

/* The first member of a job. */
typedef struct mnem__rewrite {
    mnem_team *team;
    mnem_gguf_writer *writer;
} mnem__rewrite;
/* Its steps, in this order. */
typedef struct mnem__rewrite_steps {
    mnem_status (*take_buffers)(void *job); /* called with the team; the job frees them */
    mnem_status (*write_keys)(void *job);   /* from here on with the writer */
    mnem_status (*write_tensors)(void *job);
} mnem__rewrite_steps;
/* Runs checks, team, steps and end; `to` appears only when it is complete. threads 0: the
 * processors that this process may use. */
mnem_status mnem__rewrite_run(mnem__rewrite *job, const mnem__rewrite_steps *steps,
                              const mnem_model *model, const char *to, int threads);

/* Whether a key describes only the form of the source: parts, or compact matrices. */
bool mnem__rewrite_drops(const char *key);
/* MNEM_INVALID: writing to `to` would overwrite a part of the model, under any of its names.
 * what: its name in the text, such as "adapter". */
mnem_status mnem__rewrite_check(const mnem_model *model, const char *what, const char *to);

#endif
