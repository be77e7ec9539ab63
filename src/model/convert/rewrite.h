/* rewrite.h: what verbs that write a model as another file share. */
#ifndef MNEM_SRC_MODEL_CONVERT_REWRITE_H
#define MNEM_SRC_MODEL_CONVERT_REWRITE_H

#include "mnem/base.h"
#include "mnem/model.h"

/* What a job begins with. */
typedef struct mnem__rewrite {
    mnem_team *team;
    mnem_gguf_writer *writer;
} mnem__rewrite;
/* Its steps, in this order. */
typedef struct mnem__rewrite_steps {
    mnem_status (*take_buffers)(void *job); /* with the team; the job frees them */
    mnem_status (*write_keys)(void *job);   /* and from here on with the writer */
    mnem_status (*write_tensors)(void *job);
} mnem__rewrite_steps;
/* Checks, team, steps, end; `to` appears when it is whole. threads 0: the processors that this
 * process may use. */
mnem_status mnem__rewrite_run(mnem__rewrite *job, const mnem__rewrite_steps *steps,
                              const mnem_model *model, const char *to, int threads);

/* Keys of how the source is written: in parts, or with compact matrices. */
bool mnem__rewrite_drops(const char *key);
/* MNEM_INVALID when writing to `to` would touch a part of the model ("adapter": what it is called),
 * by any of its names. */
mnem_status mnem__rewrite_check(const mnem_model *model, const char *what, const char *to);

#endif
