/* gemm_row_tiles.h: tiles of two rows by 32 columns, of blocks of whole numbers, for AVX2.
 *
 * Zen 3 multiplies words on two of its four units, and then adds products to sums with another
 * instruction. So two words of a row, A and B, and two of a column, C and D, make one product
 * (Winograd, A New Algorithm for Inner Product, 1968):
 *
 *     A C + B D  =  (A + D) (B + C)  -  A B  -  C D
 *
 * Sums of 16 bits run on all units, and numbers of 13 bits leave them room (2 * 4095 < 2^15). A B
 * and C D depend on the row or the column only: panels have their sums (crosses). All of it is
 * exact modulo 2^32, and the result fits.
 *
 * With one load of 32 bytes for each sum, loads would be the limit (two a cycle). So the second
 * row of a pair is kept as what its words are more than the first's, and its sums follow from the
 * first's: A' + D = (A + D) + (A' - A), modulo 2^16.
 *
 * Rows of a pass by for each block of steps of a panel of b, which stays in the first cache; what
 * f32 they have so far lies in an array. A worker's rows lie together for each block of steps:
 *
 *     a, for each 128 steps:  [rows] of  scale, cross, words [64] */
#ifndef MNEM_SRC_OPS_GEMM_ROW_TILES_H
#define MNEM_SRC_OPS_GEMM_ROW_TILES_H

/* ---- rows of a ---- */

