/* gemm_blocks_sums.h: the sums of a tile of blocks of whole numbers (gemm_blocks.h), by products of
 * words that are added to sums of 32 bits. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_BLOCKS_SUMS_H
#define MNEM_SRC_OPS_GEMM_GEMM_BLOCKS_SUMS_H

/* Of one block of steps; its panels from their words on. */
LANES_INLINE void block_sums(int64_t steps, const float *a, const float *b, lanes_int *sum) {
    LANES_UNROLL
    for (int i = 0; i < ROWS * VECTORS; i++) sum[i] = lanes_dot2_start();
    for (int64_t k = block_words(steps); k > 0; k--, a += ROWS, b += COLUMNS) {
        lanes_int right[VECTORS];
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) right[v] = lanes_load_words(b + LANES * v);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int32_t left = *(const word *)(const void *)(a + r);
            LANES_UNROLL
            for (int v = 0; v < VECTORS; v++)
                sum[r * VECTORS + v] = lanes_dot2(sum[r * VECTORS + v], right[v], left);
        }
    }
}

/* The sums of one tile. */
LANES_INLINE void sums(int64_t steps, const float *a, const float *b, lanes *acc) {
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) acc[r * VECTORS + v] = lanes_load(b + v * LANES);
    }
    b += COLUMNS;
    for (; steps > 0; steps -= SCALED) {
        lanes_int sum[ROWS * VECTORS];
        block_sums(steps < SCALED ? steps : SCALED, a + ROWS, b + COLUMNS, sum);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const lanes scale = lanes_set(a[r]);
            LANES_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const int i = r * VECTORS + v;
                acc[i] = lanes_fma(lanes_from_int(sum[i]),
                                   lanes_mul(scale, lanes_load(b + v * LANES)), acc[i]);
            }
        }
        a += block_rows(SCALED) * ROWS, b += block_rows(SCALED) * COLUMNS;
    }
}

#endif
