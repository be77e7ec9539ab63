/* gemm.h: out (+)= a b for training, [m, k] times [k, n], blocked and packed.
 *
 * The loops are those of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication,
 * 2008), the tiles of registers those of BLIS (Van Zee and van de Geijn 2015):
 *
 *     n: pieces of 2 MiB      k: blocks        a: 96 rows or so, each worker its own
 *     +------+------+       +--------+         +-----+
 *     | out  |      |  (+)= | a      |    x    |  b  |  all members pack it together, as panels
 *     |      |      |       | packed |         +-----+  of a tile's columns, f32, k by k
 *     +------+------+       +--------+
 *
 * Operands of any type become f32 while they are packed; no whole matrix is converted.
 * Where activations are bf16, they become blocks of integers instead (gemm_blocks.h), or pairs
 * of bf16 where the processor can multiply these (gemm_kernels.c).
 *
 * An output is start (the bias, or 0), then one chain of fma over the first k_block steps; chains
 * of later blocks begin at 0 and are added in turn. So the order of additions depends on k and
 * k_block only: not on m, tiles, pieces or the team. Every level gives the same bits, but for
 * pairs of bf16: there both operands are rounded to bf16 while packing. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_H
#define MNEM_SRC_OPS_GEMM_GEMM_H

#include "mnem/ops.h"
#include "ops/core/op_impl.h"

enum { MNEM__GEMM_K_BLOCK_MOST = 1536 };

typedef struct mnem__gemm_matrix {
    mnem_type type;
    const char *data;
    int64_t stride; /* bytes from one row in memory to the next */
    bool across;    /* a row in memory is all indices of one k; otherwise all k of one index */
} mnem__gemm_matrix;

typedef struct mnem__gemm {
    int64_t m, n, k;
    /* At most MNEM__GEMM_K_BLOCK_MOST; a multiple of 256 if b is of a quantized type and not
     * across. */
    int64_t k_block;
    mnem__gemm_matrix a; /* index: row of out. F32, BF16, F16 (or all operands F64) */
    mnem__gemm_matrix b; /* index: column of out. Any weight type too */
    char *out;
    mnem_type out_type; /* F32, BF16, F16 (F64) */
    int64_t out_stride;
    const void *start; /* [n] F32 (F64), or NULL */
    bool accumulate;   /* out is added to */
} mnem__gemm;

/* Indices [index, index + count) and steps [k, k + steps) of a matrix, into panels. */
typedef struct mnem__gemm_part {
    const mnem__gemm_matrix *matrix;
    int64_t index, count, k, steps;
    const float *start; /* b: the row of each panel before step k; of index. NULL: zeros */
    float *to;
    int64_t panel; /* floats from a panel to the next (gemm_row_tiles.h lays a out otherwise) */
} mnem__gemm_part;

/* A block that a worker multiplies at once. */
typedef struct mnem__gemm_block {
    int64_t steps, rows, columns; /* rows and columns of out, any number */
    const float *a, *b;
    int64_t a_panel, b_panel;
    float *partial; /* sums so far, tile after tile; NULL: out has them */
    int64_t partial_panel;
    bool from_partial, to_out, add_out;
    char *out;
    mnem_type out_type;
    int64_t out_stride;
} mnem__gemm_block;

/* s = hard e^(s - largest) + soft e^(factor (s - largest))
 *     - teacher e^(factor (t - teacher_largest)) */
typedef struct mnem__gemm_teach {
    double factor, largest, hard, soft, teacher_largest, teacher;
} mnem__gemm_teach;

