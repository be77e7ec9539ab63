/* folder.h: opens a Hugging Face folder as a model. */
#ifndef MNEM_SRC_MODEL_IMPORT_FOLDER_H
#define MNEM_SRC_MODEL_IMPORT_FOLDER_H

#include "mnem/model.h"

/* Reads config.json, safetensors, tokenizer.json or tokenizer.model, and related files. pre: the
 * name of the pre-tokenizer; NULL: by its definition, which must be known if strict, and is
 * otherwise written as "unknown", which only a tokenizer refuses. MNEM_IO, MNEM_BAD_FILE and
 * MNEM_UNSUPPORTED name file and member. */
mnem_status mnem__folder_open(const char *path, const char *pre, bool strict, mnem_model **model);

#endif
