/* gemm_blocks_avx512.c: products of blocks of whole numbers, tiles of 14 by 32. */
#define MNEM__LANES 512
#define MNEM__GEMM_BLOCKS
enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_blocks_avx512 = GEMM_KERNELS;
