/* matmul_kernel.h: the interface of MATMUL's kernels, for a worker's groups of rows.
 *
 * Each output is one sum over k in order. Quantized weights, per block of 32 (half h: 16 elements,
 * only for types with two scales; sums of integers are exact):
 *     i = sum(q_weight * q_input) + (start >> shift)         start >> shift == -zero * sum(q_input)
 *     f = scale * i            or   f = fma(scale[1], i[1], scale[0] * i[0])
 *     with two minimums: f = fma(min[h] / 128, -128 * sum(q_input of half h), f), h = 0, then 1
 *     acc = fma(f, input scale, acc);  with one minimum: acc = fma(min, minus_sum, acc)
 * Float weights: acc = fma(weight, input, acc). Every kernel does exactly this, whatever its tiles,
 * so all of them give the same bits. Then bias is added, then what out held.
 *
 * 2:4 weights (sparse_form.h) leave out products with zeros: none of them changes a sum of
 * integers, nor one of floats while inputs are finite, but for the sign of a zero.
 *
 * One kernel stands apart: where the processor multiplies pairs of bf16, BF16 weights meet inputs
 * rounded to bf16 (8 bits; nearest, ties to even; about 3.39e38 and more become infinities). Its
 * bits too depend on the numbers only, not on the shape. From the exact product they are at most
 *     sum(2^-8 |weight * input| + 2^-126 (1 + |weight| + |input|))
 * and the rounding of f32 sums: the first term is the rounded input, the second subnormals, which
 * count as zeros. For random numbers the difference is 0.17 % of the product. */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_KERNEL_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_KERNEL_H

#include "ops/core/a8.h"
#include "ops/core/op_impl.h"
#include "ops/core/pack_form.h"

/* Before a loop whose count is a constant after inlining: arrays indexed by it become registers. */
#if defined(__clang__)
#define MNEM__UNROLL _Pragma("clang loop unroll(full)")
#else
#define MNEM__UNROLL _Pragma("GCC unroll 48")
#endif

typedef struct mnem__matmul_job {
    const uint8_t *weights; /* the first group */
    int64_t group_bytes, k;
    int64_t rows;         /* from the first group's first row on; the last group may be short */
    const uint8_t *input; /* rows of A8, f32 or bf16 */
    int64_t input_stride; /* bytes */
    int64_t tokens;
    float *out;         /* the first group's first column */
    int64_t out_stride; /* floats */
    const float *bias;  /* the first row's, or NULL */
    bool accumulate;
    bool lifted; /* A8 whose q have 128 added, as unsigned bytes (lifts_from) */
    /* Lines of other matrices to fetch into the L2 cache, so many with each block of a group. */
    const uint8_t *const *lines;
    int64_t line_count, lines_each; /* 0: none; only where the kernel fetches */
} mnem__matmul_job;

typedef struct mnem__matmul_kernel {
    mnem_type type;
    void (*compute)(const mnem__matmul_job *job);
    mnem__a8_quantize *quantize; /* of the same level */
    bool rounds_input;           /* compute reads rows of bf16, padded with a zero to a pair */
    int32_t lifts_from;          /* from this number of tokens on, inputs are lifted; 0: never */
    bool fetches;                /* compute reads job.lines */
} mnem__matmul_kernel;

static inline int64_t mnem__matmul_groups(const mnem__matmul_job *job) {
    return (job->rows + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS;
}

/* The number of tokens (whole tiles) to do for all groups before the next: as many as fit the L2
 * cache. */
static inline int64_t mnem__token_step(const mnem__matmul_job *job, int tile) {
    const int64_t row = job->input_stride > 64 ? job->input_stride : 64;
    const int64_t tiles = (768 << 10) / (row * tile);
    return tile * (tiles < 1 ? 1 : tiles > 8 ? 8 : tiles);
}

/* log2(128 / zero), for `start >> shift`. */
static inline int mnem__start_shift(int zero) {
    return zero == 4 ? 5 : zero == 8 ? 4 : zero == 16 ? 3 : zero == 32 ? 2 : 0;
}

/* The best kernel of the current level for dense weights; NULL: not a weight's type. */
const mnem__matmul_kernel *mnem__matmul_kernel_get(mnem_type type);
/* The type of a kernel's input: A8, F32 or BF16. */
mnem_type mnem__matmul_ready_type(const mnem__matmul_kernel *kernel);
/* Writes blocks of 32 elements [block, block + blocks) of a row of n in that type; x: those
 * elements. */
void mnem__matmul_ready(const mnem__matmul_kernel *kernel, const float *x, int64_t n, int64_t block,
                        int64_t blocks, void *row);

/* Narrows a job to groups [begin, end). */
void mnem__matmul_take_groups(mnem__matmul_job *job, int64_t begin, int64_t end);
/* Heads that have rows of their own (matmul_heads.c). */
mnem_status mnem__matmul_check_heads(const mnem_op_desc *desc);
uint64_t mnem__matmul_heads_workspace(const mnem_op *op);
mnem__op_run mnem__matmul_run_heads;

/* The lists of each level, and the function that runs them all. */
mnem__op_run mnem__matmul_run;
extern const mnem__op_kernels mnem__matmul_plain, mnem__matmul_avx2, mnem__matmul_avx512,
    mnem__matmul_avx512_bf16;

/* F32, F16, BF16, from files of their own. */
extern const mnem__matmul_kernel mnem__matmul_floats_avx2[3], mnem__matmul_floats_avx512[3];
/* 2:4 weights: Q4_0, Q8_0, F16. */
extern const mnem__matmul_kernel mnem__matmul_sparse_avx2[3], mnem__matmul_sparse_avx512[3];

#endif
