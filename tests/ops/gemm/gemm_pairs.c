/* gemm_pairs.c: see gemm_pairs.h.
 *
 * VDPBF16PS as in bf16_pairs.c: two fused multiply-adds a lane, the upper pair's first; subnormals
 * are zeros going in and coming out. */
#include "ops/gemm/gemm_pairs.h"

#include <math.h>

#define MNEM__LANES 0
#define MNEM__PAIRS
#include "ops/core/lanes.h"

enum { ROWS = 14, VECTORS = 2, BLOCK_ROWS = 112 };

static float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float upper(float pair) {
    return flush(mnem__bits_float(mnem__float_bits(pair) & 0xffff0000));
}

static float lower(float pair) {
    return flush(mnem__bits_float(mnem__float_bits(pair) << 16));
}

static lanes multiply_add(lanes a, lanes b, lanes c) {
    for (int i = 0; i < LANES; i++) {
        const float sum = flush(fmaf(upper(a.v[i]), upper(b.v[i]), flush(c.v[i])));
        c.v[i] = flush(fmaf(lower(a.v[i]), lower(b.v[i]), sum));
    }
    return c;
}

#include "ops/gemm/gemm_pack.h"
/* The tiles are of these panels. */
#include "ops/gemm/gemm_level.h"
#include "ops/gemm/gemm_tiles.h"

const mnem__gemm_kernels gemm_pairs = GEMM_KERNELS;
