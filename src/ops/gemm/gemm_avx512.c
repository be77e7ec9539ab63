/* gemm_avx512.c: products of matrices, tiles of 14 by 32. */
#define MNEM__LANES 512
enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_avx512 = GEMM_KERNELS;