/* What a row's first head is followed by. */
LANES_INLINE void put_cross(float *to, int64_t n) {
    const float *x = to + HEADS;
    __m128i sum = _mm_setzero_si128();
    for (int64_t k = block_words(n); k > 0; k -= 8, x += 8) {
        const __m128 low = _mm_loadu_ps(x), high = _mm_loadu_ps(x + 4);
        const __m128i even = _mm_castps_si128(_mm_shuffle_ps(low, high, 0x88));
        const __m128i odd = _mm_castps_si128(_mm_shuffle_ps(low, high, 0xdd));
        sum = _mm_sub_epi32(sum, _mm_madd_epi16(even, odd));
    }
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    *(word *)(void *)(to + 1) = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

/* The second row of a pair keeps what its words are more than the first's. */
LANES_INLINE void put_difference(float *to, const float *first, int64_t n) {
    to += HEADS, first += HEADS;
    for (int64_t k = block_words(n); k > 0; k -= 8, to += 8, first += 8) {
        const __m256i less = _mm256_loadu_si256((const void *)first);
        const __m256i x = _mm256_loadu_si256((const void *)to);
        _mm256_storeu_si256((void *)to, _mm256_sub_epi16(x, less));
    }
}

/* The block of steps from k on of a row. */
LANES_INLINE float *row_block(const mnem__gemm_part *part, int64_t row, int64_t k) {
    return part->to + panel_rows(k) * part->count + row * block_rows(block_steps(part, k));
}

/* 8 rows of n steps, used of them there. */
LANES_INLINE void pack_apart(mnem_type type, const char *const *x, int64_t n, float *to,
                             const int used) {
    float scales[8], factors[8];
    row_scales(type, x, n, used, scales, factors);
    for (int r = 0; r < used; r++, to += block_rows(n)) {
        *to = scales[r];
        row_words(type, x[r], n, factors[r], to + HEADS);
        put_cross(to, n);
        if (r % 2) put_difference(to, to - block_rows(n), n);
    }
}

/* Rows are indices. */
static void pack_a_rows(const mnem__gemm_part *part) {
    float buffer[8][CHUNK];
    const char *x[8];
    for (int64_t first = 0; first < part->count; first += 8)
        for (int64_t k = 0; k < part->steps; k += SCALED) {
            const int64_t n = block_steps(part, k);
            const int used = part->count - first < 8 ? (int)(part->count - first) : 8;
            float *to = row_block(part, first, k);
            part_rows(part, first, k, n, used, buffer, x);
            switch (part->matrix->type) {
            case MNEM_TYPE_BF16: pack_apart(MNEM_TYPE_BF16, x, n, to, used); break;
            case MNEM_TYPE_F16: pack_apart(MNEM_TYPE_F16, x, n, to, used); break;
            default: pack_apart(MNEM_TYPE_F32, x, n, to, used);
            }
        }
}

/* Rows are steps: 8 words of all columns at a time, which are turned. */
LANES_INLINE void pack_turned(mnem_type type, const column_block *c, float *to) {
    const int64_t panel = block_rows(c->steps);
    float scales[CHUNK], factors[CHUNK] = {0}, words[8][CHUNK], buffer[2][2 * CHUNK];
    const float *rows[8];
    column_scales(type, c, scales, factors);
    for (int64_t i = 0; i < block_words(c->steps); i += 8) {
        for (int64_t j = 0; j < 8; j++) {
            rows[j] = words[j];
            step_words(type, column_row(type, c, FOLD * (i + j), buffer[0]),
                       column_row(type, c, FOLD * (i + j) + 1, buffer[1]), factors, c->n, words[j]);
        }
        turn(rows, c->n, to + HEADS + i, panel, 8);
    }
    for (int64_t i = 0; i < c->n; i++, to += panel) {
        *to = scales[i];
        put_cross(to, c->steps);
        if (i % 2) put_difference(to, to - panel, c->steps);
    }
}

static void pack_a_columns(const mnem__gemm_part *part) {
    for (int64_t first = 0; first < part->count; first += CHUNK)
        for (int64_t k = 0; k < part->steps; k += SCALED) {
            const column_block c = column_block_get(part, first, CHUNK, k);
            float *to = row_block(part, first, k);
            switch (part->matrix->type) {
            case MNEM_TYPE_BF16: pack_turned(MNEM_TYPE_BF16, &c, to); break;
            case MNEM_TYPE_F16: pack_turned(MNEM_TYPE_F16, &c, to); break;
            default: pack_turned(MNEM_TYPE_F32, &c, to);
            }
        }
}

static void pack_a(const mnem__gemm_part *part) {
    if (part->matrix->across)
        pack_a_columns(part);
    else
        pack_a_rows(part);
}

/* ---- products ---- */

LANES_INLINE __m256i words_load(const float *p) {
    return _mm256_loadu_si256((const void *)p);
}

LANES_INLINE __m256i words_set(const float *p) {
    return _mm256_set1_epi32(*(const word *)(const void *)p);
}

/* Two words of both rows and of 32 columns. The processor gives its units work in the order of the
 * text; of some 1000 orders that were tried this one keeps them busiest. Registers: sums as named
 * (x the first row's, y the second's), words of rows in 8 to 11, and four more. */
#define MNEM__QUAD(i)                                                                              \
    "vpbroadcastd 8*" #i "(%[a]), %%ymm8\n\t"                                                      \
    "vpaddw 256*" #i "+128(%[b]), %%ymm8, %%ymm12\n\t"                                             \
    "vpbroadcastd 8*" #i "+4(%[a]), %%ymm9\n\t"                                                    \
    "vpaddw 256*" #i "+32(%[b]), %%ymm9, %%ymm13\n\t"                                              \
    "vpaddw 256*" #i "(%[b]), %%ymm9, %%ymm14\n\t"                                                 \
    "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t"                                                       \
    "vpbroadcastd 8*" #i "(%[more]), %%ymm10\n\t"                                                  \
    "vpaddw %%ymm12, %%ymm10, %%ymm12\n\t"                                                         \
    "vpaddd %%ymm15, %[x0], %[x0]\n\t"                                                             \
    "vpbroadcastd 8*" #i "+4(%[more]), %%ymm11\n\t"                                                \
    "vpaddw %%ymm14, %%ymm11, %%ymm14\n\t"                                                         \
    "vpaddw 256*" #i "+160(%[b]), %%ymm8, %%ymm15\n\t"                                             \
    "vpmaddwd %%ymm12, %%ymm14, %%ymm14\n\t"                                                       \
    "vpmaddwd %%ymm15, %%ymm13, %%ymm12\n\t"                                                       \
    "vpaddw %%ymm13, %%ymm11, %%ymm13\n\t"                                                         \
    "vpaddw %%ymm15, %%ymm10, %%ymm15\n\t"                                                         \
    "vpmaddwd %%ymm15, %%ymm13, %%ymm13\n\t"                                                       \
    "vpaddd %%ymm13, %[y1], %[y1]\n\t"                                                             \
    "vpaddd %%ymm12, %[x1], %[x1]\n\t"                                                             \
    "vpaddw 256*" #i "+192(%[b]), %%ymm8, %%ymm15\n\t"                                             \
    "vpaddd %%ymm14, %[y0], %[y0]\n\t"                                                             \
    "vpaddw 256*" #i "+96(%[b]), %%ymm9, %%ymm13\n\t"                                              \
    "vpaddw 256*" #i "+224(%[b]), %%ymm8, %%ymm12\n\t"                                             \
    "vpmaddwd %%ymm12, %%ymm13, %%ymm14\n\t"                                                       \
    "vpaddw %%ymm12, %%ymm10, %%ymm12\n\t"                                                         \
    "vpaddd %%ymm14, %[x3], %[x3]\n\t"                                                             \
    "vpaddw %%ymm13, %%ymm11, %%ymm13\n\t"                                                         \
    "vpmaddwd %%ymm12, %%ymm13, %%ymm13\n\t"                                                       \
    "vpaddw 256*" #i "+64(%[b]), %%ymm9, %%ymm14\n\t"                                              \
    "vpmaddwd %%ymm15, %%ymm14, %%ymm12\n\t"                                                       \
    "vpaddw %%ymm14, %%ymm11, %%ymm14\n\t"                                                         \
    "vpaddd %%ymm13, %[y3], %[y3]\n\t"                                                             \
    "vpaddw %%ymm15, %%ymm10, %%ymm15\n\t"                                                         \
    "vpmaddwd %%ymm15, %%ymm14, %%ymm14\n\t"                                                       \
    "vpaddd %%ymm14, %[y2], %[y2]\n\t"                                                             \
    "vpaddd %%ymm12, %[x2], %[x2]\n\t"

/* What a tile's sums begin with: the crosses of a row, which are in a register, and of columns. */
#define MNEM__CROSSES(x, row)                                                                      \
    "vpaddd -128(%[b]), " row ", %[" x "0]\n\t"                                                    \
    "vpaddd -96(%[b]), " row ", %[" x "1]\n\t"                                                     \
    "vpaddd -64(%[b]), " row ", %[" x "2]\n\t"                                                     \
    "vpaddd -32(%[b]), " row ", %[" x "3]\n\t"

#define MNEM__START                                                                                \
    "vpbroadcastd -4(%[a]), %%ymm8\n\t"                                                            \
    "vpbroadcastd -4(%[more]), %%ymm9\n\t" MNEM__CROSSES("x", "%%ymm8")                            \
        MNEM__CROSSES("y", "%%ymm9")

#define MNEM__NEXT                                                                                 \
    "add $32, %[a]\n\t"                                                                            \
    "add $32, %[more]\n\t"                                                                         \
    "add $1024, %[b]\n\t"                                                                          \
    "sub $8, %[words]\n\t"                                                                         \
    "jnz 1b"

/* Sums of two rows of words (a multiple of TURN); a, more (the second row's) and b point at the
 * words, ahead of which lie the crosses. */
LANES_INLINE void tile_sums(int64_t words, const float *a, const float *more, const float *b,
                            __m256i *x, __m256i *y) {
    __m256i x0, x1, x2, x3, y0, y1, y2, y3;
    __asm__ volatile(
        MNEM__START "1:\n\t" MNEM__QUAD(0) MNEM__QUAD(1) MNEM__QUAD(2) MNEM__QUAD(3) MNEM__NEXT
        : [a] "+r"(a), [more] "+r"(more), [b] "+r"(b), [words] "+r"(words), [x0] "=&x"(x0),
          [x1] "=&x"(x1), [x2] "=&x"(x2), [x3] "=&x"(x3), [y0] "=&x"(y0), [y1] "=&x"(y1),
          [y2] "=&x"(y2), [y3] "=&x"(y3)
        :
        : "memory", "cc", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    x[0] = x0, x[1] = x1, x[2] = x2, x[3] = x3;
    y[0] = y0, y[1] = y1, y[2] = y2, y[3] = y3;
}

/* The same of one row. */
LANES_INLINE void row_sums(int64_t words, const float *a, const float *b, __m256i *x) {
    LANES_UNROLL
    for (int v = 0; v < COLUMNS / 8; v++)
        x[v] = _mm256_add_epi32(words_set(a - 1), words_load(b - COLUMNS + 8 * v));
    for (; words > 0; words -= 2, a += 2, b += 2 * COLUMNS) {
        const __m256i even = words_set(a), odd = words_set(a + 1);
        LANES_UNROLL
        for (int v = 0; v < COLUMNS / 8; v++) {
            const __m256i left = _mm256_add_epi16(even, words_load(b + COLUMNS + 8 * v));
            const __m256i right = _mm256_add_epi16(odd, words_load(b + 8 * v));
            x[v] = _mm256_add_epi32(x[v], _mm256_madd_epi16(left, right));
        }
    }
}

/* One block of steps of one or two rows: x = from + their product. */
LANES_INLINE void multiply_rows(int64_t steps, const float *a, const float *b,
                                const float *const *from, lanes (*x)[VECTORS], const int rows) {
    const int64_t next = block_rows(steps);
    const float *words = b + HEADS * COLUMNS;
    __m256i sum[2][COLUMNS / 8];
    if (rows > 1)
        tile_sums(block_words(steps), a + HEADS, a + next + HEADS, words, sum[0], sum[1]);
    else
        row_sums(block_words(steps), a + HEADS, words, sum[0]);
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        const __m256 scale = _mm256_broadcast_ss(a + r * next);
        LANES_UNROLL
        for (int v = 0; v < COLUMNS / 8; v++) {
            const __m256 both = _mm256_mul_ps(scale, _mm256_loadu_ps(b + 8 * v));
            x[r][v / 2].v[v % 2] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][v]), both,
                                                   _mm256_loadu_ps(from[r] + 8 * v));
        }
    }
}

