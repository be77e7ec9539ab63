/* tensor_weights.h: the weights of the errors of a tensor's elements, from an importance matrix. */
#ifndef MNEM_SRC_MODEL_CONVERT_TENSOR_WEIGHTS_H
#define MNEM_SRC_MODEL_CONVERT_TENSOR_WEIGHTS_H

#include "mnem/imatrix.h"
#include "mnem/model.h"

/* [matrices, k]; a row's matrix is its number / rows_each. */
typedef struct mnem__tensor_weights {
    float *weight; /* freed by the function below; NULL: all weights are equal */
    int64_t rows_each;
    bool known; /* the importance matrix has the tensor; otherwise all weights are 1 */
} mnem__tensor_weights;

/* Sets the weights to the mean square of each column's inputs. MNEM_INVALID: the number of columns
 * differs. */
mnem_status mnem__tensor_weights_get(const mnem_imatrix *imatrix, const mnem_tensor_info *tensor,
                                     mnem__tensor_weights *weights);
void mnem__tensor_weights_free(mnem__tensor_weights *weights);

/* MNEM_INVALID: the importance matrix has none of the model's tensors. */
mnem_status mnem__tensor_weights_check(const mnem_imatrix *imatrix, const mnem_model *model);

#endif
