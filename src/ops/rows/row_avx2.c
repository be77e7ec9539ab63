/* row_avx2.c: the row kernels compiled for AVX2. */
#define MNEM__LANES 2
#include "ops/rows/row_body.h"

const mnem__row_kernels mnem__row_kernels_avx2 = ROW_KERNELS(avx2);
