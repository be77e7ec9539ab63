/* gemm_blocks_avx2.c: products of blocks of whole numbers, tiles of 2 by 32. */
#define MNEM__LANES 2
#define MNEM__GEMM_BLOCKS
#define MNEM__GEMM_ROW_TILES
/* Rows are shared out one by one, and a worker's go in pairs. */
enum { ROWS = 1, VECTORS = 2, BLOCK_ROWS = 96 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_blocks_avx2 = GEMM_KERNELS;
