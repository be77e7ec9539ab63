/* gemm_blocks_avx2.c: products of blocks of whole numbers, tiles of 4 by 16. */
#define MNEM__LANES 2
#define MNEM__GEMM_BLOCKS
enum { ROWS = 4, VECTORS = 1, BLOCK_ROWS = 96 };
#include "ops/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_blocks_avx2 = GEMM_KERNELS;