/* ---- all rows of a panel of b ---- */

/* One block that is not the last. start is NULL, or what sums begin with. */
LANES_INLINE void add_rows(const float *a, const float *b, const float *start,
                           float (*sums)[COLUMNS], const int rows) {
    const float *from[2] = {start ? start : sums[0], start ? start : sums[rows - 1]};
    lanes x[2][VECTORS];
    multiply_rows(SCALED, a, b, from, x, rows);
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) lanes_store(sums[r] + v * LANES, x[r][v]);
    }
}

static void add_block(const float *a, int64_t rows, const float *b, const float *start,
                      float (*sums)[COLUMNS]) {
    for (; rows > 1; rows -= 2, sums += 2, a += 2 * block_rows(SCALED))
        add_rows(a, b, start, sums, 2);
    if (rows) add_rows(a, b, start, sums, 1);
}

/* Where a row's sums go after the last block: n columns of out, or of partial. */
typedef struct row_end {
    char *out;
    float *partial;
    int64_t n;
} row_end;

LANES_INLINE void put_row_sums(const mnem__gemm_block *block, const row_end *end, const lanes *x,
                               const mnem_type type) {
    LANES_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int64_t n = end->n - v * LANES;
        lanes sum = x[v];
        if (n <= 0) return;
        if (block->from_partial) sum = lanes_add(lanes_load(end->partial + v * LANES), sum);
        if (block->to_out)
            put(type, end->out + v * LANES * real_bytes(type), sum, n, block->add_out);
        else
            lanes_store(end->partial + v * LANES, sum);
    }
}

