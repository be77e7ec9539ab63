/* rewrite.h: what verbs that write a model as another file share. */
#ifndef MNEM_SRC_MODEL_REWRITE_H
#define MNEM_SRC_MODEL_REWRITE_H

#include "mnem/model.h"

/* Keys of the parts that a split model was in don't hold for one file. */
bool mnem__rewrite_drops(const char *key);
/* MNEM_INVALID when writing to `to` would touch a part of the model, by any of its names. */
mnem_status mnem__rewrite_check(const mnem_model *model, const char *to);

#endif
