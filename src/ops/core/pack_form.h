/* pack_form.h: the layout of a packed group of rows.
 *
 * A group is 16 rows of k elements; lane r of every 64-byte vector (4 bytes) belongs to row r.
 * Quantized types come in units of 2 blocks (4 for MXFP4; 8 for K types, IQ4_XS and grids, the
 * superblock) of 32 elements:
 *
 *   unit:  [header][block 0][block 1]...        after the last unit: [tail of each unit]
 *
 *   block: [high bits: 0, 1 or 2 vectors][low: 4 vectors, or 8 for bytes, 2 for 2 bits]
 *     low, 2-bit: vector v/4, byte b, bits 2(v%4) and up: element 4v+b, or its lower two bits
 *     low, 4-bit: vector v holds elements 4v..4v+3 (low nibbles) and 16+4v..16+4v+3 (high nibbles)
 *     low, 8-bit: vector v holds elements 4v..4v+3, with 128 added to make them unsigned
 *     high, 3- and 5-bit types: byte b, bit v is the uppermost bit of element 4v+b
 *     high, 6-bit: vector v/4, byte b, bits 2(v%4) and up: the upper two bits of element 4v+b
 *   header, pairs: [16 f16 scales of block 0][the same of block 1], then the same of minimums
 *   header, Q4_K and Q5_K: [16 f16 d][16 f16 dmin][3 vectors: the 12 bytes of 6-bit numbers]
 *   header, Q6_K: 4 vectors: the 16 int8 scales (one per 16 elements); tail: [16 f16 d]
 *   header, Q3_K: 3 vectors: the 12 bytes of 6-bit scales; tail: [16 f16 d]
 *   header, Q2_K: 4 vectors: 16 pairs of 4-bit scale and minimum; [16 f16 d][16 f16 dmin]
 *   header, IQ4_XS: [16 pairs of f16 d and the scales' upper bits][the scales' lower bits]
 *   header, MXFP4: [16 exponents of block 0][of block 1]...
 *   IQ2 and IQ3: a header only, the superblock's words after d; tail: [16 f16 d]
 *
 * A last unit may have fewer blocks. Only that and tails can make a group larger than its raw
 * rows: by 64 bytes at most. F32: [k][16 f32]. F16: [k][16 f16]. BF16: [k/2][16 pairs].
 *
 * A value is scale * (q - zero) - min, where q of 4 bits may be the number of a value in a
 * table. */
#ifndef MNEM_SRC_OPS_CORE_PACK_FORM_H
#define MNEM_SRC_OPS_CORE_PACK_FORM_H

#include "mnem/ops.h"

typedef enum mnem__scales {
    MNEM__SCALES_NONE, /* F32, F16, BF16 */
    MNEM__SCALES_PAIR,
    MNEM__SCALES_PAIR_MIN,
    MNEM__SCALES_K,
    MNEM__SCALES_K6,
    MNEM__SCALES_K2,
    MNEM__SCALES_K3,
    MNEM__SCALES_XS,
    MNEM__SCALES_E8,          /* a power of two per block */
    MNEM__SCALES_GRID,        /* IQ2 and IQ3 (grid_form.h): one scale for a block, */
    MNEM__SCALES_GRID_HALVES, /* or two */
} mnem__scales;

typedef struct mnem__pack_form {
    mnem_type type;
    mnem__scales scales;
    int32_t bits, zero;
    int32_t unit_blocks; /* of 32 elements */
    int32_t header_bytes, block_bytes, tail_bytes;
    const uint8_t *table; /* 16 values of q, plus zero; NULL: q itself */
} mnem__pack_form;

extern const uint8_t mnem__iq4_values[16], mnem__fp4_values[16];

