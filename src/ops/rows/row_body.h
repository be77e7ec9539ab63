/* row_body.h: the row kernels over lanes; row_{plain,avx2,avx512}.c each make one table of them.
 *
 * Rows end anywhere: the last lanes are loaded as zeros and not stored. */
#include "ops/core/lanes.h"
#include "ops/rows/row_kernels.h"

enum { SUMS = 4 };

/* part, an inline call, for each i and the m elements there: m is a constant but at the end. */
#define EACH_LANES(n, part)                                                                        \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= (n); i += LANES) {                                                     \
            enum { m = LANES };                                                                    \
            part;                                                                                  \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int64_t m = (n)-i;                                                               \
            part;                                                                                  \
        }                                                                                          \
    }

/* Elements [i, i + m) of a row of either type, constant where it is called. Both ways for BF16 in
 * the one order of lanes_load_bf16_any. */
typedef enum row_type { F32, BF16 } row_type;

LANES_INLINE lanes get(row_type type, const void *row, int64_t i, int64_t m) {
    if (type == F32) return lanes_load_part((const float *)row + i, m);
    const uint16_t *x = (const uint16_t *)row + i;
    uint16_t part[LANES] = {0};
    return lanes_load_bf16_any(m == LANES ? x : memcpy(part, x, (size_t)m * sizeof *x));
}

LANES_INLINE void put(row_type type, void *row, int64_t i, int64_t m, lanes x) {
    uint16_t part[LANES], *to = (uint16_t *)row + i;
    if (type == F32) {
        lanes_store_part((float *)row + i, x, m);
    } else if (m == LANES) {
        lanes_store_bf16_any(to, x);
    } else {
        lanes_store_bf16_any(part, x);
        memcpy(to, part, (size_t)m * sizeof *to);
    }
}

static float sum_of_squares(int64_t n, const float *x) {
    lanes sum[SUMS];
    for (int j = 0; j < SUMS; j++) sum[j] = lanes_zero();
    int64_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
        LANES_UNROLL
        for (int j = 0; j < SUMS; j++) {
            lanes v = lanes_load(x + i + j * LANES);
            sum[j] = lanes_fma(v, v, sum[j]);
        }
    }
    for (int j = 0; i < n; i += LANES, j++) {
        lanes v = lanes_load_part(x + i, n - i < LANES ? n - i : LANES);
        sum[j] = lanes_fma(v, v, sum[j]);
    }
    return lanes_reduce_add(lanes_add(lanes_add(sum[0], sum[1]), lanes_add(sum[2], sum[3])));
}

static void rms_norm(int64_t n, const void *in, const void *scales, float epsilon, void *to) {
    const float *x = in, *weight = scales;
    float *out = to;
    lanes scale = lanes_set(1.0f / sqrtf(sum_of_squares(n, x) / (float)n + epsilon));
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes v = lanes_mul(lanes_load(x + i), scale);
        lanes_store(out + i, lanes_mul(v, lanes_load(weight + i)));
    }
    if (i < n) {
        lanes v = lanes_mul(lanes_load_part(x + i, n - i), scale);
        lanes_store_part(out + i, lanes_mul(v, lanes_load_part(weight + i, n - i)), n - i);
    }
}

/* The numerator stops at -100, where the true value is below 1e-41, so that the bounded power of
 * two in the denominator can't let a huge gate through. */
LANES_INLINE lanes silu_mul_lanes(lanes gate, lanes up) {
    lanes e = lanes_exp2(lanes_mul(gate, lanes_set(-0x1.715476p+0f))); /* log2(e) */
    lanes top = lanes_max(lanes_set(-100.0f), gate);
    return lanes_mul(lanes_div(top, lanes_add(lanes_set(1.0f), e)), up);
}

static void silu_mul(int64_t n, const void *gate, const void *up, void *out) {
    EACH_LANES(n, put(F32, out, i, m, silu_mul_lanes(get(F32, gate, i, m), get(F32, up, i, m))))
}