/* One per level of the processor, and one of doubles. */
typedef struct mnem__gemm_kernels {
    mnem_type wide;    /* of sums: F32; F64, whose first functions are absent */
    int k_most;        /* steps of a block of k, where it is a dimension of the weights */
    int rows, columns; /* of a tile */
    int block_rows;    /* of a that a worker packs at once, a multiple of rows */
    /* The floats of a panel per index for this many steps of k. */
    int64_t (*panel_rows)(int64_t steps);
    void (*pack_a)(const mnem__gemm_part *part);
    void (*pack_b)(const mnem__gemm_part *part);
    void (*multiply)(const mnem__gemm_block *block);
    /* Of f32 or f64: */
    /* Adds to columns [begin, end) of sums the sum of k rows of a real matrix that lies across. */
    void (*add_columns)(const mnem__gemm_matrix *matrix, int64_t k, int64_t begin, int64_t end,
                        void *sums);
    /* The largest of n, and the sum of e^(factor (x - largest)). A NaN makes the sum NaN. */
    void (*sum_exp)(int64_t n, const void *x, double factor, double *largest, double *sum);
    /* x = e^(x - largest) * factor */
    void (*scale_exp)(int64_t n, void *x, double largest, double factor);
    /* The sum of e^(factor (t - largest)) (t - s). */
    double (*sum_apart)(int64_t n, const void *s, const void *t, double largest, double factor);
    void (*teach_exp)(int64_t n, void *s, const void *t, const mnem__gemm_teach *teach);
    /* out = x, or out + x, rounded to out's type */
    void (*put_row)(int64_t n, const void *x, mnem_type type, void *out, bool add);
} mnem__gemm_kernels;

extern const mnem__gemm_kernels mnem__gemm_plain, mnem__gemm_avx2, mnem__gemm_avx512,
    mnem__gemm_blocks_plain, mnem__gemm_blocks_avx2, mnem__gemm_blocks_avx512,
    mnem__gemm_avx512_bf16, mnem__gemm_f64;

/* Bytes of workspace for products of at most these sizes (pointers are ignored). At most
 * 2.1 MiB (another 2 MiB if out is 16 bits wide and k > k_block) and 0.4 MiB for each worker, in
 * blocks of k_most. 0 for F64. */
uint64_t mnem__gemm_bytes(const mnem__gemm_kernels *kernels, const mnem__gemm *largest,
                          int workers);
/* Called by all members. Synchronizes them inside, but neither at the start nor at the end. Does
 * nothing if m, n or k is 0. */
void mnem__gemm_run(const mnem__gemm_kernels *kernels, const mnem__gemm *gemm, void *workspace,
                    const mnem_worker *worker);
/* A member's part, in doubles. */
void mnem__gemm_f64_run(const mnem__gemm *gemm, const mnem_worker *worker);

/* A member's rectangle of a grid of rows by columns. */
typedef struct mnem__gemm_share {
    int64_t row, row_end, column, column_end;
} mnem__gemm_share;
mnem__gemm_share mnem__gemm_share_get(const mnem_worker *worker, int64_t rows, int64_t columns);

/* Blocks of a reduction over a dimension of the weights: about equal, multiples of unit (32 to
 * 256), at most k_most: 512 steps of f32, 1536 of bf16. */
int64_t mnem__gemm_k_block(const mnem__gemm_kernels *kernels, int64_t k, int64_t unit);

/* An operator's lists of kernels per level (op_impl.h): for f32, for bf16 where activations are,
 * and for f64. */
#define MNEM__GEMM_KERNEL(name, text, run, level)                                                  \
    static const mnem__op_kernel name##_list_##level[] = {                                         \
        {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, text " " #level, run, &mnem__gemm_##level},               \
        {MNEM_TYPE_BF16, MNEM_LAYOUT_ROW, text " blocks " #level, run,                             \
         &mnem__gemm_blocks_##level},                                                              \
        {MNEM_TYPE_F64, MNEM_LAYOUT_ROW, text " f64", run, &mnem__gemm_f64},                       \
    };                                                                                             \
    static const mnem__op_kernels name##_##level = {name##_list_##level, 3};
#if MNEM_X86
#define MNEM__GEMM_KERNELS(name, text, run)                                                        \
    MNEM__GEMM_KERNEL(name, text, run, plain)                                                      \
    MNEM__GEMM_KERNEL(name, text, run, avx2)                                                       \
    MNEM__GEMM_KERNEL(name, text, run, avx512)                                                     \
    static const mnem__op_kernel name##_list_pairs[] = {                                           \
        {MNEM_TYPE_BF16, MNEM_LAYOUT_ROW, text " avx512bf16", run, &mnem__gemm_avx512_bf16}};      \
    static const mnem__op_kernels name##_pairs = {name##_list_pairs, 1};
#define MNEM__GEMM_LEVELS(name)                                                                    \
    { &name##_plain, &name##_avx2, &name##_avx512, &name##_pairs }
#else
#define MNEM__GEMM_KERNELS(name, text, run) MNEM__GEMM_KERNEL(name, text, run, plain)
#define MNEM__GEMM_LEVELS(name)                                                                    \
    { &name##_plain }
#endif

#endif
