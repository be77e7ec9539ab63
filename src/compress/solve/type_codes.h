/* type_codes.h: sets the codes of a row one at a time, with fixed scales.
 *
 * A weight is scale * (code - zero) - min, with a scale and a minimum for each 16 elements (for
 * most types the same for 32 or 256). */
#ifndef MNEM_SRC_COMPRESS_SOLVE_TYPE_CODES_H
#define MNEM_SRC_COMPRESS_SOLVE_TYPE_CODES_H

#include "ops/core/pack_form.h"

typedef struct mnem__code_scale {
    float scale, min;
} mnem__code_scale;

/* The form of a type that has such codes (Q2_K to Q8_0, IQ4_NL, IQ4_XS); NULL. */
const mnem__pack_form *mnem__codes_form(mnem_type type);
/* The scales of both halves of block `number` (32 elements) of a raw row. */
void mnem__codes_block(const mnem__pack_form *form, const void *row, int64_t number,
                       mnem__code_scale scale[2]);
/* scales [k / 16] of a raw row. */
void mnem__codes_scales(const mnem__pack_form *form, int64_t k, const void *row,
                        mnem__code_scale *scales);
/* Gives element `column` of a raw row the code whose weight is nearest to want; returns that
 * weight as mnem_dequantize_row reads it. */
float mnem__codes_put(const mnem__pack_form *form, mnem__code_scale scale, void *row,
                      int64_t column, float want);

/* Whether a block of 32 has one scale that can be changed separately: Q4_0 to Q8_0, IQ4_NL,
 * Q4_K, Q5_K. */
bool mnem__codes_rescales(const mnem__pack_form *form);
static inline bool mnem__codes_have_min(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_PAIR_MIN || form->scales == MNEM__SCALES_K;
}
/* Sets the nearest representable scale and minimum of block `number` of a raw row; codes are
 * unchanged. */
void mnem__codes_rescale(const mnem__pack_form *form, void *row, int64_t number,
                         mnem__code_scale want);

#endif
