/* row_train_body.h: the row kernels of training over lanes; part of row_body.h.
 *
 * Rows end anywhere: the last lanes are loaded as zeros and not stored. A row is read two or three
 * times, from the first cache after the first time. */
#include "ops/rows/drop_numbers.h"

/* How many of a row's elements the lanes at i hold. */
LANES_INLINE int64_t lanes_left(int64_t n, int64_t i) {
    return n - i < LANES ? n - i : LANES;
}

/* ---- norms ---- */

static float sum_of(int64_t n, const float *x) {
    lanes sum[SUMS];
    for (int j = 0; j < SUMS; j++) sum[j] = lanes_zero();
    int64_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
        LANES_UNROLL
        for (int j = 0; j < SUMS; j++) sum[j] = lanes_add(lanes_load(x + i + j * LANES), sum[j]);
    }
    for (int j = 0; i < n; i += LANES, j++)
        sum[j] = lanes_add(lanes_load_part(x + i, lanes_left(n, i)), sum[j]);
    return lanes_reduce_add(lanes_add(lanes_add(sum[0], sum[1]), lanes_add(sum[2], sum[3])));
}

/* x - mean; 0 past the row's end. */
LANES_INLINE lanes centered(const float *x, int64_t m, lanes mean) {
    return lanes_below(lanes_sub(lanes_load_part(x, m), mean), m, lanes_zero());
}

static float sum_of_centered_squares(int64_t n, const float *x, float mean) {
    lanes sum[SUMS], middle = lanes_set(mean);
    for (int j = 0; j < SUMS; j++) sum[j] = lanes_zero();
    int64_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
        LANES_UNROLL
        for (int j = 0; j < SUMS; j++) {
            lanes v = lanes_sub(lanes_load(x + i + j * LANES), middle);
            sum[j] = lanes_fma(v, v, sum[j]);
        }
    }
    for (int j = 0; i < n; i += LANES, j++) {
        lanes v = centered(x + i, lanes_left(n, i), middle);
        sum[j] = lanes_fma(v, v, sum[j]);
    }
    return lanes_reduce_add(lanes_add(lanes_add(sum[0], sum[1]), lanes_add(sum[2], sum[3])));
}

static float layer_scale(int64_t n, const float *x, float mean, float epsilon) {
    return 1.0f / sqrtf(sum_of_centered_squares(n, x, mean) / (float)n + epsilon);
}

LANES_INLINE void layer_norm_part(const float *x, lanes mean, lanes scale, const float *weight,
                                  const float *bias, float *out, int64_t m) {
    lanes z = lanes_mul(lanes_sub(lanes_load_part(x, m), mean), scale);
    lanes w = lanes_load_part(weight, m), b = lanes_load_part(bias, m);
    lanes_store_part(out, lanes_fma(z, w, b), m);
}

static void layer_norm(int64_t n, const void *in, const void *scales, const void *offsets,
                       float epsilon, void *to) {
    const float *x = in, *weight = scales, *bias = offsets, mean = sum_of(n, x) / (float)n;
    float *out = to;
    const lanes middle = lanes_set(mean), scale = lanes_set(layer_scale(n, x, mean, epsilon));
    EACH_LANES(n, layer_norm_part(x + i, middle, scale, weight + i, bias + i, out + i, m))
}

/* Sums over a row of weight dy, and of that times x - mean. */
typedef struct norm_sums {
    float dz, dz_x;
} norm_sums;

static norm_sums sums_of(const mnem__norm_grad *g, float mean) {
    const float *x = g->x, *weight = g->weight, *dy = g->dy;
    lanes dz[2] = {lanes_zero(), lanes_zero()}, dz_x[2] = {lanes_zero(), lanes_zero()};
    const lanes middle = lanes_set(mean);
    int64_t i = 0;
    for (; i + 2 * LANES <= g->n; i += 2 * LANES) {
        LANES_UNROLL
        for (int j = 0; j < 2; j++) {
            const int64_t at = i + j * LANES;
            lanes d = lanes_mul(lanes_load(weight + at), lanes_load(dy + at));
            dz[j] = lanes_add(d, dz[j]);
            dz_x[j] = lanes_fma(d, lanes_sub(lanes_load(x + at), middle), dz_x[j]);
        }
    }
    for (int j = 0; i < g->n; i += LANES, j++) {
        const int64_t m = lanes_left(g->n, i);
        lanes d = lanes_mul(lanes_load_part(weight + i, m), lanes_load_part(dy + i, m));
        dz[j] = lanes_add(d, dz[j]);
        dz_x[j] = lanes_fma(d, centered(x + i, m, middle), dz_x[j]);
    }
    return (norm_sums){lanes_reduce_add(lanes_add(dz[0], dz[1])),
                       lanes_reduce_add(lanes_add(dz_x[0], dz_x[1]))};
}

