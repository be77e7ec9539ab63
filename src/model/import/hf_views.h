/* hf_views.h: makes a tensor from one of a folder's, by the row of its name. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_VIEWS_H
#define MNEM_SRC_MODEL_IMPORT_HF_VIEWS_H

#include "model/import/hf_config.h"

typedef struct mnem__hf_made {
    mnem__view view;
    mnem_type type; /* as stored */
    int dims;
    int64_t shape[4];
} mnem__hf_made;

/* Makes the view of source number index for a row. vocabulary: the rows of an embedding with a
 * token. MNEM_BAD_FILE, MNEM_UNSUPPORTED: the text names the tensor. */
mnem_status mnem__hf_view_make(mnem__folder *folder, const mnem__hf_config *config, uint32_t index,
                               mnem__hf_how how, int64_t vocabulary, mnem__hf_made *made);
/* MNEM_UNSUPPORTED: the type is not that of a weight. */
mnem_status mnem__hf_check_type(const mnem__folder *folder, const mnem__st_tensor *t);
mnem_status mnem__hf_refuse(const mnem__folder *folder, const mnem__st_tensor *t,
                            mnem_status status, const char *text);
/* The factors on source number index, which becomes `to`; *factors NULL: none. MNEM_BAD_FILE: a
 * factor is not a number. The folder owns the factors. */
mnem_status mnem__hf_factors_make(mnem__folder *folder, const mnem__hf_config *config,
                                  const char *to, uint32_t index, const mnem__factors **factors);

#endif
