/* hessian.c: the upper triangle of X^T X in strips of rows, each one product.
 *
 *     +----+---------+
 *     |////|/////////|  a strip begins at its own column, so half of the square isn't computed
 *     +    +---------+
 *     |    |/////////|
 *
 * Cost: tokens k^2 / 2 multiply-adds. */
#include "compress/solve/hessian.h"

#include "base/minmax.h"
#include "ops/gemm/gemm.h"

enum { STRIP = 512 };

/* Rows [first, first + rows) from column first on. */
static mnem__gemm strip(int64_t first, int64_t tokens, int64_t k, const float *x, int64_t stride,
                        float *h) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const mnem__gemm_matrix columns = {.type = MNEM_TYPE_F32,
                                       .data = x ? (const char *)(x + first) : NULL,
                                       .stride = stride * (int64_t)sizeof(float),
                                       .across = true};
    return (mnem__gemm){.m = mnem__min_i64(STRIP, k - first),
                        .n = k - first,
                        .k = tokens,
                        .k_block = kernels->k_most,
                        .a = columns,
                        .b = columns,
                        .out = h ? (char *)(h + first * k + first) : NULL,
                        .out_type = MNEM_TYPE_F32,
                        .out_stride = k * (int64_t)sizeof(float),
                        .accumulate = true};
}

uint64_t mnem__hessian_bytes(int64_t tokens, int64_t k, int workers) {
    const mnem__gemm largest = strip(0, tokens, k, NULL, k, NULL);
    return mnem__gemm_bytes(MNEM__AT_BEST_LEVEL(mnem__gemm), &largest, workers);
}

void mnem__hessian_add(int64_t tokens, int64_t k, const float *x, int64_t stride, float *h,
                       void *workspace, const mnem_worker *worker) {
    if (tokens <= 0) return;
    for (int64_t first = 0; first < k; first += STRIP) {
        const mnem__gemm product = strip(first, tokens, k, x, stride, h);
        if (first > 0) mnem_team_barrier(worker);
        mnem__gemm_run(MNEM__AT_BEST_LEVEL(mnem__gemm), &product, workspace, worker);
    }
}
