/* state_lanes.h: for kernels of states: their sums over rows (state_kernels.h says the order), and
 * functions of a step size. */
#ifndef MNEM_SRC_OPS_STATE_STATE_LANES_H
#define MNEM_SRC_OPS_STATE_STATE_LANES_H

#include "ops/core/lanes_softplus.h"
#include "ops/state/state_kernels.h"

#define STATE_LOG2_E 0x1.715476p+0f

/* ---- sums over rows ---- */

enum { PARTS = 4 };

/* Lanes that a pass works on: as many as registers hold 4 sums of. */
#if MNEM__LANES == 512
enum { AT_ONCE = 2 };
#else
enum { AT_ONCE = 1 };
#endif

typedef struct state_sums {
    lanes of[2][PARTS];
} state_sums;

LANES_INLINE lanes state_total(const state_sums *sums, int c) {
    return lanes_add(lanes_add(sums->of[c][0], sums->of[c][1]),
                     lanes_add(sums->of[c][2], sums->of[c][3]));
}

/* part of each row i and its sum j, both in order. */
#define EACH_ROW(rows, part)                                                                       \
    {                                                                                              \
        int64_t first = 0;                                                                         \
        for (; first + PARTS <= (rows); first += PARTS) {                                          \
            LANES_UNROLL                                                                           \
            for (int j = 0; j < PARTS; j++) {                                                      \
                const int64_t i = first + j;                                                       \
                part;                                                                              \
            }                                                                                      \
        }                                                                                          \
        LANES_UNROLL                                                                               \
        for (int j = 0; j < PARTS - 1; j++) {                                                      \
            const int64_t i = first + j;                                                           \
            if (i < (rows)) part;                                                                  \
        }                                                                                          \
    }

LANES_INLINE state_sums state_nothing(int wide) {
    state_sums sums;
    LANES_UNROLL
    for (int c = 0; c < wide; c++) {
        LANES_UNROLL
        for (int j = 0; j < PARTS; j++) sums.of[c][j] = lanes_zero();
    }
    return sums;
}

/* SCAN's, of scan_kernels.c. */
void MNEM__AT_LEVEL(mnem__scan_block)(const mnem__state_block *block,
                                      const mnem__scan_token *token);

#endif
