/* finite.h: finds NaN and infinities in rows and in a model's weights. */
#ifndef MNEM_SRC_MODEL_WEIGHTS_FINITE_H
#define MNEM_SRC_MODEL_WEIGHTS_FINITE_H

#include "mnem/model.h"

bool mnem__is_finite(const float *x, int64_t n);

/* Reads all weights in the order of the file until one isn't finite: MNEM_BAD_FILE names the
 * file and the tensor. MNEM_OK: all are finite. MNEM_IO. MNEM_CANCELLED: *cancel was set, by any
 * thread. Allocates nothing. */
mnem_status mnem__model_check_finite(const mnem_model *model, const int *cancel);

#endif