/* dx = scale (weight dy - dz_mean + (x - mean) push) */
typedef struct norm_pull {
    lanes mean, scale, dz_mean, push;
} norm_pull;

LANES_INLINE void norm_dx_part(const norm_pull *p, const float *x, const float *weight,
                               const float *dy, float *dx, int64_t m) {
    lanes d = lanes_mul(lanes_load_part(weight, m), lanes_load_part(dy, m));
    lanes v = lanes_sub(lanes_load_part(x, m), p->mean);
    v = lanes_fma(v, p->push, lanes_sub(d, p->dz_mean));
    lanes_store_part(dx, lanes_mul(v, p->scale), m);
}

static void norm_dx(const mnem__norm_grad *g, float mean, float scale, norm_sums sums) {
    const float *x = g->x, *weight = g->weight, *dy = g->dy, n = (float)g->n;
    const norm_pull p = {lanes_set(mean), lanes_set(scale), lanes_set(sums.dz / n),
                         lanes_set(-(sums.dz_x / n * (scale * scale)))};
    float *dx = g->dx;
    EACH_LANES(g->n, norm_dx_part(&p, x + i, weight + i, dy + i, dx + i, m))
}

LANES_INLINE void norm_dweight_part(lanes mean, lanes scale, const float *x, const float *dy,
                                    float *dweight, int64_t m) {
    lanes z = lanes_mul(lanes_sub(lanes_load_part(x, m), mean), scale);
    lanes sum = lanes_load_part(dweight, m);
    lanes_store_part(dweight, lanes_fma(lanes_load_part(dy, m), z, sum), m);
}

static void norm_dweight(const mnem__norm_grad *g, float mean, float scale) {
    const float *x = g->x, *dy = g->dy;
    const lanes middle = lanes_set(mean), factor = lanes_set(scale);
    float *dweight = g->dweight;
    EACH_LANES(g->n, norm_dweight_part(middle, factor, x + i, dy + i, dweight + i, m))
}

static void rms_norm_grad(const mnem__norm_grad *g) {
    const float mean_square = sum_of_squares(g->n, g->x) / (float)g->n;
    const float scale = 1.0f / sqrtf(mean_square + g->epsilon);
    if (g->dx) norm_dx(g, 0.0f, scale, (norm_sums){0.0f, sums_of(g, 0.0f).dz_x});
    if (g->dweight) norm_dweight(g, 0.0f, scale);
}

static void layer_norm_grad(const mnem__norm_grad *g) {
    const float mean = sum_of(g->n, g->x) / (float)g->n;
    const float scale = layer_scale(g->n, g->x, mean, g->epsilon);
    if (g->dx) norm_dx(g, mean, scale, sums_of(g, mean));
    if (g->dweight) norm_dweight(g, mean, scale);
    if (g->dbias) add(g->n, g->dbias, g->dy, g->dbias);
}

/* ---- GELU, SILU_MUL_GRAD ---- */

/* -|x| */
LANES_INLINE lanes minus_abs(lanes x) {
    return lanes_min(x, lanes_sub(lanes_zero(), x));
}

/* e^x of x up to 0. */
LANES_INLINE lanes exp_below(lanes x) {
    return lanes_exp2_upto127(lanes_mul(x, lanes_set(0x1.715476p+0f))); /* log2(e) */
}

/* Given e = e^-|x|: 1 / (1 + e), and 1 minus that without cancellation; the first is the sigmoid
 * of x >= 0, the second of others. */
typedef struct sigmoids {
    lanes high, low;
} sigmoids;

LANES_INLINE sigmoids sigmoids_of(lanes e) {
    const lanes one = lanes_set(1.0f), high = lanes_div(one, lanes_add(one, e));
    return (sigmoids){high, lanes_mul(e, high)};
}

/* Times -log2(e): 2 sqrt(2 / pi), and that times 0.044715, so that e^-v = 2^(x (a + b x^2)). */
static const double gelu_a = 1.5957691216057308, gelu_b = 0.07135481627260025;
static const double gelu_base = -1.4426950408889634;

LANES_INLINE lanes gelu_log2(lanes x, lanes square) {
    return lanes_mul(x, lanes_fma(square, lanes_set((float)(gelu_base * gelu_b)),
                                  lanes_set((float)(gelu_base * gelu_a))));
}

/* Between the steps: a factor, and e^-v or 1 + e^-v, infinite where the inverse is too small. */
typedef struct gelu_step {
    lanes factor, e;
} gelu_step;

/* As EACH_LANES, in two steps: begin, of i and m, makes now, which end takes with at and m. The
 * next lanes begin before the last end: the shorter a chain of operations that wait for each other,
 * the more of them does the processor work on at once. */
