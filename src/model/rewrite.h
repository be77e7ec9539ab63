/* rewrite.h: what verbs that write a model as another file share. */
#ifndef MNEM_SRC_MODEL_REWRITE_H
#define MNEM_SRC_MODEL_REWRITE_H

#include "mnem/model.h"
#include "mnem/team.h"

/* The order of work of those: what is there when a step is called was made by those before it. */
typedef struct mnem__rewrite {
    const mnem_model *model;
    const char *to;
    int threads; /* 0: the processors this process may use */
    /* Steps of the caller's job: a context that begins with this. It frees its own buffers. */
    mnem_status (*take_buffers)(void *job), (*write_keys)(void *job), (*write_tensors)(void *job);
    /* made here */
    mnem_team *team;
    mnem_gguf_writer *writer;
} mnem__rewrite;
/* Checks, team, buffers, file, keys, tensors, end; `to` appears when it is whole. */
mnem_status mnem__rewrite_run(mnem__rewrite *rewrite);

/* Keys of the parts that a split model was in don't hold for one file. */
bool mnem__rewrite_drops(const char *key);
/* MNEM_INVALID when writing to `to` would touch a part of the model, by any of its names. */
mnem_status mnem__rewrite_check(const mnem_model *model, const char *to);

#endif
