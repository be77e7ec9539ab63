/* half.h: conversion of one float to and from 16 bits, in C. Rounds to nearest even; NaN stays NaN,
 * subnormals are kept, and too large values become infinity, like the vector instructions. */
#ifndef MNEM_SRC_OPS_CORE_HALF_H
#define MNEM_SRC_OPS_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float mnem__bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t mnem__float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline uint16_t mnem__load_u16(const void *p) {
    uint16_t x;
    memcpy(&x, p, 2);
    return x;
}

static inline uint32_t mnem__load_u32(const void *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

static inline float mnem__half_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) /* infinity; a NaN becomes quiet */
        return mnem__bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13 |
                                (rest > 0x7c00 ? 0x400000 : 0));
    if (rest < 0x0400) { /* subnormal: rest * 2^-24 is exact */
        float x = (float)rest * 0x1p-24f;
        return sign ? -x : x;
    }
    return mnem__bits_float(sign | ((rest << 13) + 0x38000000));
}

static inline uint16_t mnem__float_half(float x) {
    uint32_t bits = mnem__float_bits(x), rest = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) return sign | 0x7c00; /* rounds to 65536 or more */
    if (rest < 0x38800000) { /* adding 0.5 puts the unit of 2^-24 at the last bit */
        float shifted = mnem__bits_float(rest) + 0.5f;
        return (uint16_t)(sign | (mnem__float_bits(shifted) - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - 0x38000000) >> 13));
}

static inline float mnem__bf16_float(uint16_t h) {
    return mnem__bits_float((uint32_t)h << 16);
}

static inline uint16_t mnem__float_bf16(float x) {
    uint32_t bits = mnem__float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
