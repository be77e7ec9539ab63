/* norm_kernels.c: RMS_NORM and LAYER_NORM of a row, and their gradients, over lanes; compiled once
 * for each level.
 *
 * A row is read two or three times, from the first cache after the first time. */
#include "ops/rows/row_lanes.h"

enum { SUMS = 4 };

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

static void rms_norm_plain(int64_t n, const float *x, lanes scale, float *out) {
    EACH_LANES(n, lanes_store_part(out + i, lanes_mul(lanes_load_part(x + i, m), scale), m))
}

void ROW(rms_norm)(int64_t n, const void *in, const void *scales, float epsilon, void *to) {
    const float *x = in, *weight = scales;
    float *out = to;
    lanes scale = lanes_set(1.0f / sqrtf(sum_of_squares(n, x) / (float)n + epsilon));
    int64_t i = 0;
    if (!weight) {
        rms_norm_plain(n, x, scale, out);
        return;
    }
    for (; i + LANES <= n; i += LANES) {
        lanes v = lanes_mul(lanes_load(x + i), scale);
        lanes_store(out + i, lanes_mul(v, lanes_load(weight + i)));
    }
    if (i < n) {
        lanes v = lanes_mul(lanes_load_part(x + i, n - i), scale);
        lanes_store_part(out + i, lanes_mul(v, lanes_load_part(weight + i, n - i)), n - i);
    }
}

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
    lanes w = lanes_load_part(weight, m), b = bias ? lanes_load_part(bias, m) : lanes_zero();
    lanes_store_part(out, lanes_fma(z, w, b), m);
}

void ROW(layer_norm)(int64_t n, const void *in, const void *scales, const void *offsets,
                     float epsilon, void *to) {
    const float *x = in, *weight = scales, *bias = offsets, mean = sum_of(n, x) / (float)n;
    float *out = to;
    const lanes middle = lanes_set(mean), scale = lanes_set(layer_scale(n, x, mean, epsilon));
    EACH_LANES(
        n, layer_norm_part(x + i, middle, scale, weight + i, bias ? bias + i : NULL, out + i, m))
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

void ROW(rms_norm_grad)(const mnem__norm_grad *g) {
    const float mean_square = sum_of_squares(g->n, g->x) / (float)g->n;
    const float scale = 1.0f / sqrtf(mean_square + g->epsilon);
    if (g->dx) norm_dx(g, 0.0f, scale, (norm_sums){0.0f, sums_of(g, 0.0f).dz_x});
    if (g->dweight) norm_dweight(g, 0.0f, scale);
}

void ROW(layer_norm_grad)(const mnem__norm_grad *g) {
    const float mean = sum_of(g->n, g->x) / (float)g->n;
    const float scale = layer_scale(g->n, g->x, mean, g->epsilon);
    if (g->dx) norm_dx(g, mean, scale, sums_of(g, mean));
    if (g->dweight) norm_dweight(g, mean, scale);
    if (g->dbias) ROW(add)(g->n, g->dbias, g->dy, g->dbias);
}
