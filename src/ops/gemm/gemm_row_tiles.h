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
 *     a, for each 128 steps:  [rows] of  scale, cross, words [64] (of second rows: differences) */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_ROW_TILES_H
#define MNEM_SRC_OPS_GEMM_GEMM_ROW_TILES_H

LANES_INLINE __m256i words_load(const float *p) {
    return _mm256_loadu_si256((const void *)p);
}

LANES_INLINE __m256i words_set(const float *p) {
    return _mm256_set1_epi32(*(const word *)(const void *)p);
}

/* ---- rows of a ---- */

/* The 8 words of 16 numbers times factors. */
LANES_INLINE __m256i words_of(mnem_type type, const char *x, int64_t n, lanes factors) {
    if (type != MNEM_TYPE_BF16 || n < LANES) {
        float words[LANES / FOLD];
        put_row_words(words, lanes_mul(load_some(type, x, n), factors));
        return words_load(words);
    }
    const __m256i pairs = _mm256_loadu_si256((const void *)x);
    const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    const __m256 odd =
        _mm256_and_ps(_mm256_castsi256_ps(pairs), _mm256_castsi256_ps(_mm256_set1_epi32(-0x10000)));
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(even, factors.v[0]));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(odd, factors.v[1]));
    return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
}

/* Sum less the products of neighbours among 8 words, all of them twice. */
LANES_INLINE __m256i cross_of(__m256i sum, __m256i words) {
    const __m256i neighbours = _mm256_shuffle_epi32(words, 0xb1);
    return _mm256_sub_epi32(sum, _mm256_madd_epi16(words, neighbours));
}

LANES_INLINE void put_cross(float *to, __m256i sum) {
    const __m128i half =
        _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    *(word *)(void *)to = _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e)));
}

/* The block of steps from k (a multiple of SCALED) on of a row. */
LANES_INLINE float *row_block(const mnem__gemm_part *part, int64_t row, int64_t k) {
    const int64_t before = k / SCALED * block_rows(SCALED) * part->count;
    return part->to + before + row * block_rows(block_steps(part, k));
}

/* A pair of rows of n steps, or one: words, and the crosses ahead of them. */
LANES_INLINE void pack_pair(mnem_type type, const char *x, int64_t stride, int64_t n,
                            const float *factors, float *to, const int rows) {
    const int64_t next = block_rows(n), size = real_bytes(type);
    __m256i cross[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int64_t i = 0; i < n; i += LANES) {
        __m256i words[2];
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            words[r] = words_of(type, x + r * stride + i * size, n - i, lanes_set(factors[r]));
            cross[r] = cross_of(cross[r], words[r]);
        }
        float *at = to + HEADS + i / FOLD;
        _mm256_storeu_si256((void *)at, words[0]);
        if (rows > 1)
            _mm256_storeu_si256((void *)(at + next), _mm256_sub_epi16(words[1], words[0]));
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) put_cross(to + r * next + 1, cross[r]);
}

/* At most 8 rows: first all scales, reading row after row, which caches fetch ahead. */
LANES_INLINE void pack_some(mnem_type type, const mnem__gemm_part *part, int64_t first,
                            int64_t last) {
    const mnem__gemm_matrix *m = part->matrix;
    const int64_t size = real_bytes(type);
    const char *data = m->data + part->index * m->stride + part->k * size;
    float factors[MNEM__GEMM_K_BLOCK_MOST / SCALED][8];
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < part->steps; k += SCALED)
            *row_block(part, row, k) =
                scale_of(largest_of(type, data + row * m->stride + k * size, block_steps(part, k)),
                         &factors[k / SCALED][row - first]);
    for (int64_t row = first; row < last; row += 2)
        for (int64_t k = 0; k < part->steps; k += SCALED) {
            const char *x = data + row * m->stride + k * size;
            const float *factor = &factors[k / SCALED][row - first];
            float *to = row_block(part, row, k);
            if (row + 1 < last)
                pack_pair(type, x, m->stride, block_steps(part, k), factor, to, 2);
            else
                pack_pair(type, x, 0, block_steps(part, k), factor, to, 1);
        }
}

/* Rows are indices. */
static void pack_a_rows(const mnem__gemm_part *part) {
    for (int64_t first = 0; first < part->count; first += 8) {
        const int64_t last = part->count - first < 8 ? part->count : first + 8;
        switch (part->matrix->type) {
        case MNEM_TYPE_BF16: pack_some(MNEM_TYPE_BF16, part, first, last); break;
        case MNEM_TYPE_F16: pack_some(MNEM_TYPE_F16, part, first, last); break;
        default: pack_some(MNEM_TYPE_F32, part, first, last);
        }
    }
}

/* 8 words of 4 columns from column i on. */
LANES_INLINE void turn_pairs(const float *const *rows, int64_t i, float *to, int64_t next) {
    __m256 column[4];
    turn4(rows, i, column);
    LANES_UNROLL
    for (int c = 0; c < 4; c += 2) {
        const __m256i first = _mm256_castps_si256(column[c]);
        const __m256i second = _mm256_castps_si256(column[c + 1]);
        _mm256_storeu_si256((void *)(to + c * next), first);
        _mm256_storeu_si256((void *)(to + (c + 1) * next), _mm256_sub_epi16(second, first));
    }
}

LANES_INLINE void turn_columns(const float *const *rows, int64_t n, float *to, int64_t next) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) turn_pairs(rows, i, to + i * next, next);
    if (i == n) return;
    float left[4][8];
    turn_pairs(rows, i, left[0], 8);
    for (int c = 0; i + c < n; c++) memcpy(to + (i + c) * next, left[c], sizeof left[c]);
}

/* Rows are steps: 8 words of all columns at a time. */
LANES_INLINE void pack_turned(mnem_type type, const column_block *c, float *to) {
    const int64_t next = block_rows(c->steps);
    float scales[CHUNK], factors[CHUNK] = {0}, words[8][CHUNK], buffer[2][2 * CHUNK];
    float cross[CHUNK] = {0};
    const float *rows[8];
    column_scales(type, c, scales, factors);
    for (int64_t k = 0; k < block_words(c->steps); k += 8) {
        for (int64_t j = 0; j < 8; j++) {
            rows[j] = words[j];
            step_words(type, column_row(type, c, FOLD * (k + j), buffer[0]),
                       column_row(type, c, FOLD * (k + j) + 1, buffer[1]), factors, c->n, words[j]);
        }
        for (int64_t i = 0; i < c->n; i += 8) {
            __m256i sum = words_load(cross + i);
            for (int j = 0; j < 8; j += 2)
                sum = _mm256_sub_epi32(
                    sum, _mm256_madd_epi16(words_load(rows[j] + i), words_load(rows[j + 1] + i)));
            _mm256_storeu_si256((void *)(cross + i), sum);
        }
        turn_columns(rows, c->n, to + HEADS + k, next);
    }
    for (int64_t i = 0; i < c->n; i++, to += next) to[0] = scales[i], to[1] = cross[i];
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

_Static_assert(COLUMNS == 32 && HEADS == 2 && TURN == 8, "distances in the text below");

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