static void silu_mul_bf16(int64_t n, const void *gate, const void *up, void *out) {
    EACH_LANES(n, put(BF16, out, i, m, silu_mul_lanes(get(BF16, gate, i, m), get(BF16, up, i, m))))
}

static void add(int64_t n, const void *x, const void *y, void *to) {
    const float *a = x, *b = y;
    float *out = to;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(out + i, lanes_add(lanes_load(a + i), lanes_load(b + i)));
    for (; i < n; i++) out[i] = a[i] + b[i];
}

static void add_bf16(int64_t n, const void *a, const void *b, void *out) {
    EACH_LANES(n, put(BF16, out, i, m, lanes_add(get(BF16, a, i, m), get(BF16, b, i, m))))
}

static void rope_rest(int64_t n, int64_t dims, const float *x, float *out) {
    if (out != x) memcpy(out + dims, x + dims, (size_t)(n - dims) * sizeof *x);
}

/* (a, b) turned: a cos - b sin, b cos + a sin; the first product is rounded by itself. */
static void rope_neox(int64_t n, int64_t dims, const void *angles, float sign, const void *in,
                      void *to) {
    const int64_t half = dims / 2;
    const float *x = in, *table = angles, *sine = table + half;
    float *out = to;
    for (int64_t i = 0; i < half; i += LANES) {
        int64_t m = half - i < LANES ? half - i : LANES;
        lanes a = lanes_load_part(x + i, m), b = lanes_load_part(x + half + i, m);
        lanes c = lanes_load_part(table + i, m), s = lanes_load_part(sine + i, m);
        lanes plus = lanes_mul(lanes_set(sign), s), minus = lanes_sub(lanes_zero(), plus);
        lanes_store_part(out + i, lanes_fma(minus, b, lanes_mul(a, c)), m);
        lanes_store_part(out + half + i, lanes_fma(plus, a, lanes_mul(b, c)), m);
    }
    rope_rest(n, dims, x, out);
}

static void rope_near(int64_t n, int64_t dims, const void *angles, float sign, const void *in,
                      void *to) {
    static const float alternate[LANES] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
    const float *x = in, *table = angles, *sine = table + dims / 2;
    const lanes signs = lanes_mul(lanes_load(alternate), lanes_set(sign));
    float *out = to;
    int64_t i = 0;
    for (; i + LANES <= dims; i += LANES) {
        lanes v = lanes_load(x + i), c = lanes_load_twice(table + i / 2);
        lanes s = lanes_mul(signs, lanes_load_twice(sine + i / 2));
        lanes_store(out + i, lanes_fma(s, lanes_swap_pairs(v), lanes_mul(v, c)));
    }
    for (; i < dims; i += 2) {
        float a = x[i], b = x[i + 1], c = table[i / 2], s = sign * sine[i / 2];
        out[i] = fmaf(-s, b, a * c);
        out[i + 1] = fmaf(s, a, b * c);
    }
    rope_rest(n, dims, x, out);
}

#include "ops/rows/row_train_body.h"

/* Rows of BF16 in and out, all of them. */
static const mnem__row_kernels kernels_bf16 = {.silu_mul = silu_mul_bf16,
                                               .add = add_bf16,
                                               .gelu = gelu_bf16,
                                               .gelu_grad = gelu_grad_bf16,
                                               .silu_mul_grad = silu_mul_grad_bf16,
                                               .type = MNEM_TYPE_BF16};

#define ROW_KERNELS(level)                                                                         \
    {                                                                                              \
        .rms_norm = rms_norm, .silu_mul = silu_mul, .add = add, .rope_neox = rope_neox,            \
        .rope_near = rope_near, .quantize = mnem__a8_quantize_##level, .layer_norm = layer_norm,   \
        .rms_norm_grad = rms_norm_grad, .layer_norm_grad = layer_norm_grad, .gelu = gelu,          \
        .gelu_grad = gelu_grad, .silu_mul_grad = silu_mul_grad, .dropout = dropout, .load = load,  \
        .store = store, .type = MNEM_TYPE_F32, .bf16 = &kernels_bf16,                              \
    }
