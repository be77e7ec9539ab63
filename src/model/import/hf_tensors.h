/* hf_tensors.h: a folder's tensors as those of a GGUF file. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_TENSORS_H
#define MNEM_SRC_MODEL_IMPORT_HF_TENSORS_H

#include "model/import/hf_config.h"

/* vocabulary: tokens that there are, for families whose matrix may have more rows. MNEM_UNSUPPORTED
 * names a tensor that the family has no place for, or of a type that isn't read. */
mnem_status mnem__hf_put_tensors(mnem__folder *folder, const mnem__hf_config *config,
                                 int64_t vocabulary);
/* A file's general.file_type: of its first matrix, F16 for other types. */
uint32_t mnem__hf_file_type(const mnem__folder *folder);
/* Whether a tensor has a type of its own in files of all types: F32 by its name and shape, or that
 * which it was quantized to. */
bool mnem__hf_stays(const mnem_tensor_info *tensor, mnem_type *type);

#endif
