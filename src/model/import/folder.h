/* folder.h: a folder of Hugging Face's opened as a model. */
#ifndef MNEM_SRC_MODEL_IMPORT_FOLDER_H
#define MNEM_SRC_MODEL_IMPORT_FOLDER_H

#include "mnem/model.h"

/* config.json, safetensors, tokenizer.json or tokenizer.model and what stands beside them. pre: the
 * name of the pre-tokenizer; NULL: by its definition, which must be a known one when strict, and
 * otherwise is written as "unknown", so that only a tokenizer refuses it. MNEM_IO, MNEM_BAD_FILE
 * and MNEM_UNSUPPORTED name file and member. */
mnem_status mnem__folder_open(const char *path, const char *pre, bool strict, mnem_model **model);

#endif
