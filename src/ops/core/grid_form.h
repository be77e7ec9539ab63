/* grid_form.h: IQ2 and IQ3: the magnitudes of weights are points of a grid; signs are separate.
 *
 * A superblock of 256 is 16 bits of scale d, then 4-byte words of:
 *     indices of points   8 to 10 bits, a point for 8 weights (IQ2) or for 4 (IQ3)
 *     signs               a bit per weight; _XXS and IQ2_XS store 7 of 8, with even parity
 *     scales              4 bits for 32 weights (16 in IQ2_XS and IQ2_S)
 * Magnitudes: 8, 25, 43 in IQ2; 4, 12, ... 52, 62 in IQ3_XXS; 1, 3, ... 15 in IQ3_S. */
#ifndef MNEM_SRC_OPS_CORE_GRID_FORM_H
#define MNEM_SRC_OPS_CORE_GRID_FORM_H

#include "ops/core/pack_form.h"

extern const uint16_t mnem__iq2_xxs_points[256], mnem__iq2_xs_points[512], mnem__iq2_s_points[1024],
    mnem__iq3_xxs_points[256], mnem__iq3_s_points[512];

static inline bool mnem__form_is_grid(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_GRID || form->scales == MNEM__SCALES_GRID_HALVES;
}

/* Block i (0 to 7) of a superblock in the layout of files. */
void mnem__grid_block(mnem_type type, const uint8_t *super, int i, mnem__block *out);

/* Block i of the 16 rows of a unit, in the form of a block of bytes of a packed group, with its
 * scales. */
typedef struct mnem__grid_lanes {
    _Alignas(64) uint8_t q[8][64];
    float scale[2][16];
} mnem__grid_lanes;

typedef void mnem__grid_unpack(mnem_type type, const uint8_t *unit, const uint8_t *tail, int i,
                               mnem__grid_lanes *out);
mnem__grid_unpack mnem__grid_unpack_avx2, mnem__grid_unpack_avx512;

#endif
