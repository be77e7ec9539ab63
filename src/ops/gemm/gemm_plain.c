/* gemm_plain.c: products of matrices, tiles of 4 by 16. */
#define MNEM__LANES 0
enum { ROWS = 4, VECTORS = 1, BLOCK_ROWS = 64 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_plain = GEMM_KERNELS;
