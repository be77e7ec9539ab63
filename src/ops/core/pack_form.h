/* pack_form.h: where the parts of a packed group are.
 *
 * A group is 16 rows of k elements; lane r of every 64-byte vector (4 bytes) belongs to row r.
 * Quantized types come in units of 2 blocks (8 for K types, the superblock) of 32 elements:
 *
 *   unit:  [header][block 0][block 1]...        after the last unit: [tail of each unit]
 *
 *   block: [high bits: 0, 1 or 2 vectors][low: 4 vectors, or 8 for bytes]
 *     low, 4-bit: vector v holds elements 4v..4v+3 (low nibbles) and 16+4v..16+4v+3 (high nibbles)
 *     low, 8-bit: vector v holds elements 4v..4v+3, with 128 added to make them unsigned
 *     high, 5-bit types: byte b, bit v is the fifth bit of element 4v+b
 *     high, 6-bit: vector v/4, byte b, bits 2(v%4) and up: the upper two bits of element 4v+b
 *   header, pairs: [16 f16 scales of block 0][the same of block 1], then the same of minimums
 *   header, Q4_K and Q5_K: [16 f16 d][16 f16 dmin][3 vectors: the 12 bytes of 6-bit numbers]
 *   header, Q6_K: 4 vectors: the 16 int8 scales (one per 16 elements); tail: [16 f16 d]
 *
 * An odd last block is a unit of one. Only that and Q6_K's tail can make a group larger than its
 * raw rows: by 64 bytes at most. F32: [k][16 f32]. F16: [k][16 f16]. BF16: [k/2][16 pairs].
 *
 * A value is scale * (q - zero) - min. */
#ifndef MNEM_SRC_OPS_CORE_PACK_FORM_H
#define MNEM_SRC_OPS_CORE_PACK_FORM_H

#include "mnem/ops.h"

typedef enum mnem__scales {
    MNEM__SCALES_NONE, /* F32, F16, BF16 */
    MNEM__SCALES_PAIR,
    MNEM__SCALES_PAIR_MIN,
    MNEM__SCALES_K,
    MNEM__SCALES_K6,
} mnem__scales;

typedef struct mnem__pack_form {
    mnem_type type;
    mnem__scales scales;
    int32_t bits, zero;
    int32_t unit_blocks; /* of 32 elements */
    int32_t header_bytes, block_bytes, tail_bytes;
} mnem__pack_form;

/* X(TYPE, name, scales, bits, zero, unit_blocks, header_bytes, block_bytes, tail_bytes) */
#define MNEM__PACK_QUANTIZED(X)                                                                    \
    X(Q4_0, q4_0, MNEM__SCALES_PAIR, 4, 8, 2, 64, 256, 0)                                          \
    X(Q4_1, q4_1, MNEM__SCALES_PAIR_MIN, 4, 0, 2, 128, 256, 0)                                     \
    X(Q5_0, q5_0, MNEM__SCALES_PAIR, 5, 16, 2, 64, 320, 0)                                         \
    X(Q5_1, q5_1, MNEM__SCALES_PAIR_MIN, 5, 0, 2, 128, 320, 0)                                     \
    X(Q8_0, q8_0, MNEM__SCALES_PAIR, 8, 128, 2, 64, 512, 0)                                        \
    X(Q4_K, q4_k, MNEM__SCALES_K, 4, 0, 8, 256, 256, 0)                                            \
    X(Q5_K, q5_k, MNEM__SCALES_K, 5, 0, 8, 256, 320, 0)                                            \
    X(Q6_K, q6_k, MNEM__SCALES_K6, 6, 32, 8, 256, 384, 32)

/* NULL when the type isn't a weight's. */
const mnem__pack_form *mnem__pack_form_get(mnem_type type);

static inline int64_t mnem__pack_unit_bytes(const mnem__pack_form *form) {
    return form->header_bytes + (int64_t)form->unit_blocks * form->block_bytes;
}

/* 32 elements of one row: element j is scale[j / 16] * (q[j] - zero) - min. */
typedef struct mnem__block {
    uint8_t q[32];
    float scale[2], min;
} mnem__block;

/* Block (of 32) number block of a raw row; or of row 0 to 15 of a packed group of k elements. */
void mnem__raw_block(const mnem__pack_form *form, const void *raw, int64_t block, mnem__block *out);
void mnem__packed_block(const mnem__pack_form *form, int64_t k, const void *group, int64_t block,
                        int row, mnem__block *out);
/* One row (0 to 15) of a packed group as k floats: equal to mnem_dequantize_row of the raw row. */
void mnem__unpack_row(mnem_type type, int64_t k, const void *packed, int row, float *out);

#endif
