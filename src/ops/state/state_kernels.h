/* state_kernels.h: what DELTA and SCAN do to a block of a recurrent state for one token, at each
 * level of the processor.
 *
 * A state is a matrix [rows, columns] for each head. Columns don't depend on each other, so a head
 * is cut into blocks of 32 columns (the last one: 16 or 32), each contiguous, and a run passes all
 * its tokens over one block, which stays in the first cache (16 KiB of 128 rows), before the next:
 *
 *     head 0: [rows][32] [rows][32] ..  [rows][16]    head 1: ..     columns past the last are
 *             block 0    block 1        the last                     there, but mean nothing
 *
 * All levels give the same bits. The order of every sum over rows is fixed here: rows i, i + 4,
 * i + 8, ... are added one after another to sum i of 4, rounding once for each (fma); then
 * (0 + 1) + (2 + 3). Nothing else is summed, so the bits don't depend on how a text is cut into
 * runs, on other sequences or on the team. */
#ifndef MNEM_SRC_OPS_STATE_STATE_KERNELS_H
#define MNEM_SRC_OPS_STATE_STATE_KERNELS_H

#include "ops/core/op_impl.h"

enum { MNEM__STATE_COLUMNS = 32, MNEM__STATE_TOKENS = 16 /* prepared together, at most */ };

/* One token of a head and a block of its columns; only count of the last 16 columns are there. */
typedef struct mnem__state_block {
    int64_t rows;
    int width, count; /* columns kept (16 or 32); columns of x and out */
    float *state;
    const float *x; /* [count]: values of DELTA, inputs of SCAN */
    float *out;     /* [count] */
} mnem__state_block;

typedef struct mnem__delta_token {
    const float *k, *q;     /* [rows], normalized; q times the scale */
    const float *decay_k;   /* [rows] decay times k; NULL: the decay is the same for all rows */
    const float *row_decay; /* [rows], with decay_k */
    float decay, beta;
} mnem__delta_token;

typedef struct mnem__scan_token {
    const float *b, *c;      /* [rows] */
    float step, decay, skip; /* of all columns (Mamba 2): s, exp(s A), D */
    /* of each column (Mamba 1) where a isn't NULL: [count] dt, D and bias (or NULL) */
    const float *a; /* [rows, width] log2(e) A */
    const float *dt, *bias, *skips;
} mnem__scan_token;

typedef struct mnem__state_kernels {
    /* out = x / sqrt(x.x + epsilon) * scale; the squares in 16 partial sums. out may be x. */
    void (*unit)(int64_t n, const float *x, float epsilon, float scale, float *out);
    /* out = softplus(x + bias[i] or, with bias_step 0, bias[0]); bias may be NULL. */
    void (*softplus)(int64_t n, const float *x, const float *bias, int bias_step, float *out);
    void (*exp)(int64_t n, const float *x, float factor, float *out); /* e^(factor x) */
    void (*mul)(int64_t n, const float *a, const float *b, float *out);
    void (*sigmoid)(int64_t n, const float *x, float *out);
    void (*delta)(const mnem__state_block *block, const mnem__delta_token *token);
    void (*scan)(const mnem__state_block *block, const mnem__scan_token *token);
} mnem__state_kernels;

extern const mnem__state_kernels mnem__state_kernels_plain, mnem__state_kernels_avx2,
    mnem__state_kernels_avx512;

/* mnem__op_NAME (op_impl.h): one kernel for each level, all of which run the same function. */
#define MNEM__STATE_KERNEL(name, run, level)                                                       \
    static const mnem__op_kernel name##_##level = {                                                \
        MNEM_TYPE_F32, MNEM_LAYOUT_ROW, #name " f32 " #level, run, &mnem__state_kernels_##level};  \
    static const mnem__op_kernels name##_##level##_list = {&name##_##level, 1};
#define MNEM__STATE_TABLE(name, check_it, size_it, ...)                                            \
    const mnem__op_table mnem__op_##name = {                                                       \
        .check = check_it, .key = mnem__state_key, .workspace = size_it, .levels = {__VA_ARGS__}};
#if MNEM_X86
#define MNEM__STATE_OP(name, check_it, size_it, run)                                               \
    MNEM__STATE_KERNEL(name, run, plain)                                                           \
    MNEM__STATE_KERNEL(name, run, avx2)                                                            \
    MNEM__STATE_KERNEL(name, run, avx512)                                                          \
    MNEM__STATE_TABLE(name, check_it, size_it, &name##_plain_list, &name##_avx2_list,              \
                      &name##_avx512_list)
#else
#define MNEM__STATE_OP(name, check_it, size_it, run)                                               \
    MNEM__STATE_KERNEL(name, run, plain)                                                           \
    MNEM__STATE_TABLE(name, check_it, size_it, &name##_plain_list)
#endif

static inline mnem__op_key mnem__state_key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, MNEM_LAYOUT_ROW};
}

#endif
