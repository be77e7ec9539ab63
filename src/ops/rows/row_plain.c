/* row_plain.c: the row kernels compiled for any processor. */
#define MNEM__LANES 0
#include "ops/rows/row_body.h"

const mnem__row_kernels mnem__row_kernels_plain = ROW_KERNELS(plain);
