/* row_f64.c: the row kernels in double, as plainly as can be: finite differences need digits, not
 * speed. The formulas are those of row_kernels.h. */
#include <math.h>
#include <string.h>

#include "ops/rows/drop_numbers.h"

static double rms_scale(int64_t n, const double *x, double epsilon) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return 1.0 / sqrt(sum / (double)n + epsilon);
}

static void rms_norm(int64_t n, const void *in, const void *scales, float epsilon, void *to) {
    const double *x = in, *weight = scales, scale = rms_scale(n, x, epsilon);
    double *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * (weight ? weight[i] : 1);
}

static double mean_of(int64_t n, const double *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum / (double)n;
}

/* 1 / sqrt(variance + epsilon) */
static double layer_scale(int64_t n, const double *x, double mean, double epsilon) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return 1.0 / sqrt(sum / (double)n + epsilon);
}

static void layer_norm(int64_t n, const void *in, const void *scales, const void *offsets,
                       float epsilon, void *to) {
    const double *x = in, *weight = scales, *bias = offsets;
    const double mean = mean_of(n, x), scale = layer_scale(n, x, mean, epsilon);
    double *out = to;
    for (int64_t i = 0; i < n; i++)
        out[i] = (x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0);
}

/* Both norms, z = (x - mean) scale being what weight is multiplied with; dz_mean is the mean of
 * dz = weight dy for LAYER_NORM, which takes the mean of x away, and 0 for RMS_NORM. */
static void norm_grad(const mnem__norm_grad *g, double mean, double scale, bool centered) {
    const double *x = g->x, *weight = g->weight, *dy = g->dy;
    double *dx = g->dx, *dweight = g->dweight, *dbias = g->dbias, dz_mean = 0, dz_z_mean = 0;
    for (int64_t i = 0; i < g->n; i++) {
        dz_mean += weight[i] * dy[i] / (double)g->n;
        dz_z_mean += weight[i] * dy[i] * (x[i] - mean) * scale / (double)g->n;
    }
    for (int64_t i = 0; i < g->n; i++) {
        const double z = (x[i] - mean) * scale;
        if (dx) dx[i] = scale * (weight[i] * dy[i] - (centered ? dz_mean : 0) - z * dz_z_mean);
        if (dweight) dweight[i] += dy[i] * z;
        if (dbias) dbias[i] += dy[i];
    }
}

static void rms_norm_grad(const mnem__norm_grad *g) {
    norm_grad(g, 0, rms_scale(g->n, g->x, g->epsilon), false);
}

static void layer_norm_grad(const mnem__norm_grad *g) {
    const double mean = mean_of(g->n, g->x);
    norm_grad(g, mean, layer_scale(g->n, g->x, mean, g->epsilon), true);
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void silu_mul(int64_t n, const void *a, const void *b, void *to) {
    const double *gate = a, *up = b;
    double *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

static void silu_mul_grad(int64_t n, const void *const in[3], void *dgate, void *dup) {
    const double *gate = in[0], *up = in[1], *dy = in[2];
    double *to_gate = dgate, *to_up = dup;
    for (int64_t i = 0; i < n; i++) {
        const double g = gate[i], s = sigmoid(g), d = dy[i], u = up[i];
        to_gate[i] = d * u * s * (1.0 + g * (1.0 - s));
        to_up[i] = d * g * s;
    }
}

static const double gelu_a = 1.5957691216057308, /* 2 sqrt(2 / pi) */
    gelu_b = 0.044715;

static void gelu(int64_t n, const void *in, void *to) {
    const double *x = in;
    double *out = to;
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * sigmoid(gelu_a * (x[i] + gelu_b * x[i] * x[i] * x[i]));
}

static void gelu_mul(int64_t n, const void *gate, const void *b, void *to) {
    const double *up = b;
    double *out = to;
    for (int64_t i = 0; i < n; i++) {
        double one;
        gelu(1, (const double *)gate + i, &one);
        out[i] = one * up[i];
    }
}

static void soft_cap(int64_t n, const void *in, float cap, void *to) {
    const double *x = in;
    double *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = (double)cap * tanh(x[i] / (double)cap) + 0.0 * x[i];
}

static void gelu_grad(int64_t n, const void *in, const void *d, void *to) {
    const double *all = in, *dy = d;
    double *dx = to;
    for (int64_t i = 0; i < n; i++) {
        const double x = all[i], s = sigmoid(gelu_a * (x + gelu_b * x * x * x));
        const double slope = gelu_a * (1.0 + 3.0 * gelu_b * x * x);
        dx[i] = dy[i] * (s + x * s * (1.0 - s) * slope);
    }
}

static void add(int64_t n, const void *x, const void *y, void *to) {
    const double *a = x, *b = y;
    double *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

/* Elements a and b turned by the pair's angle. */
static void turn(const double *table, int64_t half, int64_t pair, double sign, double a, double b,
                 double out[2]) {
    const double c = table[pair], s = sign * table[half + pair];
    out[0] = a * c - b * s;
    out[1] = b * c + a * s;
}

static void rope(int64_t n, int64_t dims, const double *table, double sign, const double *x,
                 double *out, bool neox) {
    const int64_t half = dims / 2;
    for (int64_t i = 0; i < half; i++) {
        const int64_t first = neox ? i : 2 * i, second = neox ? half + i : 2 * i + 1;
        double turned[2];
        turn(table, half, i, sign, x[first], x[second], turned);
        out[first] = turned[0];
        out[second] = turned[1];
    }
    if (out != x) memcpy(out + dims, x + dims, (size_t)(n - dims) * sizeof *x);
}

static void rope_neox(int64_t n, int64_t dims, const void *table, float sign, const void *x,
                      void *out) {
    rope(n, dims, table, sign, x, out, true);
}

static void rope_near(int64_t n, int64_t dims, const void *table, float sign, const void *x,
                      void *out) {
    rope(n, dims, table, sign, x, out, false);
}

static void dropout(int64_t n, int64_t column, const void *in, const mnem__drop *drop, void *to) {
    const double *x = in;
    double *out = to;
    uint32_t numbers[MNEM__DROP_COLUMNS];
    for (int64_t i = 0; i < n; i++) {
        if (i % MNEM__DROP_COLUMNS == 0) mnem__drop_numbers(drop, column + i, numbers);
        out[i] = x[i] * (numbers[i % MNEM__DROP_COLUMNS] < drop->threshold ? 0.0 : drop->scale);
    }
}

static void copy(mnem_type type, int64_t n, const void *x, void *out) {
    (void)type; /* F64: no other gets here */
    if (out != x) memcpy(out, x, (size_t)n * sizeof(double));
}

const mnem__row_kernels mnem__row_kernels_f64 = {
    .rms_norm = rms_norm,
    .silu_mul = silu_mul,
    .add = add,
    .rope_neox = rope_neox,
    .rope_near = rope_near,
    .layer_norm = layer_norm,
    .rms_norm_grad = rms_norm_grad,
    .layer_norm_grad = layer_norm_grad,
    .gelu = gelu,
    .gelu_mul = gelu_mul,
    .soft_cap = soft_cap,
    .gelu_grad = gelu_grad,
    .silu_mul_grad = silu_mul_grad,
    .dropout = dropout,
    .load = copy,
    .store = copy,
    .type = MNEM_TYPE_F64,
};
