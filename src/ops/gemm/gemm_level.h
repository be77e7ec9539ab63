/* gemm_level.h: what the table of one level has beside tiles: the panels of b, sums and
 * exponentials of rows; and the table. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_LEVEL_H
#define MNEM_SRC_OPS_GEMM_GEMM_LEVEL_H

#include "ops/gemm/gemm_panels.h"

static void pack_b(const mnem__gemm_part *part) {
    float *to = part->to;
    for (int64_t first = 0; first < part->count; first += COLUMNS, to += part->panel)
        for (int64_t i = 0; i < COLUMNS; i++)
            to[i] = part->start && first + i < part->count ? part->start[first + i] : 0.0f;
    pack(part, part->to + COLUMNS, COLUMNS);
}

enum { STRIP = 4 }; /* lanes of columns whose sums stay in registers */

/* Columns from the first on, STRIP * 16 of them. */
LANES_INLINE void add_strip(mnem_type type, const mnem__gemm_matrix *m, int64_t k, int64_t first,
                            float *out) {
    const int64_t size = real_bytes(type);
    const char *row = m->data + first * size;
    lanes sum[STRIP];
    LANES_UNROLL
    for (int v = 0; v < STRIP; v++) sum[v] = lanes_zero();
    for (; k > 0; k--, row += m->stride) {
        LANES_UNROLL
        for (int v = 0; v < STRIP; v++)
            sum[v] = lanes_add(sum[v], load_real(type, row + v * LANES * size));
    }
    LANES_UNROLL
    for (int v = 0; v < STRIP; v++)
        lanes_store(out + v * LANES, lanes_add(lanes_load(out + v * LANES), sum[v]));
}

/* As many whole strips as there are; gives the first column after them. */
static int64_t add_strips(const mnem__gemm_matrix *m, int64_t k, int64_t begin, int64_t end,
                          float *to) {
    for (; begin + STRIP * LANES <= end; begin += STRIP * LANES) switch (m->type) {
        case MNEM_TYPE_BF16: add_strip(MNEM_TYPE_BF16, m, k, begin, to + begin); break;
        case MNEM_TYPE_F16: add_strip(MNEM_TYPE_F16, m, k, begin, to + begin); break;
        default: add_strip(MNEM_TYPE_F32, m, k, begin, to + begin);
        }
    return begin;
}

static void add_columns(const mnem__gemm_matrix *m, int64_t k, int64_t begin, int64_t end,
                        void *to) {
    begin = add_strips(m, k, begin, end, to);
    for (int64_t first = begin; first < end; first += CHUNK) {
        const int64_t n = end - first < CHUNK ? end - first : CHUNK;
        float buffer[CHUNK], sum[CHUNK] = {0}, *out = (float *)to + first;
        for (int64_t row = 0; row < k; row++) {
            const float *x = floats(m, row, first, n, buffer);
            for (int64_t i = 0; i < n; i++) sum[i] += x[i];
        }
        for (int64_t i = 0; i < n; i++) out[i] += sum[i];
    }
}

/* e^(factor (x - largest)) is 2^((x - largest) factor log2(e)). */
LANES_INLINE lanes exp_of(lanes x, lanes largest, float factor) {
    return lanes_exp2(lanes_mul(lanes_sub(x, largest), lanes_set(factor * 0x1.715476p+0f)));
}

LANES_INLINE lanes exp_less(lanes x, lanes largest) {
    return exp_of(x, largest, 1);
}

/* Sums are f32 for 512 elements and f64 above, so that their length doesn't show. */
static void sum_exp(int64_t n, const void *from, double factor, double *largest, double *sum) {
    const float *x = from;
    const lanes low = lanes_set(-INFINITY);
    lanes most = low;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) most = lanes_max(lanes_load(x + i), most);
    if (i < n) most = lanes_max(lanes_below(lanes_load_part(x + i, n - i), n - i, low), most);
    const lanes top = lanes_set(lanes_reduce_max(most));
    *sum = 0;
    for (i = 0; i < n;) {
        lanes part = lanes_zero();
        for (int64_t j = 0; j < 512 && i < n; j += LANES, i += LANES) {
            const bool whole = i + LANES <= n;
            lanes y = whole ? lanes_load(x + i) : lanes_load_part(x + i, n - i);
            y = exp_of(y, top, (float)factor);
            part = lanes_add(part, whole ? y : lanes_below(y, n - i, lanes_zero()));
        }
        *sum += (double)lanes_reduce_add(part);
    }
    *largest = (double)lanes_reduce_max(most);
}

static void scale_exp(int64_t n, void *to, double largest, double factor) {
    float *x = to;
    const lanes top = lanes_set((float)largest), scale = lanes_set((float)factor);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(x + i, lanes_mul(exp_less(lanes_load(x + i), top), scale));
    if (i < n) {
        const lanes y = lanes_mul(exp_less(lanes_load_part(x + i, n - i), top), scale);
        lanes_store_part(x + i, y, n - i);
    }
}

/* As sum_exp adds. */
static double sum_apart(int64_t n, const void *student, const void *teacher, double largest,
                        double factor) {
    const float *s = student, *t = teacher;
    const lanes top = lanes_set((float)largest);
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        lanes part = lanes_zero();
        for (int64_t j = 0; j < 512 && i < n; j += LANES, i += LANES) {
            const int64_t rest = n - i < LANES ? n - i : LANES;
            const lanes y = lanes_load_part(t + i, rest);
            const lanes apart = lanes_sub(y, lanes_load_part(s + i, rest)); /* 0 past the end */
            part = lanes_fma(exp_of(y, top, (float)factor), apart, part);
        }
        sum += (double)lanes_reduce_add(part);
    }
    return sum;
}

static void teach_exp(int64_t n, void *student, const void *teacher, const mnem__gemm_teach *a) {
    float *s = student;
    const float *t = teacher, factor = (float)a->factor;
    const lanes top = lanes_set((float)a->largest), of = lanes_set((float)a->teacher_largest);
    const lanes hard = lanes_set((float)a->hard), soft = lanes_set((float)a->soft);
    const lanes less = lanes_set(-(float)a->teacher);
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t rest = n - i < LANES ? n - i : LANES;
        const lanes x = lanes_load_part(s + i, rest);
        lanes y = lanes_mul(exp_less(x, top), hard);
        y = lanes_fma(exp_of(x, top, factor), soft, y);
        y = lanes_fma(exp_of(lanes_load_part(t + i, rest), of, factor), less, y);
        lanes_store_part(s + i, y, rest);
    }
}

static void put_row(int64_t n, const void *from, mnem_type type, void *to, bool add) {
    const float *x = from;
    for (int64_t i = 0; i < n; i += LANES) {
        const lanes y = n - i < LANES ? lanes_load_part(x + i, n - i) : lanes_load(x + i);
        put(type, (char *)to + i * real_bytes(type), y, n - i, add);
    }
}

#define GEMM_KERNELS                                                                               \
    {                                                                                              \
        .wide = MNEM_TYPE_F32, .panel_rows = panel_rows,                                           \
        .k_most = FOLD > 1 ? MNEM__GEMM_K_BLOCK_MOST : 512, .rows = ROWS, .columns = COLUMNS,      \
        .block_rows = BLOCK_ROWS, .pack_a = pack_a, .pack_b = pack_b, .multiply = multiply,        \
        .add_columns = add_columns, .sum_exp = sum_exp, .scale_exp = scale_exp,                    \
        .sum_apart = sum_apart, .teach_exp = teach_exp, .put_row = put_row                         \
    }

#endif
