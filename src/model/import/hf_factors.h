/* hf_factors.h: what numbers of a folder's tensors are multiplied with on the way. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_FACTORS_H
#define MNEM_SRC_MODEL_IMPORT_HF_FACTORS_H

#include "model/import/hf_config.h"

/* Of source number index, which goes to `to`; NULL: they stay. MNEM_BAD_FILE: a factor is no
 * number. The factors are the folder's. */
mnem_status mnem__hf_factors_make(mnem__folder *folder, const mnem__hf_config *config,
                                  const char *to, uint32_t index, const mnem__factors **factors);

#endif
