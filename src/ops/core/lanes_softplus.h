/* lanes_softplus.h: ln(1 + e^x) over lanes. */
#ifndef MNEM_SRC_OPS_CORE_LANES_SOFTPLUS_H
#define MNEM_SRC_OPS_CORE_LANES_SOFTPLUS_H

#include "ops/core/lanes.h"

/* ln(1 + u) of u from 0 to 1 as 2 atanh(u / (2 + u)), by its series up to the 15th power: a
 * relative error of at most 2^-22. */
LANES_INLINE lanes lanes_log1p(lanes u) {
    const lanes s = lanes_div(u, lanes_add(lanes_set(2.0f), u)), square = lanes_mul(s, s);
    lanes p = lanes_set(2.0f / 15);
    p = lanes_fma(p, square, lanes_set(2.0f / 13));
    p = lanes_fma(p, square, lanes_set(2.0f / 11));
    p = lanes_fma(p, square, lanes_set(2.0f / 9));
    p = lanes_fma(p, square, lanes_set(2.0f / 7));
    p = lanes_fma(p, square, lanes_set(2.0f / 5));
    p = lanes_fma(p, square, lanes_set(2.0f / 3));
    p = lanes_fma(p, square, lanes_set(2.0f));
    return lanes_mul(p, s);
}

/* ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|): nothing overflows. 0 below -87. NaN stays NaN. */
LANES_INLINE lanes lanes_softplus(lanes x) {
    const lanes below = lanes_mul(lanes_abs(x), lanes_set(-0x1.715476p+0f)); /* log2(e) */
    return lanes_add(lanes_max(lanes_zero(), x), lanes_log1p(lanes_exp2_upto127(below)));
}

#endif
