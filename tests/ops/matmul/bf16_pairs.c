/* bf16_pairs.c: see bf16_pairs.h.
 *
 * VDPBF16PS, after Intel's Software Developer's Manual: in each lane two fused multiply-adds, the
 * upper pair's first; nearest, ties to even; subnormals are zeros going in and coming out. */
#include "ops/matmul/bf16_pairs.h"

#include <math.h>
#include <string.h>

#include "ops/core/half.h"

typedef struct vector {
    float lane[16];
} vector;
enum { LANES = 16, SPLIT = 1, TILE = 12, FLIGHT = 4 };

static float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float upper(float pair) {
    return flush(mnem__bits_float(mnem__float_bits(pair) & 0xffff0000));
}

static float lower(float pair) {
    return flush(mnem__bits_float(mnem__float_bits(pair) << 16));
}

static vector zero(void) {
    return (vector){{0}};
}

static vector splat(float pair) {
    vector v;
    for (int i = 0; i < LANES; i++) memcpy(&v.lane[i], &pair, 4);
    return v;
}

static vector mul_add(vector a, vector b, vector c) {
    for (int i = 0; i < LANES; i++) {
        float sum = flush(fmaf(upper(a.lane[i]), upper(b.lane[i]), flush(c.lane[i])));
        c.lane[i] = flush(fmaf(lower(a.lane[i]), lower(b.lane[i]), sum));
    }
    return c;
}

static vector weight(mnem_type type, const uint8_t *group, int64_t i, int parity, int part) {
    (void)type, (void)parity, (void)part;
    vector v;
    memcpy(&v, group + 64 * i, sizeof v);
    return v;
}

static void finish(const mnem__matmul_job *job, int64_t group, int part, int64_t token,
                   vector acc) {
    (void)part;
    for (int64_t i = 0, row = group * MNEM_PACK_ROWS; i < LANES && row < job->rows; i++, row++) {
        float *out = job->out + token * job->out_stride + row;
        float sum = job->bias ? acc.lane[i] + job->bias[row] : acc.lane[i];
        *out = job->accumulate ? *out + sum : sum;
    }
}

#include "ops/matmul/matmul_float_tiles.h"

PAIR_KERNEL(compute_pairs)

const mnem__matmul_kernel bf16_pairs_kernel = {
    .type = MNEM_TYPE_BF16, .compute = compute_pairs, .rounds_input = true};
