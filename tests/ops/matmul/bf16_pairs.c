/* bf16_pairs.c: see bf16_pairs.h. */
#include "ops/matmul/bf16_pairs.h"

#include <string.h>

#include "ops/core/bf16_dot.h"

typedef struct vector {
    float lane[16];
} vector;
enum { LANES = 16, SPLIT = 1, TILE = 12, FLIGHT = 4 };

static vector zero(void) {
    return (vector){{0}};
}

static vector splat(float pair) {
    vector v;
    for (int i = 0; i < LANES; i++) memcpy(&v.lane[i], &pair, 4);
    return v;
}

static vector mul_add(vector a, vector b, vector c) {
    for (int i = 0; i < LANES; i++) c.lane[i] = bf16_dot(a.lane[i], b.lane[i], c.lane[i]);
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
