/* gemm_pairs.c: see gemm_pairs.h. */
#include "ops/gemm/gemm_pairs.h"

#define MNEM__LANES 0
#define MNEM__PAIRS
#include "ops/core/bf16_dot.h"
#include "ops/core/lanes.h"

enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };

static lanes multiply_add(lanes a, lanes b, lanes c) {
    for (int i = 0; i < LANES; i++) c.v[i] = bf16_dot(a.v[i], b.v[i], c.v[i]);
    return c;
}

#include "ops/gemm/gemm_pack.h"
/* The tiles are of these panels. */
#include "ops/gemm/gemm_level.h"
#include "ops/gemm/gemm_tiles.h"

const mnem__gemm_kernels gemm_pairs = GEMM_KERNELS;
