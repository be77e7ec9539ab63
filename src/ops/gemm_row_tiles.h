/* gemm_row_tiles.h: tiles of one row by 96 columns, of blocks of whole numbers, for AVX2.
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
 * Of a row there are two words in registers while 96 columns pass by from the first cache, loaded
 * by the instructions that add them. So a worker's rows pass one after the other for each block of
 * steps, and what f32 they have so far lies in an array. */
#ifndef MNEM_SRC_OPS_GEMM_ROW_TILES_H
#define MNEM_SRC_OPS_GEMM_ROW_TILES_H

/* ---- panels of a: one row each ---- */

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

/* 8 rows of n steps, used of them there. */
LANES_INLINE void pack_apart(mnem_type type, const char *const *x, int64_t n, float *to,
                             int64_t panel, const int used) {
    float scales[8], factors[8];
    row_scales(type, x, n, used, scales, factors);
    for (int r = 0; r < used; r++, to += panel) {
        *to = scales[r];
        row_words(type, x[r], n, factors[r], to + HEADS);
        put_cross(to, n);
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
            float *to = part->to + first * part->panel + panel_rows(k);
            part_rows(part, first, k, n, used, buffer, x);
            switch (part->matrix->type) {
            case MNEM_TYPE_BF16: pack_apart(MNEM_TYPE_BF16, x, n, to, part->panel, used); break;
            case MNEM_TYPE_F16: pack_apart(MNEM_TYPE_F16, x, n, to, part->panel, used); break;
            default: pack_apart(MNEM_TYPE_F32, x, n, to, part->panel, used);
            }
        }
}

/* Rows are steps: 8 words of all columns at a time, which are turned. */
LANES_INLINE void pack_turned(mnem_type type, const column_block *c, float *to, int64_t panel) {
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
    }
}

static void pack_a_columns(const mnem__gemm_part *part) {
    for (int64_t first = 0; first < part->count; first += CHUNK)
        for (int64_t k = 0; k < part->steps; k += SCALED) {
            const column_block c = column_block_get(part, first, CHUNK, k);
            float *to = part->to + first * part->panel + panel_rows(k);
            switch (part->matrix->type) {
            case MNEM_TYPE_BF16: pack_turned(MNEM_TYPE_BF16, &c, to, part->panel); break;
            case MNEM_TYPE_F16: pack_turned(MNEM_TYPE_F16, &c, to, part->panel); break;
            default: pack_turned(MNEM_TYPE_F32, &c, to, part->panel);
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

/* Products of two words of a row. */
LANES_INLINE void add_pair(const float *a, const float *b, __m256i *sum, const int vectors) {
    const __m256i even = words_set(a), odd = words_set(a + 1);
    LANES_UNROLL
    for (int v = 0; v < 2 * vectors; v++) {
        const __m256i left = _mm256_add_epi16(even, words_load(b + COLUMNS + 8 * v));
        const __m256i right = _mm256_add_epi16(odd, words_load(b + 8 * v));
        const __m256i product = _mm256_madd_epi16(left, right);
        /* gcc 12 would move products ahead of sums, for which registers don't suffice */
        __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum[v]) : "x"(product));
    }
}

/* Where a row's sums go after the last block of steps: n columns of out, or of partial. */
typedef struct row_end {
    char *out;
    float *partial;
    int64_t n;
} row_end;

LANES_INLINE void put_row_sums(const mnem__gemm_block *block, const row_end *end, const lanes *x,
                               const mnem_type type, const int vectors) {
    LANES_UNROLL
    for (int v = 0; v < vectors; v++) {
        lanes sum = x[v];
        if (block->from_partial) sum = lanes_add(lanes_load(end->partial + v * LANES), sum);
        if (!block->to_out)
            lanes_store(end->partial + v * LANES, sum);
        else
            put(type, end->out + v * LANES * real_bytes(type), sum,
                v < vectors - 1 ? LANES : end->n - v * LANES, block->add_out);
    }
}

/* One block of steps of a row and of vectors * 16 columns: from + their product. */
LANES_INLINE void row_tile(int64_t steps, const float *a, const float *b, const float *from,
                           lanes *x, const int vectors) {
    __m256i sum[2 * VECTORS];
    const __m256 scale = _mm256_broadcast_ss(a);
    const __m256i cross = words_set(a + 1);
    const float *scales = b;
    a += HEADS, b += COLUMNS;
    LANES_UNROLL
    for (int v = 0; v < 2 * vectors; v++) sum[v] = _mm256_add_epi32(cross, words_load(b + 8 * v));
    b += COLUMNS;
    for (int64_t k = block_words(steps); k > 0; k -= TURN) {
        LANES_UNROLL
        for (int i = 0; i < TURN; i += 2, a += 2, b += 2 * COLUMNS) add_pair(a, b, sum, vectors);
    }
    LANES_UNROLL
    for (int v = 0; v < 2 * vectors; v++) {
        const __m256 both = _mm256_mul_ps(scale, _mm256_loadu_ps(scales + 8 * v));
        x[v / 2].v[v % 2] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[v]), both, _mm256_loadu_ps(from + 8 * v));
    }
}

/* All rows of a panel of b, whose blocks of steps stay in the first cache meanwhile. The lines of
 * out that get the sums are fetched before. */
LANES_INLINE void multiply_panel(const mnem__gemm_block *block, int64_t column, const int vectors) {
    float sums[BLOCK_ROWS][COLUMNS];
    const int64_t size = real_bytes(block->out_type), left = block->columns - column;
    const float *a = block->a, *b = block->b + column / COLUMNS * block->b_panel, *start = b;
    b += COLUMNS;
    for (int64_t k = 0; k < block->steps; k += SCALED) {
        const int64_t steps = block->steps - k < SCALED ? block->steps - k : SCALED;
        const bool last = steps == block->steps - k;
        row_end end = {block->out + column * size, block->partial ? block->partial + column : NULL,
                       left < COLUMNS ? left : COLUMNS};
        for (int64_t r = 0; r < block->rows; r++) {
            lanes x[VECTORS];
            for (int64_t i = 0; last && block->to_out && i < vectors * LANES * size; i += 64)
                __builtin_prefetch(end.out + i, 1);
            row_tile(steps, a + r * block->a_panel, b, k ? sums[r] : start, x, vectors);
            LANES_UNROLL
            for (int v = 0; !last && v < vectors; v++) lanes_store(sums[r] + v * LANES, x[v]);
            if (!last) continue;
            switch (block->out_type) {
            case MNEM_TYPE_BF16: put_row_sums(block, &end, x, MNEM_TYPE_BF16, vectors); break;
            case MNEM_TYPE_F16: put_row_sums(block, &end, x, MNEM_TYPE_F16, vectors); break;
            default: put_row_sums(block, &end, x, MNEM_TYPE_F32, vectors);
            }
            end.out += block->out_stride;
            if (end.partial) end.partial += block->partial_panel;
        }
        a += block_rows(SCALED), b += block_rows(SCALED) * COLUMNS;
    }
}

static void multiply(const mnem__gemm_block *block) {
    for (int64_t column = 0; column < block->columns; column += COLUMNS)
        switch ((block->columns - column - 1) / LANES) {
        case 0: multiply_panel(block, column, 1); break;
        case 1: multiply_panel(block, column, 2); break;
        case 2: multiply_panel(block, column, 3); break;
        case 3: multiply_panel(block, column, 4); break;
        case 4: multiply_panel(block, column, 5); break;
        default: multiply_panel(block, column, VECTORS);
        }
}

#endif
