/* gemm_pack.h: panels of numbers as they are, or of pairs of bf16, and the sums of a tile of them.
 *
 *     panel of b: start row, then k by k      panel of a: k by k
 *     [1 + steps][VECTORS * 16]               [steps][ROWS], then spare floats
 *
 * With MNEM__PAIRS, the source that includes this also defines multiply_add(a, b, c) on words of
 * two bf16: each step of a panel is a pair of steps of k, rounded to bf16 while packing,
 * with a zero after an odd one. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_PACK_H
#define MNEM_SRC_OPS_GEMM_GEMM_PACK_H

#include "ops/gemm/gemm_fold.h"

static int64_t panel_rows(int64_t steps) {
    return folded(steps);
}

#ifndef MNEM__PAIRS
LANES_INLINE lanes multiply_add(lanes a, lanes b, lanes c) {
    return lanes_fma(a, b, c);
}
#endif

/* Of a matrix whose rows are indices: one panel, at most CHUNK steps from part's step k on. */
LANES_INLINE void pack_panel(const mnem__gemm_part *part, int64_t first, int64_t k, int64_t steps,
                             float *to, const int width) {
    float buffer[8][CHUNK];
    for (int group = (width - 1) / 8 * 8; group >= 0; group -= 8) {
        const float *rows[8];
        for (int r = 0; r < 8; r++) {
            const int64_t i = first + group + r;
            rows[r] = zeros;
            if (group + r >= width || i >= part->count) continue;
            rows[r] = index_words(part->matrix, part->index + i, part->k + k, steps, buffer[r]);
        }
        turn(rows, folded(steps), to + group, width, width - group < 8 ? width - group : 8);
    }
}

/* Of a matrix whose rows are steps: all panels, some columns at a time, whose panels stay in the
 * cache while steps go by. */
LANES_INLINE void pack_across(const mnem__gemm_part *part, float *to, const int width) {
    enum { AHEAD = 4 };
    const mnem__gemm_matrix *m = part->matrix;
    const int64_t chunk = CHUNK / width * width; /* whole panels */
    float buffer[2 * CHUNK];
    for (int64_t first = 0; first < part->count; first += chunk) {
        const int64_t n = part->count - first < chunk ? part->count - first : chunk;
        const int64_t column = part->index + first;
        float *panel = to + first / width * part->panel;
        for (int64_t k = 0; k < part->steps; k += FOLD, panel += width) {
            if (!quantized(m) && k + AHEAD < part->steps) fetch(m, part->k + k + AHEAD, column, n);
            spread(step_words(part, k, column, n, buffer), n, panel, part->panel, width);
        }
    }
}

LANES_INLINE void pack(const mnem__gemm_part *part, float *to, const int width) {
    if (part->matrix->across) {
        pack_across(part, to, width);
        return;
    }
    for (int64_t i = 0; i < part->count; i += width, to += part->panel)
        for (int64_t k = 0; k < part->steps; k += CHUNK)
            pack_panel(part, i, k, part->steps - k < CHUNK ? part->steps - k : CHUNK,
                       to + k / FOLD * width, width);
}

/* The sums of one tile. */
LANES_INLINE void sums(int64_t steps, const float *a, const float *b, lanes *acc) {
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) acc[r * VECTORS + v] = lanes_load(b + v * LANES);
    }
    for (int64_t k = folded(steps); k > 0; k--) {
        lanes right[VECTORS];
        b += COLUMNS;
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) right[v] = lanes_load(b + v * LANES);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const lanes left = lanes_set(a[r]);
            LANES_UNROLL
            for (int v = 0; v < VECTORS; v++)
                acc[r * VECTORS + v] = multiply_add(left, right[v], acc[r * VECTORS + v]);
        }
        a += ROWS;
    }
}

#endif
