/* causal_attention_product.h: products of tiles in panels, in registers of the level that the
 * source is compiled for (lanes.h).
 *
 *     C[row][column] = start + sum over k of A[row][k] B[k][column]
 *
 * A block of C, a few rows of one or two panels, stays in registers while k runs upwards; B is
 * loaded as lanes, A as single numbers. So each element's order of additions is that of k, however
 * the blocks are cut. On the diagonal (LOWER, UPPER) the rows of a block end or begin one after the
 * other: a small triangle, unrolled.
 *
 *     LOWER: k <= row   x . .      UPPER: k >= row   x x x ...    RIGHT: columns <= row of a
 *                       x x .                        . x x ...    whole 16, all k
 *                       x x x                        . . x ...
 *
 * Cost: rows * columns * depth multiply-adds, loads of A and B hidden behind them. */
#ifndef MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_PRODUCT_H
#define MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_PRODUCT_H

#include "ops/attention/causal_attention.h"
#include "ops/core/lanes.h"

enum { STEP = MNEM__CAUSAL_STEP, TILE = MNEM__CAUSAL_TILE, PANEL = MNEM__CAUSAL_PANEL };

/* AVX2: 6 rows in 12 registers; AVX-512: 8 rows of 2 panels in 16. */
#if MNEM__LANES == 512
enum { BLOCK_ROWS = 8, BLOCK_PANELS = 2 };
#else
enum { BLOCK_ROWS = 6, BLOCK_PANELS = 1 };
#endif

typedef enum product_shape {
    PRODUCT_FULL,
    PRODUCT_LOWER,
    PRODUCT_UPPER,
    PRODUCT_RIGHT
} product_shape;

typedef struct product {
    const float *a;     /* panels [k / 16][64 rows][16]; transposed: [row / 16][64 of k][16] */
    const float *b;     /* panels [b_panel / 16 of k][16] */
    float *c;           /* panels [64 rows][16] */
    const float *start; /* of each row: what its sums begin with, or (keep) what C is times */
    bool keep;
    product_shape shape;
    int64_t rows, panels, depth; /* rows and depth whole 16s */
    int64_t b_panel;
} product;

typedef lanes block_sums[BLOCK_ROWS][BLOCK_PANELS];

/* A block's operands: number (r, k) of A at a[r * row_step + k * k_step]. */
typedef struct block {
    const float *a, *b;
    int64_t row_step, k_step, b_panel;
} block;

LANES_INLINE void block_start(int rows, int panels, const product *p, const float *c, int64_t row,
                              block_sums sum) {
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        const lanes start = lanes_set(p->start[row + r]);
        LANES_UNROLL
        for (int i = 0; i < panels; i++)
            sum[r][i] = p->keep ? lanes_mul(lanes_load(c + r * STEP + i * PANEL), start) : start;
    }
}

LANES_INLINE void block_end(int rows, int panels, block_sums sum, float *c) {
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int i = 0; i < panels; i++) lanes_store(c + r * STEP + i * PANEL, sum[r][i]);
    }
}

/* Adds one k for the rows [first, end). */
LANES_INLINE void block_k(int first, int end, int panels, const block *from, int64_t k,
                          block_sums sum) {
    lanes x[BLOCK_PANELS];
    LANES_UNROLL
    for (int i = 0; i < panels; i++) x[i] = lanes_load(from->b + k * STEP + i * from->b_panel);
    LANES_UNROLL
    for (int r = first; r < end; r++) {
        const lanes w = lanes_set(from->a[r * from->row_step + k * from->k_step]);
        LANES_UNROLL
        for (int i = 0; i < panels; i++) sum[r][i] = lanes_fma(w, x[i], sum[r][i]);
    }
}

LANES_INLINE void block_add(int rows, int panels, const block *from, int64_t count,
                            block_sums sum) {
    for (int64_t k = 0; k < count; k++) block_k(0, rows, panels, from, k, sum);
}

/* FULL, RIGHT or LOWER: A[row][k] at a + k / 16 * PANEL + row * 16 + k % 16. */
LANES_INLINE void block_along(int rows, int panels, const product *p, int64_t row, int64_t panel) {
    block_sums sum;
    float *c = p->c + panel * PANEL + row * STEP;
    block from = {p->a + row * STEP, p->b + panel * p->b_panel, STEP, 1, p->b_panel};
    int64_t left = p->shape == PRODUCT_LOWER ? row : p->depth;
    block_start(rows, panels, p, c, row, sum);
    for (; left >= STEP; left -= STEP) {
        block_add(rows, panels, &from, STEP, sum);
        from.a += PANEL;
        from.b += STEP * STEP;
    }
    if (p->shape == PRODUCT_LOWER) {
        block_add(rows, panels, &from, left, sum);
        from.a += left;
        from.b += left * STEP;
        LANES_UNROLL
        for (int k = 0; k < rows; k++) block_k(k, rows, panels, &from, k, sum);
    }
    block_end(rows, panels, sum, c);
}

/* FULL or UPPER: A[row][k] at a + row / 16 * PANEL + k * 16 + row % 16. */
LANES_INLINE void block_across(int rows, int panels, const product *p, int64_t row, int64_t panel) {
    block_sums sum;
    float *c = p->c + panel * PANEL + row * STEP;
    block from = {p->a + row / STEP * PANEL + row % STEP, p->b + panel * p->b_panel, 1, STEP,
                  p->b_panel};
    int64_t left = p->depth;
    block_start(rows, panels, p, c, row, sum);
    if (p->shape == PRODUCT_UPPER) {
        from.a += row * STEP;
        from.b += row * STEP;
        LANES_UNROLL
        for (int k = 0; k < rows; k++) block_k(0, k + 1, panels, &from, k, sum);
        from.a += rows * STEP;
        from.b += rows * STEP;
        left -= row + rows;
    }
    block_add(rows, panels, &from, left, sum);
    block_end(rows, panels, sum, c);
}

LANES_INLINE void product_block(bool across, int rows, int panels, const product *p, int64_t row,
                                int64_t panel) {
    if (across)
        block_across(rows, panels, p, row, panel);
    else
        block_along(rows, panels, p, row, panel);
}

/* One panel or two, 16 rows at a time. */
LANES_INLINE void product_panels(bool across, int panels, const product *p, int64_t panel) {
    const int64_t first = p->shape == PRODUCT_RIGHT ? panel * STEP : 0;
    for (int64_t row = first; row < p->rows; row += STEP) {
        int64_t r = row;
        for (; r + BLOCK_ROWS <= row + STEP; r += BLOCK_ROWS)
            product_block(across, BLOCK_ROWS, panels, p, r, panel);
        if (STEP % BLOCK_ROWS != 0) product_block(across, STEP % BLOCK_ROWS, panels, p, r, panel);
    }
}

LANES_INLINE void product_all(bool across, const product *p) {
    int64_t panel = 0;
    for (; panel + BLOCK_PANELS <= p->panels; panel += BLOCK_PANELS)
        product_panels(across, BLOCK_PANELS, p, panel);
    for (; BLOCK_PANELS > 1 && panel < p->panels; panel++) product_panels(across, 1, p, panel);
}

/* C = A B. */
static void product_run(const product *p) {
    product_all(false, p);
}

/* A is the transposed of what is stored. */
static void product_run_transposed(const product *p) {
    product_all(true, p);
}

#endif
