/* mnem/tensor.h: number types, tensor descriptors, packed weights, and conversion of rows.
 *
 * A descriptor gives type, shape and strides; it owns no memory.
 * Threads: no state; any thread.
 *
 *     mnem_tensor x = mnem_tensor_2d(MNEM_TYPE_F32, tokens, n_embd);
 *     uint64_t bytes = mnem_tensor_bytes(&x);
 */
#ifndef MNEM_TENSOR_H
#define MNEM_TENSOR_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number in GGUF files, elements per block, bytes per block). Types with 0 bytes are not
 * supported; they are listed so that messages can name them. A8: activations, see
 * mnem_type_row_bytes. */
#define MNEM_TYPE_LIST(X)                                                                          \
    X(F32, 0, 1, 4)                                                                                \
    X(F16, 1, 1, 2)                                                                                \
    X(Q4_0, 2, 32, 18)                                                                             \
    X(Q4_1, 3, 32, 20)                                                                             \
    X(Q5_0, 6, 32, 22)                                                                             \
    X(Q5_1, 7, 32, 24)                                                                             \
    X(Q8_0, 8, 32, 34)                                                                             \
    X(Q8_1, 9, 32, 0)                                                                              \
    X(Q2_K, 10, 256, 84)                                                                           \
    X(Q3_K, 11, 256, 110)                                                                          \
    X(Q4_K, 12, 256, 144)                                                                          \
    X(Q5_K, 13, 256, 176)                                                                          \
    X(Q6_K, 14, 256, 210)                                                                          \
    X(Q8_K, 15, 256, 0)                                                                            \
    X(IQ2_XXS, 16, 256, 66)                                                                        \
    X(IQ2_XS, 17, 256, 74)                                                                         \
    X(IQ3_XXS, 18, 256, 98)                                                                        \
    X(IQ1_S, 19, 256, 0)                                                                           \
    X(IQ4_NL, 20, 32, 18)                                                                          \
    X(IQ3_S, 21, 256, 110)                                                                         \
    X(IQ2_S, 22, 256, 82)                                                                          \
    X(IQ4_XS, 23, 256, 136)                                                                        \
    X(I8, 24, 1, 1)                                                                                \
    X(I16, 25, 1, 2)                                                                               \
    X(I32, 26, 1, 4)                                                                               \
    X(I64, 27, 1, 8)                                                                               \
    X(F64, 28, 1, 8)                                                                               \
    X(IQ1_M, 29, 256, 0)                                                                           \
    X(BF16, 30, 1, 2)                                                                              \
    X(TQ1_0, 34, 256, 0)                                                                           \
    X(TQ2_0, 35, 256, 0)                                                                           \
    X(MXFP4, 39, 32, 17)                                                                           \
    X(A8, 1000, 32, 48)

typedef enum mnem_type {
#define MNEM_TYPE_ENUM(name, number, elements, bytes) MNEM_TYPE_##name = number,
    MNEM_TYPE_LIST(MNEM_TYPE_ENUM)
#undef MNEM_TYPE_ENUM
} mnem_type;

typedef struct mnem_type_info {
    const char *name; /* "Q4_K" */
    uint32_t block_elements;
    uint32_t block_bytes; /* 0: not supported */
    bool is_weight;       /* MATMUL accepts weights of this type */
} mnem_type_info;
const mnem_type_info *mnem_type_get(mnem_type type); /* NULL for an unknown number */

/* Bytes of one row of n elements; 0 when n isn't a multiple of the block, or the type is not
 * supported. A row of A8 (any n; the last block is padded with zeros) is blocks of 32 elements,
 * each {f32 scale, int32 -128 sum(q), int32 -128 sum(q of the first 16), f32 -scale sum(q), int8
 * q[32]}, as the kernels need it, rounded up to 64 bytes. */
uint64_t mnem_type_row_bytes(mnem_type type, int64_t n);

typedef enum mnem_layout {
    MNEM_LAYOUT_ROW,    /* element (i, j) at i * stride[0] + j * stride[1] */
    MNEM_LAYOUT_PACKED, /* weights: groups of rows interleaved, see mnem_pack_group */
    MNEM_LAYOUT_SPARSE, /* 2:4 weights, stored without their zeros: see mnem_sparse_group */
} mnem_layout;

enum { MNEM_TENSOR_DIMS = 4 };

/* shape[0] is the slowest dimension (tokens, rows). Strides in bytes; quantized types must be
 * contiguous in the last dimension (stride of a row only). offset: bytes from the pointer given to
 * run. */
typedef struct mnem_tensor {
    mnem_type type;
    mnem_layout layout;
    int dims;
    int64_t shape[MNEM_TENSOR_DIMS];
    int64_t stride[MNEM_TENSOR_DIMS];
    int64_t offset;
} mnem_tensor;

/* Contiguous descriptors, offset 0. */
mnem_tensor mnem_tensor_1d(mnem_type type, int64_t n);
mnem_tensor mnem_tensor_2d(mnem_type type, int64_t rows, int64_t n);
mnem_tensor mnem_tensor_3d(mnem_type type, int64_t a, int64_t b, int64_t n);
mnem_tensor mnem_tensor_packed(mnem_type type, int64_t rows, int64_t n);
mnem_tensor mnem_tensor_sparse(mnem_type type, int64_t rows, int64_t n);
/* A view of the same elements whose d-th dimension is dimension order[d]: {1, 0} transposes a
 * matrix. ROW layout only; order has dims numbers. */
