/* zeros.h: what a file says of its zeros, and whether another that is made of it may say so too.
 *
 * The key mnem.sparsity.pattern = "2:4" saves a reader from looking at every byte (gguf_sparse.c).
 * It is about the matrices of layers, so it holds as long as their zeros stay where they are and
 * their types have an exact one. */
#ifndef MNEM_SRC_MODEL_CONVERT_ZEROS_H
#define MNEM_SRC_MODEL_CONVERT_ZEROS_H

#include "mnem/model.h"

/* A matrix of a layer, but for those that choose experts: they are small, and decide. */
bool mnem__zeros_are_of(const mnem_tensor_info *tensor);
/* Whether 0 is a number of the type, so that rounding leaves it. */
bool mnem__zeros_fit(mnem_type type);
/* Whether the zeros of a tensor are still there in another type. */
bool mnem__zeros_stay(const mnem_tensor_info *tensor, mnem_type to);

#endif
