/* tensor_weights.h: what the errors of a tensor's elements weigh, by an importance matrix. */
#ifndef MNEM_SRC_MODEL_CONVERT_TENSOR_WEIGHTS_H
#define MNEM_SRC_MODEL_CONVERT_TENSOR_WEIGHTS_H

#include "mnem/imatrix.h"
#include "mnem/model.h"

/* [matrices, k]; a row's matrix is its number / rows_each. */
typedef struct mnem__tensor_weights {
    float *weight; /* to be freed by the one below; NULL: every error weighs the same */
    int64_t rows_each;
    bool known; /* the importance matrix has the tensor; otherwise all are 1 */
} mnem__tensor_weights;

/* The mean square of what each column meets. MNEM_INVALID: the tensor has other columns. */
mnem_status mnem__tensor_weights_get(const mnem_imatrix *imatrix, const mnem_tensor_info *tensor,
                                     mnem__tensor_weights *weights);
void mnem__tensor_weights_free(mnem__tensor_weights *weights);

/* MNEM_INVALID when the importance matrix has none of the model's tensors. */
mnem_status mnem__tensor_weights_check(const mnem_imatrix *imatrix, const mnem_model *model);

#endif
