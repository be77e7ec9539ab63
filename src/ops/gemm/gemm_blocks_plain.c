/* gemm_blocks_plain.c: products of blocks of whole numbers, tiles of 4 by 16. */
#define MNEM__LANES 0
#define MNEM__GEMM_BLOCKS
enum { ROWS = 4, VECTORS = 1, BLOCK_ROWS = 64 };
#include "ops/gemm/gemm_body.h"

const mnem__gemm_kernels mnem__gemm_blocks_plain = GEMM_KERNELS;