mnem_tensor mnem_tensor_permute(const mnem_tensor *tensor, const int *order);
/* Bytes from the tensor's first to the end of its last element; 0 for an invalid descriptor. */
uint64_t mnem_tensor_bytes(const mnem_tensor *tensor);
bool mnem_tensor_contiguous(const mnem_tensor *tensor);

/* ---- weights: packed once while loading, 16 rows at a time ---- */

enum { MNEM_PACK_ROWS = 16 };

/* Bytes of one packed group of 16 rows of k elements (a multiple of 64); 0 if the type isn't a
 * weight's or k isn't a multiple of the block. A matrix of r rows is ceil(r / 16) consecutive
 * groups. */
uint64_t mnem_pack_group_bytes(mnem_type type, int64_t k);
uint64_t mnem_pack_bytes(mnem_type type, int64_t rows, int64_t k);
/* Packs one group. raw: 1 to 16 contiguous rows as in the file. packed: 64-byte aligned, not
 * overlapping raw; missing rows become zeros. */
void mnem_pack_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed);

/* 2:4 weights: at most two of each 4 elements of a row, aligned to 4, are non-zero. Supported for
 * Q4_0, Q8_0 and F16 with k a multiple of 32; the bytes are 0 for others. Products with such a
 * matrix equal those with the packed one to the bit; for F16 only with finite inputs, and except
 * for the sign of a zero. */
uint64_t mnem_sparse_group_bytes(mnem_type type, int64_t k);
uint64_t mnem_sparse_bytes(mnem_type type, int64_t rows, int64_t k);
/* As mnem_pack_group. False when the rows aren't 2:4; the content of packed is undefined then. */
bool mnem_sparse_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed);
/* Index of the first group of 4 elements with more than two non-zero ones, as the index of its
 * first element; -1: the row (as in the file) is 2:4. */
int64_t mnem_sparse_check(mnem_type type, int64_t k, const void *row);

/* 4-bit weights with separate scales and zero points, as other libraries store them: an element is
 * scale * (q - zero), with one scale and zero point per group of columns of a row. values has two
 * elements in a byte (the even column in the low half), in one of two layouts:
 *   rows    [rows][k / 2]
 *   blocks  [rows / 16, rounded up][k / 16][16][8]: blocks of 16 x 16 elements, consecutive along
 *           k, each row by row; missing rows of the last blocks are ignored */
typedef struct mnem_int4 {
    int64_t rows, k; /* k: a multiple of 32 */
    int64_t group;   /* columns, a multiple of 32 that divides k; 0: k (per-channel scales) */
    bool blocks;
    const uint8_t *values;
    const float *scales; /* [rows, k / group] */
    const float *zeros;  /* the same shape; need not be whole numbers; NULL: 8 everywhere */
} mnem_int4;
/* The type of the packed weights for MATMUL: Q4_1, or Q4_0 where zeros is NULL. */
mnem_type mnem_int4_type(const mnem_int4 *weights);
/* Packs all rows for MATMUL. packed has mnem_pack_bytes(mnem_int4_type(weights), rows, k) bytes and
 * is 64-byte aligned. Scales and scale * zero are rounded to f16. MNEM_INVALID for invalid sizes,
 * or where one of these isn't a finite f16; the content of packed is undefined then. */
mnem_status mnem_pack_int4(const mnem_int4 *weights, void *packed);

/* ---- low-rank products beside a matrix (LOW_RANK and MATMUL in ops.h) ----
 *
 * out [T, rows] += scale B (A x [T, k]), with A [rank, k] and B [rows, rank].
 *
 * B is packed as for MATMUL. So is A, unless its type is F32, F16 or BF16: then it is stored in
 * blocks of 8 rows (the last one may have fewer). Rows are padded with zeros to multiples of 64
 * bytes; a block holds columns 0 to 15 of each of its rows, then columns 16 to 31 of each, ...
 *
 * A matrix may have several products. Each row of a run uses those whose scale for it isn't 0; the
 * others don't read or change the row's numbers. */
typedef struct mnem_low_rank {
    int32_t number; /* index of its scale in mnem_low_rank_rows.scale */
    mnem_type a_type, b_type;
    int64_t rank;
    uint64_t a_offset, b_offset; /* bytes from mnem_low_rank_run.matrices, multiples of 64 */
    float scale;                 /* multiplied by the run's scale */
} mnem_low_rank;
/* Rows [first_row, first_row + rows), and their scales, by mnem_low_rank.number. */
typedef struct mnem_low_rank_rows {
    int32_t first_row, rows;
    const float *scale;
} mnem_low_rank_rows;
/* Rows that aren't listed use no product. No row is listed twice. */
typedef struct mnem_low_rank_run {
    const void *matrices;
    const mnem_low_rank_rows *list; /* [count], ascending */
    int32_t count;
} mnem_low_rank_run;

/* ---- conversion of rows; n must be a multiple of the type's block ---- */
mnem_status mnem_dequantize_row(mnem_type type, int64_t n, const void *row, float *out);
/* To every weight type except IQ2_* and IQ3_* (MNEM_UNSUPPORTED). */
mnem_status mnem_quantize_row(mnem_type type, int64_t n, const float *row, void *out);
/* The same with a weight >= 0 for each element: minimizes sum(weight (x - x')^2) with a finer
 * search. weights NULL: mnem_quantize_row. A good weight of an element is the mean square of the
 * activations that it is multiplied with (imatrix.h). */
mnem_status mnem_quantize_row_weighted(mnem_type type, int64_t n, const float *row,
                                       const float *weights, void *out);

#ifdef __cplusplus
}
#endif
#endif
