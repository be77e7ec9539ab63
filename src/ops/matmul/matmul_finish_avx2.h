/* matmul_finish_avx2.h: half a group's outputs of one token, for the AVX2 kernels. */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_FINISH_AVX2_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_FINISH_AVX2_H

#include <immintrin.h>

#include "ops/matmul/matmul_kernel.h"

/* Adds bias and what was there to rows 8 * part onwards of a group; writes those that exist. */
static inline __attribute__((always_inline)) void finish(const mnem__matmul_job *job, int64_t group,
                                                         int part, int64_t token, __m256 acc) {
    int64_t row = group * MNEM_PACK_ROWS + 8 * part, left = job->rows - row;
    __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(left > 8   ? 8
                                                         : left < 0 ? 0
                                                                    : (int)left),
                                       _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    if (left <= 0) return;
    float *out = job->out + token * job->out_stride + row;
    if (job->bias) acc = _mm256_add_ps(acc, _mm256_maskload_ps(job->bias + row, lanes));
    if (job->accumulate) acc = _mm256_add_ps(_mm256_maskload_ps(out, lanes), acc);
    _mm256_maskstore_ps(out, lanes, acc);
}

#endif
