/* mnem/tensor.h: types of numbers, tensors as descriptors, packed weights, rows between types.
 *
 * A descriptor says where elements lie; it owns no bytes.
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

/* X(NAME, number in GGUF files, elements per block, bytes per block). The types whose bytes are 0
 * are known by name only, to be refused by name. A8: activations, see mnem_type_row_bytes. */
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
    uint32_t block_bytes; /* 0: known by name only */
    bool is_weight;       /* matmul takes weights of this type */
} mnem_type_info;
const mnem_type_info *mnem_type_get(mnem_type type); /* NULL for an unknown number */

/* Bytes of one row of n elements; 0 when n isn't whole blocks, or the type is known by name only.
 * A8, n elements (n any; the last block is padded with zeros): blocks of 32 elements, each
 * {f32 scale, int32 -128 sum(q), int32 -128 sum(q of the first 16), f32 -scale sum(q), int8 q[32]}:
 * the forms that the kernels want. The bytes of a row are rounded up to 64. */
uint64_t mnem_type_row_bytes(mnem_type type, int64_t n);

typedef enum mnem_layout {
    MNEM_LAYOUT_ROW,    /* element (i, j) at i * stride[0] + j * stride[1] */
    MNEM_LAYOUT_PACKED, /* weights: groups of rows interleaved, see mnem_pack_group */
    MNEM_LAYOUT_SPARSE, /* 2:4 weights, their zeros left out: see mnem_sparse_group */
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
/* The same elements with dimension order[d] as the d-th: {1, 0} is the transposed matrix. Of ROW
 * tensors; order has dims numbers. */
mnem_tensor mnem_tensor_permute(const mnem_tensor *tensor, const int *order);
/* Bytes from the tensor's start to its end; 0 when the descriptor is wrong. */
uint64_t mnem_tensor_bytes(const mnem_tensor *tensor);
bool mnem_tensor_contiguous(const mnem_tensor *tensor);

/* ---- weights: packed once while loading, 16 rows at a time ---- */

enum { MNEM_PACK_ROWS = 16 };

/* Bytes of one packed group of 16 rows of k elements (a multiple of 64); 0 if the type isn't a
 * weight's or k isn't whole blocks. A matrix of r rows is ceil(r / 16) groups in a row. */
uint64_t mnem_pack_group_bytes(mnem_type type, int64_t k);
uint64_t mnem_pack_bytes(mnem_type type, int64_t rows, int64_t k);
/* raw: rows (1 to 16) as in the file, contiguous. packed: 64-byte aligned, not overlapping raw;
 * missing rows become zeros. */
void mnem_pack_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed);

/* 2:4 weights: of each 4 elements of a row, the first at a multiple of 4, at most two aren't zero.
 * Q4_0, Q8_0 and F16, k a multiple of 32; the bytes are 0 for others. Products of such a matrix are
 * those of the packed one to the bit; of F16 while inputs are finite, and but for a zero's sign. */
uint64_t mnem_sparse_group_bytes(mnem_type type, int64_t k);
uint64_t mnem_sparse_bytes(mnem_type type, int64_t rows, int64_t k);
/* As mnem_pack_group; false, and packed is of no use, when the rows aren't 2:4. */
bool mnem_sparse_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed);
/* The first of 4 elements of a row, as in the file, that has more than two; -1: the row is 2:4. */
int64_t mnem_sparse_check(mnem_type type, int64_t k, const void *row);

/* Weights of 4 bits with scales and zeros of their own, as others store them: an element is
 * scale * (q - zero), with one scale and zero for each group of columns of a row. values, two in a
 * byte (the even column in the lower half), in either order:
 *   rows    [rows][k / 2]
 *   blocks  [rows / 16, rounded up][k / 16][16][8]: blocks of 16 x 16, which lie behind each other
 *           along k, one row of a block behind the other; what rows lack in the last is ignored */
typedef struct mnem_int4 {
    int64_t rows, k; /* k: a multiple of 32 */
    int64_t group;   /* columns, a multiple of 32 that divides k; 0: k, one for a row (channel) */
    bool blocks;
    const uint8_t *values;
    const float *scales; /* [rows, k / group] */
    const float *zeros;  /* the same, any number; NULL: 8, the middle */
} mnem_int4;
/* What MATMUL takes packed weights of this kind as: Q4_1, or Q4_0 where zeros is NULL. */
mnem_type mnem_int4_type(const mnem_int4 *weights);
/* Packs all of them once, for MATMUL: packed has mnem_pack_bytes(mnem_int4_type(weights), rows, k)
 * bytes, 64-byte aligned. Scales and scale * zero are rounded to f16. MNEM_INVALID when sizes are
 * wrong or a number isn't one of f16's; what is in packed is then nothing. */
mnem_status mnem_pack_int4(const mnem_int4 *weights, void *packed);

/* ---- rows between types; n is whole blocks ---- */
mnem_status mnem_dequantize_row(mnem_type type, int64_t n, const void *row, float *out);
/* To every type of weights but IQ2_* and IQ3_*: MNEM_UNSUPPORTED for those. */
mnem_status mnem_quantize_row(mnem_type type, int64_t n, const float *row, void *out);
/* The same with a weight for each element, 0 or more: sum(weight (x - x')^2) is what is made small,
 * searched more finely. weights NULL: mnem_quantize_row. What meets an element squared, on average,
 * is a good weight of it (imatrix.h). */
mnem_status mnem_quantize_row_weighted(mnem_type type, int64_t n, const float *row,
                                       const float *weights, void *out);

#ifdef __cplusplus
}
#endif
#endif