/* The last block. The lines of out that get the sums are fetched before. */
LANES_INLINE void end_rows(const mnem__gemm_block *block, int64_t steps, const float *a,
                           const float *b, const float *start, float (*sums)[COLUMNS], row_end *end,
                           const int rows) {
    const float *from[2] = {start ? start : sums[0], start ? start : sums[rows - 1]};
    const int64_t bytes = end->n * real_bytes(block->out_type);
    lanes x[2][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int64_t i = 0; block->to_out && i < bytes; i += 64)
            __builtin_prefetch(end->out + r * block->out_stride + i, 1);
    multiply_rows(steps, a, b, from, x, rows);
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        switch (block->out_type) {
        case MNEM_TYPE_BF16: put_row_sums(block, end, x[r], MNEM_TYPE_BF16); break;
        case MNEM_TYPE_F16: put_row_sums(block, end, x[r], MNEM_TYPE_F16); break;
        default: put_row_sums(block, end, x[r], MNEM_TYPE_F32);
        }
        end->out += block->out_stride;
        if (end->partial) end->partial += block->partial_panel;
    }
}

static void end_block(const mnem__gemm_block *block, int64_t steps, const float *a, const float *b,
                      const float *start, float (*sums)[COLUMNS], row_end end) {
    int64_t rows = block->rows;
    for (; rows > 1; rows -= 2, sums += 2, a += 2 * block_rows(steps))
        end_rows(block, steps, a, b, start, sums, &end, 2);
    if (rows) end_rows(block, steps, a, b, start, sums, &end, 1);
}

static void multiply(const mnem__gemm_block *block) {
    _Alignas(64) float sums[BLOCK_ROWS][COLUMNS];
    const int64_t size = real_bytes(block->out_type);
    for (int64_t column = 0; column < block->columns; column += COLUMNS) {
        const float *start = block->b + column / COLUMNS * block->b_panel, *b = start + COLUMNS;
        const float *a = block->a;
        int64_t steps = block->steps, n = block->columns - column;
        for (; steps > SCALED; steps -= SCALED, start = NULL) {
            add_block(a, block->rows, b, start, sums);
            a += block->rows * block_rows(SCALED), b += block_rows(SCALED) * COLUMNS;
        }
        end_block(block, steps, a, b, start, sums,
                  (row_end){block->out + column * size,
                            block->partial ? block->partial + column : NULL,
                            n < COLUMNS ? n : COLUMNS});
    }
}

#endif
