/* gemm_avx2.c: products of matrices, tiles of 6 by 16. */
#define MNEM__LANES 2
enum { ROWS = 6, VECTORS = 1, BLOCK_ROWS = 96 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_avx2 = GEMM_KERNELS;
