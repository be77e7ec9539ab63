/* matmul_finish_avx512.h: a group's outputs of one token, for the AVX-512 kernels of floats. */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_FINISH_AVX512_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_FINISH_AVX512_H

#include <immintrin.h>

#include "ops/matmul/matmul_kernel.h"

/* Adds bias and what was there; writes the rows that exist. */
static inline __attribute__((always_inline)) void finish(const mnem__matmul_job *job, int64_t group,
                                                         int part, int64_t token, __m512 acc) {
    int64_t row = group * MNEM_PACK_ROWS, left = job->rows - row;
    __mmask16 lanes = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
    float *out = job->out + token * job->out_stride + row;
    (void)part;
    if (job->bias) acc = _mm512_add_ps(acc, _mm512_maskz_loadu_ps(lanes, job->bias + row));
    if (job->accumulate) acc = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), acc);
    _mm512_mask_storeu_ps(out, lanes, acc);
}

#endif
