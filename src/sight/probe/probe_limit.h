/* probe_limit.h: loops over a block of weights of one type in the L1 cache, for one level of the
 * processor.
 *
 * A round is what a product does with a unit of 8 blocks of 16 rows and MNEM__LIMIT_TOKENS tokens:
 * unpacking for each tile or once, then for each token activations, products, their sums, scales.
 * All of it stays in the L1 cache, whole tiles only, nothing around it: no kernel of this level
 * exceeds that, unless it finds a shorter sequence of instructions, which is then to be put here.
 * The numbers are arbitrary, so that results mean nothing. */
#ifndef MNEM_SRC_SIGHT_PROBE_PROBE_LIMIT_H
#define MNEM_SRC_SIGHT_PROBE_PROBE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "mnem/tensor.h"

enum { MNEM__LIMIT_TOKENS = 24, MNEM__LIMIT_BLOCKS = 8 };

/* 32 activations: floats that scale, sums of the bytes, bytes. */
typedef struct mnem__limit_input {
    float scale, minus_sum;
    int32_t start, start_half;
    int8_t q[32];
} mnem__limit_input;

typedef struct mnem__limit_data {
    _Alignas(64) uint8_t packed[MNEM__LIMIT_BLOCKS][8][64];
    uint8_t q[8][64], negative[8][64];
    float scale[MNEM__LIMIT_BLOCKS][4][16];
    float sums[MNEM__LIMIT_TOKENS][16];
    mnem__limit_input input[MNEM__LIMIT_BLOCKS][MNEM__LIMIT_TOKENS];
} mnem__limit_data;

typedef struct mnem__limit {
    mnem_type type;
    void (*run)(mnem__limit_data *data, int64_t rounds);
} mnem__limit;

/* What differs from type to type. */
typedef struct mnem__limit_form {
    int bits;    /* of a packed weight */
    bool table;  /* 4 bits that are numbers of values */
    bool sign;   /* values of a table that take all of a byte */
    bool zero;   /* bytes have an offset */
    bool halves; /* two scales in a block */
    bool min, mins;
} mnem__limit_form;

/* X(TYPE, name, bits, table, sign, zero, halves, min, mins) */
#define MNEM__LIMIT_TYPES(X)                                                                       \
    X(Q4_0, q4_0, 4, false, false, true, false, false, false)                                      \
    X(Q4_1, q4_1, 4, false, false, false, false, true, false)                                      \
    X(Q5_0, q5_0, 5, false, false, true, false, false, false)                                      \
    X(Q5_1, q5_1, 5, false, false, false, false, true, false)                                      \
    X(Q8_0, q8_0, 8, false, true, true, false, false, false)                                       \
    X(Q6_K, q6_k, 6, false, false, true, true, false, false)                                       \
    X(Q2_K, q2_k, 2, false, false, false, true, false, true)                                       \
    X(Q3_K, q3_k, 3, false, false, true, true, false, false)                                       \
    X(IQ4_XS, iq4_xs, 4, true, true, true, false, false, false)                                    \
    X(MXFP4, mxfp4, 4, true, false, true, false, false, false)

enum { MNEM__LIMITS = 10 };
extern const mnem__limit mnem__limits_avx2[MNEM__LIMITS], mnem__limits_avx512[MNEM__LIMITS];

#endif
