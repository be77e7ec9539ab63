/* gemm_blocks_sums.h: the sums of a tile of blocks of whole numbers; gemm_blocks.h says what a
 * panel is.
 *
 * AVX2 multiplies words and adds products with two instructions, of which Zen 3 does the first on
 * two of its four units only. So there two words of a row, A and B, and two of a column, C and D,
 * make one product (Winograd, A New Algorithm for Inner Product, 1968):
 *
 *     A C + B D  =  (A + D) (B + C)  -  A B  -  C D
 *
 * Sums of 16 bits are cheap, and A B and C D depend on the row or the column only: panels have
 * their sums (crosses). All of it is exact modulo 2^32, and the result fits. */
#ifndef MNEM_SRC_OPS_GEMM_BLOCKS_SUMS_H
#define MNEM_SRC_OPS_GEMM_BLOCKS_SUMS_H

/* Whole numbers, PARTS for 16 lanes. */
#if MNEM__LANES == 2
enum { PARTS = 2, ACROSS = VECTORS * PARTS };
typedef __m256i group;

LANES_INLINE group group_load(const float *words, int i) {
    return _mm256_loadu_si256((const void *)(words + 8 * i));
}
LANES_INLINE group group_set(const float *p) {
    return _mm256_set1_epi32(*(const word *)(const void *)p);
}
/* In assembly, since gcc 12 moves a turn's products ahead of its sums, for which registers don't
 * suffice, or else copies every sum. */
LANES_INLINE void group_add(group *sum, group x) {
    __asm__ volatile("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(x));
}
LANES_INLINE lanes group_floats(const group *sum) {
    const lanes_int x = {{sum[0], sum[1]}};
    return lanes_from_int(x);
}

/* Of two words of each index. */
LANES_INLINE void pair_sums(const float *a, const float *b, group *sum) {
    group first[ACROSS], second[ACROSS];
    LANES_UNROLL
    for (int v = 0; v < ACROSS; v++)
        first[v] = group_load(b, v), second[v] = group_load(b + COLUMNS, v);
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const group even = group_set(a + r), odd = group_set(a + ROWS + r);
        LANES_UNROLL
        for (int v = 0; v < ACROSS; v++)
            group_add(&sum[r * ACROSS + v], _mm256_madd_epi16(_mm256_add_epi16(even, second[v]),
                                                              _mm256_add_epi16(odd, first[v])));
    }
}

/* Of one block of steps; its panels from their crosses on. */
LANES_INLINE void block_sums(int64_t steps, const float *a, const float *b, group *sum) {
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < ACROSS; v++)
            sum[r * ACROSS + v] = _mm256_add_epi32(group_set(a + r), group_load(b, v));
    }
    a += ROWS, b += COLUMNS;
    for (int64_t k = block_words(steps); k > 0; k -= TURN) {
        LANES_UNROLL
        for (int i = 0; i < TURN; i += 2, a += 2 * ROWS, b += 2 * COLUMNS) pair_sums(a, b, sum);
    }
}
#else
enum { PARTS = 1, ACROSS = VECTORS };
typedef lanes_int group;

LANES_INLINE lanes group_floats(const group *sum) {
    return lanes_from_int(*sum);
}

LANES_INLINE void block_sums(int64_t steps, const float *a, const float *b, group *sum) {
    LANES_UNROLL
    for (int i = 0; i < ROWS * ACROSS; i++) sum[i] = lanes_dot2_start();
    for (int64_t k = block_words(steps); k > 0; k--, a += ROWS, b += COLUMNS) {
        group right[ACROSS];
        LANES_UNROLL
        for (int v = 0; v < ACROSS; v++) right[v] = lanes_load_words(b + LANES * v);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int32_t left = *(const word *)(const void *)(a + r);
            LANES_UNROLL
            for (int v = 0; v < ACROSS; v++)
                sum[r * ACROSS + v] = lanes_dot2(sum[r * ACROSS + v], right[v], left);
        }
    }
}
#endif

/* The sums of one tile. */
LANES_INLINE void sums(int64_t steps, const float *a, const float *b, lanes *acc) {
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) acc[r * VECTORS + v] = lanes_load(b + v * LANES);
    }
    b += COLUMNS;
    for (; steps > 0; steps -= SCALED) {
        group sum[ROWS * ACROSS];
        block_sums(steps < SCALED ? steps : SCALED, a + ROWS, b + COLUMNS, sum);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const lanes scale = lanes_set(a[r]);
            LANES_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const int i = r * VECTORS + v;
                acc[i] = lanes_fma(group_floats(sum + i * PARTS),
                                   lanes_mul(scale, lanes_load(b + v * LANES)), acc[i]);
            }
        }
        a += block_rows(SCALED) * ROWS, b += block_rows(SCALED) * COLUMNS;
    }
}

#endif