/* X(TYPE, name, scales, bits, zero, unit_blocks, header_bytes, block_bytes, tail_bytes, table) */
#define MNEM__PACK_QUANTIZED(X)                                                                    \
    X(Q4_0, q4_0, MNEM__SCALES_PAIR, 4, 8, 2, 64, 256, 0, NULL)                                    \
    X(Q4_1, q4_1, MNEM__SCALES_PAIR_MIN, 4, 0, 2, 128, 256, 0, NULL)                               \
    X(Q5_0, q5_0, MNEM__SCALES_PAIR, 5, 16, 2, 64, 320, 0, NULL)                                   \
    X(Q5_1, q5_1, MNEM__SCALES_PAIR_MIN, 5, 0, 2, 128, 320, 0, NULL)                               \
    X(Q8_0, q8_0, MNEM__SCALES_PAIR, 8, 128, 2, 64, 512, 0, NULL)                                  \
    X(Q4_K, q4_k, MNEM__SCALES_K, 4, 0, 8, 256, 256, 0, NULL)                                      \
    X(Q5_K, q5_k, MNEM__SCALES_K, 5, 0, 8, 256, 320, 0, NULL)                                      \
    X(Q6_K, q6_k, MNEM__SCALES_K6, 6, 32, 8, 256, 384, 32, NULL)                                   \
    X(Q2_K, q2_k, MNEM__SCALES_K2, 2, 0, 8, 320, 128, 0, NULL)                                     \
    X(Q3_K, q3_k, MNEM__SCALES_K3, 3, 4, 8, 192, 192, 32, NULL)                                    \
    X(IQ4_NL, iq4_nl, MNEM__SCALES_PAIR, 4, 128, 2, 64, 256, 0, mnem__iq4_values)                  \
    X(IQ4_XS, iq4_xs, MNEM__SCALES_XS, 4, 128, 8, 128, 256, 0, mnem__iq4_values)                   \
    X(MXFP4, mxfp4, MNEM__SCALES_E8, 4, 128, 4, 64, 256, 0, mnem__fp4_values)                      \
    X(IQ2_XXS, iq2_xxs, MNEM__SCALES_GRID, 8, 128, 8, 1024, 0, 32, NULL)                           \
    X(IQ2_XS, iq2_xs, MNEM__SCALES_GRID_HALVES, 8, 128, 8, 1152, 0, 32, NULL)                      \
    X(IQ2_S, iq2_s, MNEM__SCALES_GRID_HALVES, 8, 128, 8, 1280, 0, 32, NULL)                        \
    X(IQ3_XXS, iq3_xxs, MNEM__SCALES_GRID, 8, 128, 8, 1536, 0, 32, NULL)                           \
    X(IQ3_S, iq3_s, MNEM__SCALES_GRID, 8, 128, 8, 1728, 0, 32, NULL)

/* NULL when the type isn't a weight's. */
const mnem__pack_form *mnem__pack_form_get(mnem_type type);
/* The names of all types with a form, without those of grids if !grids, for errors. Returns text,
 * which ends with "..." if size is too small. */
const char *mnem__pack_form_names(bool grids, char *text, size_t size);

static inline int64_t mnem__pack_unit_bytes(const mnem__pack_form *form) {
    return form->header_bytes + (int64_t)form->unit_blocks * form->block_bytes;
}

/* Whether a block has two scales, for 16 elements each. */
static inline bool mnem__form_has_halves(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_K6 || form->scales == MNEM__SCALES_K3 ||
           form->scales == MNEM__SCALES_K2 || form->scales == MNEM__SCALES_GRID_HALVES;
}

/* Whether a block has one minimum. (Q2_K has two.) */
static inline bool mnem__form_has_min(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_PAIR_MIN || form->scales == MNEM__SCALES_K;
}

/* 32 elements of one row: element j is scale[j / 16] * (q[j] - zero) - min[j / 16]. */
typedef struct mnem__block {
    uint8_t q[32];
    float scale[2], min[2];
} mnem__block;

/* Block (of 32) number block of a raw row; or of row 0 to 15 of a packed group of k elements. */
void mnem__raw_block(const mnem__pack_form *form, const void *raw, int64_t block, mnem__block *out);
void mnem__packed_block(const mnem__pack_form *form, int64_t k, const void *group, int64_t block,
                        int row, mnem__block *out);
/* One row (0 to 15) of a packed group as k floats: equal to mnem_dequantize_row of the raw row. */
void mnem__unpack_row(mnem_type type, int64_t k, const void *packed, int row, float *out);

#endif
