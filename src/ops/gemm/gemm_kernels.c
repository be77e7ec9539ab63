/* gemm_kernels.c: products of matrices of f32, compiled once for each level: tiles of 4 by 16 in C,
 * 6 by 16 with AVX2, 14 by 32 with AVX-512.
 *
 * With MNEM__PAIRS they are products of pairs of bf16 (VDPBF16PS), taken where the activations are
 * bf16: weights and gradients of logits, which are f32, are rounded to bf16 while they are packed,
 * so that an output is within 2^-8 of sum |a b| of the exact one. Up to twice as fast as f32 where
 * cpu.c says so. The instruction reads subnormals as zeros. */
#include "ops/core/lanes.h"

#if MNEM__LANES == 512
enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };
#elif MNEM__LANES == 2
enum { ROWS = 6, VECTORS = 1, BLOCK_ROWS = 96 };
#else
enum { ROWS = 4, VECTORS = 1, BLOCK_ROWS = 64 };
#endif

#ifdef MNEM__PAIRS
LANES_INLINE lanes multiply_add(lanes a, lanes b, lanes c) {
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}
#endif

#include "ops/gemm/gemm_pack.h"
/* The tiles are of these panels. */
#include "ops/gemm/gemm_level.h"
#include "ops/gemm/gemm_tiles.h"

const mnem__gemm_kernels MNEM__AT_LEVEL(mnem__gemm) = GEMM_KERNELS;
