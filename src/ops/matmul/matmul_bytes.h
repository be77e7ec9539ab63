/* matmul_bytes.h: a group's weights unpacked to bytes once, for products with many tokens.
 *
 * A chunk is up to 8 blocks of 16 rows: bytes, and scales as floats. It stays in the L1 cache while
 * all tokens of a step are multiplied with it, so that unpacking costs next to nothing, and types
 * that have become alike (a kind) share the code of their products:
 *
 *     packed group --unpack, once a step--> chunk --tile, 4 tokens at a time--> sums of 16 rows
 *
 * Sums wait in memory between chunks; each is continued in the same order (matmul_kernel.h). */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_BYTES_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_BYTES_H

#include "ops/matmul/matmul_kernel.h"

enum { MNEM__CHUNK_BLOCKS = 8, MNEM__TILE_TOKENS = 4, MNEM__TILE_TOKENS_VNNI = 12 };

typedef struct mnem__byte_chunk {
    /* Elements 4v..4v+3 of each row: q, or |weight| where weights have signs. */
    _Alignas(64) uint8_t q[MNEM__CHUNK_BLOCKS][8][64];
    uint8_t negative[MNEM__CHUNK_BLOCKS][8][64]; /* 255 where the weight is below zero */
    float scale[MNEM__CHUNK_BLOCKS][2][16];      /* of a block, or of each half */
    float min[MNEM__CHUNK_BLOCKS][2][16];
    int32_t sum_negative[MNEM__CHUNK_BLOCKS][2][16]; /* of |weight|, in a block or in each half */
} mnem__byte_chunk;

/* How a chunk's bytes become products. */
typedef struct mnem__byte_kind {
    int32_t bits;   /* of q; 8: |weight| and negative, but with VNNI */
    int32_t zero;   /* subtracted from q */
    bool halves;    /* a scale for 16 elements */
    bool min, mins; /* a minimum for a block, or for each half */
} mnem__byte_kind;

/* sums[4][16] += products of blocks of a chunk with 4 tokens, whose blocks begin at a[t]. */
typedef void mnem__byte_tile(const mnem__byte_chunk *chunk, int blocks,
                             const mnem__a8_block *const *a, float *sums);

/* X(name, bits, zero, halves, min, mins) */
#define MNEM__BYTE_KINDS(X)                                                                        \
    X(q4_0, 4, 8, false, false, false)                                                             \
    X(q4_1, 4, 0, false, true, false)                                                              \
    X(q5_0, 5, 16, false, false, false)                                                            \
    X(q5_1, 5, 0, false, true, false)                                                              \
    X(q6_k, 6, 32, true, false, false)                                                             \
    X(q3_k, 3, 4, true, false, false)                                                              \
    X(q2_k, 2, 0, true, false, true)                                                               \
    X(q8_0, 8, 0, false, false, false)                                                             \
    X(iq2_s, 8, 0, true, false, false)

#define MNEM__BYTE_TILE(name, ...) mnem__byte_tile mnem__byte_tile_##name##_avx2;
MNEM__BYTE_KINDS(MNEM__BYTE_TILE)

/* With VNNI, for grids: q has 128 added and no sign. sums[12][16] += products with 12 tokens,
 * whose blocks begin `stride` bytes apart. */
typedef void mnem__byte_tile_vnni(const mnem__byte_chunk *chunk, int blocks, const uint8_t *input,
                                  int64_t stride, float *sums);

#define MNEM__BYTE_KINDS_VNNI(X)                                                                   \
    X(q8_0, 8, 128, false, false, false)                                                           \
    X(iq2_s, 8, 128, true, false, false)

#define MNEM__BYTE_TILE_VNNI(name, ...) mnem__byte_tile_vnni mnem__byte_tile_##name##_avx512;
MNEM__BYTE_KINDS_VNNI(MNEM__BYTE_TILE_VNNI)

#endif
