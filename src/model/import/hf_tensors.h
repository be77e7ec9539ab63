/* hf_tensors.h: converts a folder's tensors to those of a GGUF file. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_TENSORS_H
#define MNEM_SRC_MODEL_IMPORT_HF_TENSORS_H

#include "model/import/hf_config.h"

/* vocabulary: the number of tokens, for families whose matrix may have more rows.
 * MNEM_UNSUPPORTED names a tensor that the family doesn't have, or of an unsupported type. */
mnem_status mnem__hf_put_tensors(mnem__folder *folder, const mnem__hf_config *config,
                                 int64_t vocabulary);
/* A file's general.file_type: by its first matrix; F16 for other types. */
uint32_t mnem__hf_file_type(const mnem__folder *folder);
/* Whether a tensor keeps its type in every file: F32 because of its name and shape, or the type
 * to which it was quantized. */
bool mnem__hf_stays(const mnem_tensor_info *tensor, mnem_type *type);

#endif
