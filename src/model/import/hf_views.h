/* hf_views.h: the tensor that is made of one of a folder's, by what its name's row says. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_VIEWS_H
#define MNEM_SRC_MODEL_IMPORT_HF_VIEWS_H

#include "model/import/hf_config.h"

typedef struct mnem__hf_made {
    mnem__view view;
    mnem_type type; /* as it is stored */
    int dims;
    int64_t shape[4];
} mnem__hf_made;

/* Of source number index, which a row of that kind takes. vocabulary: how many rows of an
 * embedding have a token. MNEM_BAD_FILE, MNEM_UNSUPPORTED: the text names the tensor. */
mnem_status mnem__hf_view_make(mnem__folder *folder, const mnem__hf_config *config, uint32_t index,
                               mnem__hf_how how, int64_t vocabulary, mnem__hf_made *made);
/* MNEM_UNSUPPORTED: numbers of a type that no weight has. */
mnem_status mnem__hf_check_type(const mnem__folder *folder, const mnem__st_tensor *t);
mnem_status mnem__hf_refuse(const mnem__folder *folder, const mnem__st_tensor *t,
                            mnem_status status, const char *text);
/* What numbers of source number index, which goes to `to`, are multiplied with; *factors NULL: they
 * stay. MNEM_BAD_FILE: a factor is no number. The factors are the folder's. */
mnem_status mnem__hf_factors_make(mnem__folder *folder, const mnem__hf_config *config,
                                  const char *to, uint32_t index, const mnem__factors **factors);

#endif
