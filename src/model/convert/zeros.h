/* zeros.h: a file's key about its zeros, and whether a converted file may keep it.
 *
 * With the key mnem.sparsity.pattern = "2:4" a reader need not check every byte (gguf_sparse.c).
 * It is about the matrices of layers, so it stays valid as long as their zeros keep their
 * positions and their types represent 0 exactly. */
#ifndef MNEM_SRC_MODEL_CONVERT_ZEROS_H
#define MNEM_SRC_MODEL_CONVERT_ZEROS_H

#include "mnem/model.h"

/* Whether it is a matrix of a layer, except routers, which are small and decisive. */
bool mnem__zeros_are_of(const mnem_tensor_info *tensor);
/* Whether the type represents 0 exactly. */
bool mnem__zeros_fit(mnem_type type);
/* Whether a tensor keeps its zeros in another type. */
bool mnem__zeros_stay(const mnem_tensor_info *tensor, mnem_type to);

#endif