#define EACH_GELU(n, begin, end)                                                                   \
    {                                                                                              \
        int64_t i = 0, at = 0;                                                                     \
        if (LANES <= (n)) {                                                                        \
            enum { m = LANES };                                                                    \
            gelu_step now = begin;                                                                 \
            for (i = LANES; i + LANES <= (n); i += LANES) {                                        \
                const gelu_step next = begin;                                                      \
                end;                                                                               \
                now = next;                                                                        \
                at = i;                                                                            \
            }                                                                                      \
            end;                                                                                   \
            at = i;                                                                                \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int64_t m = (n)-i;                                                               \
            const gelu_step now = begin;                                                           \
            end;                                                                                   \
        }                                                                                          \
    }

LANES_INLINE gelu_step gelu_begin(lanes x) {
    lanes power = lanes_min(lanes_set(128.0f), gelu_log2(x, lanes_mul(x, x)));
    lanes e = lanes_exp2_inside(lanes_max(lanes_set(-126.0f), power));
    return (gelu_step){x, lanes_add(lanes_set(1.0f), e)};
}

/* An infinity of the wrong sign becomes a NaN, not a 0 that would hide it. */
LANES_INLINE void gelu_row(row_type type, int64_t n, const void *x, void *out) {
    EACH_GELU(n, gelu_begin(get(type, x, i, m)),
              put(type, out, at, m, lanes_div(now.factor, now.e)))
}

static void gelu(int64_t n, const void *x, void *out) {
    gelu_row(F32, n, x, out);
}

static void gelu_bf16(int64_t n, const void *x, void *out) {
    gelu_row(BF16, n, x, out);
}

/* x v' and e^-v. Where the term isn't 0 in floats: x is held there, so that its square stays finite
 * and e^-v is 2^-126 at least. The sum makes a NaN of an infinity. */
LANES_INLINE gelu_step gelu_slope_begin(lanes x) {
    const lanes near = lanes_max(lanes_set(-13.0f), lanes_min(lanes_set(10.0f), x));
    const lanes square = lanes_mul(near, near), power = gelu_log2(near, square);
    lanes slope = lanes_fma(square, lanes_set((float)(3 * gelu_b)), lanes_set((float)gelu_a));
    slope = lanes_fma(lanes_zero(), x, lanes_mul(near, slope));
    return (gelu_step){slope, lanes_exp2_inside(lanes_min(lanes_set(128.0f), power))};
}

/* 1 - s is e s, without cancellation, or 1 where e is infinite. */
LANES_INLINE lanes gelu_slope_end(gelu_step g) {
    const lanes one = lanes_set(1.0f), s = lanes_div(one, lanes_add(one, g.e));
    return lanes_fma(g.factor, lanes_mul(s, lanes_min(lanes_mul(g.e, s), one)), s);
}

LANES_INLINE void gelu_grad_part(row_type type, gelu_step now, const void *dy, void *dx, int64_t at,
                                 int64_t m) {
    const lanes slope = gelu_slope_end(now);
    put(type, dx, at, m, lanes_mul(slope, get(type, dy, at, m)));
}

static void gelu_grad(int64_t n, const void *x, const void *dy, void *dx) {
    EACH_GELU(n, gelu_slope_begin(get(F32, x, i, m)), gelu_grad_part(F32, now, dy, dx, at, m))
}

static void gelu_grad_bf16(int64_t n, const void *x, const void *dy, void *dx){
    EACH_GELU(n, gelu_slope_begin(get(BF16, x, i, m)), gelu_grad_part(BF16, now, dy, dx, at, m))}

LANES_INLINE void silu_mul_grad_part(row_type type, const void *const in[3], int64_t i, void *dgate,
                                     void *dup, int64_t m) {
    lanes g = get(type, in[0], i, m), up = get(type, in[1], i, m), d = get(type, in[2], i, m);
    const sigmoids both = sigmoids_of(exp_below(minus_abs(g)));
    lanes s = lanes_select_sign(g, both.low, both.high);
    lanes rest = lanes_select_sign(g, both.high, both.low);
    lanes slope = lanes_fma(lanes_mul(g, rest), s, s);
    put(type, dgate, i, m, lanes_mul(lanes_mul(d, up), slope));
    put(type, dup, i, m, lanes_mul(d, lanes_mul(g, s)));
}

static void silu_mul_grad(int64_t n, const void *const in[3], void *dgate, void *dup) {
    EACH_LANES(n, silu_mul_grad_part(F32, in, i, dgate, dup, m))
}

static void silu_mul_grad_bf16(int64_t n, const void *const in[3], void *dgate, void *dup) {
    EACH_LANES(n, silu_mul_grad_part(BF16, in, i, dgate, dup, m))
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
