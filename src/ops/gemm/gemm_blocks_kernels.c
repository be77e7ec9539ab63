/* gemm_blocks_kernels.c: products of blocks of whole numbers (gemm_blocks.h), compiled once for
 * each level: tiles of 4 by 16 in C, 2 by 32 with AVX2, 14 by 32 with AVX-512. */
#include "ops/core/lanes.h"

#if MNEM__LANES == 512
enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };
#elif MNEM__LANES == 2
#define MNEM__GEMM_ROW_TILES
/* Rows are shared out one by one, and a worker's go in pairs. */
enum { ROWS = 1, VECTORS = 2, BLOCK_ROWS = 96 };
#else
enum { ROWS = 4, VECTORS = 1, BLOCK_ROWS = 64 };
#endif

#include "ops/gemm/gemm_blocks.h"
/* The tiles are of these panels. */
#include "ops/gemm/gemm_level.h"
#ifdef MNEM__GEMM_ROW_TILES
#include "ops/gemm/gemm_row_tiles.h"
#else
#include "ops/gemm/gemm_tiles.h"
#endif

const mnem__gemm_kernels MNEM__AT_LEVEL(mnem__gemm_blocks) = GEMM_KERNELS;
