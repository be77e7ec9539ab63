/* row_avx512.c: the row kernels compiled for AVX-512. */
#define MNEM__LANES 512
#include "ops/rows/row_body.h"

const mnem__row_kernels mnem__row_kernels_avx512 = ROW_KERNELS(avx512);
