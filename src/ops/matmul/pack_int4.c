/* pack_int4.c: weights of 4 bits with scales and zeros of others, packed as Q4_0 or Q4_1.
 *
 * scale (q - zero) is d q + m with d = scale, m = -scale zero: Q4_1, whose 32 elements have a d and
 * an m each, so that a group or a channel repeats its own. Without zeros it is Q4_0, whose zero is
 * 8. No kernel is needed beside theirs.
 *
 * A packed group is units of 64 columns behind each other (pack_form.h), so 16 rows of one unit are
 * made at a time, on the stack. Invariant: the same bytes as whole rows packed at once. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/core/half.h"
#include "ops/core/pack_form.h"

enum { BLOCK = 32, UNIT = 64, RAW_MOST = 20 }; /* bytes of a raw block of Q4_1 */

mnem_type mnem_int4_type(const mnem_int4 *weights) {
    return weights->zeros ? MNEM_TYPE_Q4_1 : MNEM_TYPE_Q4_0;
}

static mnem_status check(const mnem_int4 *w) {
    const int64_t group = w->group ? w->group : w->k;
    if (w->rows < 1 || w->k < BLOCK || w->k % BLOCK)
        return mnem__fail(MNEM_INVALID,
                          "int4: the matrix has %lld rows and %lld columns, expected at least 1 "
                          "row and a multiple of 32 columns",
                          (long long)w->rows, (long long)w->k);
    if (group < BLOCK || group % BLOCK || w->k % group)
        return mnem__fail(MNEM_INVALID,
                          "int4: a group has %lld columns, expected a multiple of 32 that divides "
                          "the %lld columns of the matrix",
                          (long long)group, (long long)w->k);
    const uint64_t bytes = mnem_pack_bytes(mnem_int4_type(w), w->rows, w->k);
    if (bytes == 0 || bytes >= (uint64_t)1 << 62)
        return mnem__fail(
            MNEM_INVALID,
            "int4: the size in bytes of a matrix of %lld rows and %lld columns overflows 64 bits",
            (long long)w->rows, (long long)w->k);
    if (!w->values || !w->scales)
        return mnem__fail(MNEM_INVALID,
                          "int4: the pointers to the values and to the scales must not be NULL");
    return MNEM_OK;
}

/* 8 bytes: 16 columns of a row from column k on. */
static const uint8_t *sixteen(const mnem_int4 *w, int64_t row, int64_t k) {
    if (!w->blocks) return w->values + row * (w->k / 2) + k / 2;
    return w->values + (row / 16 * (w->k / 16) + k / 16) * 128 + row % 16 * 8;
}

/* Elements j and j + 16 of a block share byte j. */
static void put_values(const mnem_int4 *w, int64_t row, int64_t k, uint8_t *raw) {
    const uint8_t *low = sixteen(w, row, k), *high = sixteen(w, row, k + 16);
    for (int i = 0; i < 8; i++) {
        raw[2 * i] = (uint8_t)((low[i] & 15) | high[i] << 4);
        raw[2 * i + 1] = (uint8_t)(low[i] >> 4 | (high[i] & 0xf0));
    }
}

/* False if it isn't one of f16's numbers. */
static bool put_half(float x, uint8_t *raw) {
    const uint16_t half = mnem__float_half(x);
    memcpy(raw, &half, 2);
    return isfinite(mnem__half_float(half));
}

/* One raw block; false if its scale or minimum doesn't fit. */
static bool put_block(const mnem_int4 *w, int64_t row, int64_t k, uint8_t *raw) {
    const int64_t group = w->group ? w->group : w->k;
    const int64_t at = row * (w->k / group) + k / group;
    bool fits = put_half(w->scales[at], raw);
    if (w->zeros) fits = put_half(-w->scales[at] * w->zeros[at], raw + 2) && fits;
    put_values(w, row, k, raw + (w->zeros ? 4 : 2));
    return fits;
}

/* Columns [k, k + columns) of rows from row on, as one unit of a packed group. */
static mnem_status pack_unit(const mnem_int4 *w, int64_t row, int64_t k, int64_t columns,
                             uint8_t *packed) {
    uint8_t raw[MNEM_PACK_ROWS * UNIT / BLOCK * RAW_MOST];
    const mnem_type type = mnem_int4_type(w);
    const int64_t rows = w->rows - row < MNEM_PACK_ROWS ? w->rows - row : MNEM_PACK_ROWS;
    uint8_t *to = raw;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += BLOCK, to += mnem_type_get(type)->block_bytes)
            if (!put_block(w, row + r, k + i, to))
                return mnem__fail(
                    MNEM_INVALID,
                    "int4: row %lld has a scale or a zero point that is NaN or infinite (as F16)",
                    (long long)(row + r));
    mnem_pack_group(type, rows, columns, raw, packed);
    return MNEM_OK;
}

mnem_status mnem_pack_int4(const mnem_int4 *weights, void *packed) {
    MNEM__TRY(check(weights));
    const mnem_type type = mnem_int4_type(weights);
    const int64_t unit = mnem__pack_unit_bytes(mnem__pack_form_get(type));
    uint8_t *to = packed;
    for (int64_t row = 0; row < weights->rows; row += MNEM_PACK_ROWS) {
        for (int64_t k = 0; k < weights->k; k += UNIT) {
            const int64_t left = weights->k - k;
            MNEM__TRY(pack_unit(weights, row, k, left < UNIT ? left : UNIT, to + k / UNIT * unit));
        }
        to += mnem_pack_group_bytes(type, weights->k);
    }
    return MNEM_OK;
}
