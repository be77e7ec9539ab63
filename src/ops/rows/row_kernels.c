/* row_kernels.c: ADD, ROPE, DROPOUT and conversions of a row over lanes, and the table of all row
 * kernels; compiled once for each level. Norms and activations have sources of their own. */
#include "ops/rows/drop_numbers.h"
#include "ops/rows/row_lanes.h"

void ROW(add)(int64_t n, const void *x, const void *y, void *to) {
    const float *a = x, *b = y;
    float *out = to;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(out + i, lanes_add(lanes_load(a + i), lanes_load(b + i)));
    for (; i < n; i++) out[i] = a[i] + b[i];
}

static void add_scaled(int64_t n, const float *x, float factor, float *out) {
    EACH_LANES(n, lanes_store_part(out + i,
                                   lanes_fma(lanes_set(factor), lanes_load_part(x + i, m),
                                             lanes_load_part(out + i, m)),
                                   m))
}

static float dot(int64_t n, const float *a, const float *b) {
    lanes sum = lanes_zero();
    EACH_LANES(n, sum = lanes_fma(lanes_load_part(a + i, m), lanes_load_part(b + i, m), sum))
    return lanes_reduce_add(sum);
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

/* ---- DROPOUT ---- */

static void dropout(int64_t n, int64_t column, const void *in, const mnem__drop *drop, void *to) {
    const float *x = in, scale = (float)drop->scale;
    float *out = to;
    for (int64_t first = 0; first < n; first += MNEM__DROP_COLUMNS) {
        const int64_t m = n - first < MNEM__DROP_COLUMNS ? n - first : MNEM__DROP_COLUMNS;
        uint32_t numbers[MNEM__DROP_COLUMNS];
        mnem__drop_numbers(drop, column + first, numbers);
        for (int64_t i = 0; i < m; i++)
            out[first + i] = x[first + i] * (numbers[i] < drop->threshold ? 0.0f : scale);
    }
}

/* ---- between types ---- */

#define CONVERT(n, whole, part)                                                                    \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= (n); i += LANES) whole;                                                \
        for (; i < (n); i++) part;                                                                 \
    }

static void load(mnem_type type, int64_t n, const void *x, void *to) {
    const uint16_t *in = x;
    float *out = to;
    if (type == MNEM_TYPE_BF16)
        CONVERT(n, lanes_store(out + i, lanes_load_bf16(in + i)), out[i] = mnem__bf16_float(in[i]))
    else if (type == MNEM_TYPE_F16)
        CONVERT(n, lanes_store(out + i, lanes_load_half(in + i)), out[i] = mnem__half_float(in[i]))
    else if (to != x)
        memcpy(to, x, (size_t)n * sizeof(float));
}

static void store(mnem_type type, int64_t n, const void *x, void *to) {
    const float *in = x;
    uint16_t *out = to;
    if (type == MNEM_TYPE_BF16)
        CONVERT(n, lanes_store_bf16(out + i, lanes_load(in + i)), out[i] = mnem__float_bf16(in[i]))
    else if (type == MNEM_TYPE_F16)
        CONVERT(n, lanes_store_half(out + i, lanes_load(in + i)), out[i] = mnem__float_half(in[i]))
    else if (to != x)
        memcpy(to, x, (size_t)n * sizeof(float));
}

/* Rows of BF16 in and out, all of them. */
static const mnem__row_kernels kernels_bf16 = {.silu_mul = ROW(silu_mul_bf16),
                                               .add = add_bf16,
                                               .gelu = ROW(gelu_bf16),
                                               .gelu_mul = ROW(gelu_mul_bf16),
                                               .gelu_grad = ROW(gelu_grad_bf16),
                                               .silu_mul_grad = ROW(silu_mul_grad_bf16),
                                               .type = MNEM_TYPE_BF16};

const mnem__row_kernels ROW(kernels) = {
    .rms_norm = ROW(rms_norm),
    .silu_mul = ROW(silu_mul),
    .add = ROW(add),
    .rope_neox = rope_neox,
    .rope_near = rope_near,
    .quantize = MNEM__AT_LEVEL(mnem__a8_quantize),
    .layer_norm = ROW(layer_norm),
    .rms_norm_grad = ROW(rms_norm_grad),
    .layer_norm_grad = ROW(layer_norm_grad),
    .gelu = ROW(gelu),
    .gelu_erf = ROW(gelu_erf),
    .relu_squared = ROW(relu_squared),
    .xielu = ROW(xielu),
    .relu_mul = ROW(relu_mul),
    .gelu_mul = ROW(gelu_mul),
    .swiglu_mul = ROW(swiglu_mul),
    .silu_mul_limited = ROW(silu_mul_limited),
    .sigmoid_mul = ROW(sigmoid_mul),
    .softplus_mul = ROW(softplus_mul),
    .dot = dot,
    .softmax = ROW(softmax),
    .sigmoid = ROW(sigmoid),
    .add_scaled = add_scaled,
    .soft_cap = ROW(soft_cap),
    .gelu_grad = ROW(gelu_grad),
    .silu_mul_grad = ROW(silu_mul_grad),
    .dropout = dropout,
    .load = load,
    .store = store,
    .type = MNEM_TYPE_F32,
    .bf16 = &kernels_bf16,
};
