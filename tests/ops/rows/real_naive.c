/* real_naive.c: see real_naive.h. */
#include "ops/rows/real_naive.h"

#include <math.h>

static void put(const naive *c, double *to, int64_t i, double value) {
    if (to) to[i] = c->adds ? to[i] + value : value;
}

/* ---- one element at a time ---- */

static double gelu_tanh(double x) {
    return tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * pow(x, 3)));
}

double naive_gelu(double x) {
    return 0.5 * x * (1.0 + gelu_tanh(x));
}

double naive_gelu_slope(double x) {
    const double t = gelu_tanh(x);
    const double inner = sqrt(2.0 / acos(-1.0)) * (1.0 + 3.0 * 0.044715 * x * x);
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

static double silu(double x) {
    return x / (1.0 + exp(-x));
}

double naive_silu_slope(double x) {
    const double e = exp(-x);
    return (1.0 + e + x * e) / ((1.0 + e) * (1.0 + e));
}

static void element(const naive *c, int64_t i) {
    const double a = c->in[0][i], b = c->in[1] ? c->in[1][i] : 0, d = c->in[2] ? c->in[2][i] : 0;
    if (c->kind == MNEM_OP_ADD) put(c, c->out, i, a + b);
    if (c->kind == MNEM_OP_SILU_MUL) put(c, c->out, i, silu(a) * b);
    if (c->kind == MNEM_OP_GELU) put(c, c->out, i, naive_gelu(a));
    if (c->kind == MNEM_OP_GELU_GRAD) put(c, c->out, i, naive_gelu_slope(a) * b);
    if (c->kind != MNEM_OP_SILU_MUL_GRAD) return;
    put(c, c->out, i, d * b * naive_silu_slope(a));
    put(c, c->also[0], i, d * silu(a));
}

/* ---- norms ---- */

typedef struct statistics {
    double mean, scale;
} statistics;

static statistics statistics_of(const naive *c, const double *x, bool layer) {
    statistics s = {0, 0};
    for (int64_t i = 0; i < c->n && layer; i++) s.mean += x[i] / (double)c->n;
    for (int64_t i = 0; i < c->n; i++) s.scale += pow(x[i] - s.mean, 2) / (double)c->n;
    s.scale = 1.0 / sqrt(s.scale + c->epsilon);
    return s;
}

static void norm(const naive *c, int64_t row, bool layer) {
    const double *x = c->in[0] + row * c->n;
    const statistics s = statistics_of(c, x, layer);
    for (int64_t i = 0; i < c->n; i++)
        c->out[row * c->n + i] =
            (x[i] - s.mean) * s.scale * c->in[1][i] + (layer ? c->in[2][i] : 0);
}

/* dx by the matrix of derivatives: dz[i]/dx[j] = scale ((i == j) - [layer] / n - z[i] z[j] / n). */
static void norm_grad(const naive *c, int64_t row, bool layer) {
    const double *x = c->in[0] + row * c->n, *dy = c->in[2] + row * c->n, n = (double)c->n;
    const statistics s = statistics_of(c, x, layer);
    double dz = 0, dz_z = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const double z = (x[i] - s.mean) * s.scale;
        dz += c->in[1][i] * dy[i];
        dz_z += c->in[1][i] * dy[i] * z;
        if (c->also[0]) c->also[0][i] += dy[i] * z;
        if (c->also[1]) c->also[1][i] += dy[i];
    }
    for (int64_t i = 0; i < c->n; i++) {
        const double z = (x[i] - s.mean) * s.scale;
        put(c, c->out, row * c->n + i,
            s.scale * (c->in[1][i] * dy[i] - (layer ? dz / n : 0) - z * dz_z / n));
    }
}

/* ---- rows by number ---- */

static void embed(const naive *c, int64_t t) {
    for (int64_t i = 0; i < c->n; i++) c->out[t * c->n + i] = c->in[0][c->ids[t] * c->n + i];
}

static void embed_grad(const naive *c, int64_t t) {
    for (int64_t i = 0; i < c->n; i++) c->out[c->ids[t] * c->n + i] += c->in[0][t * c->n + i];
}

static void rope(const naive *c, int64_t row) {
    const double *x = c->in[0] + row * c->n, *table = c->in[1] + row / c->heads * c->dims;
    double *out = c->out + row * c->n;
    const int64_t half = c->dims / 2;
    for (int64_t i = 0; i < half; i++) {
        const int64_t a = c->neox ? i : 2 * i, b = c->neox ? i + half : 2 * i + 1;
        const double cosine = table[i], sine = c->inverse ? -table[half + i] : table[half + i];
        out[a] = x[a] * cosine - x[b] * sine;
        out[b] = x[b] * cosine + x[a] * sine;
    }
    for (int64_t i = c->dims; i < c->n; i++) out[i] = x[i];
}

void naive_run(const naive *c) {
    for (int64_t row = 0; row < c->rows; row++) switch (c->kind) {
        case MNEM_OP_RMS_NORM: norm(c, row, false); break;
        case MNEM_OP_LAYER_NORM: norm(c, row, true); break;
        case MNEM_OP_RMS_NORM_GRAD: norm_grad(c, row, false); break;
        case MNEM_OP_LAYER_NORM_GRAD: norm_grad(c, row, true); break;
        case MNEM_OP_EMBED: embed(c, row); break;
        case MNEM_OP_EMBED_GRAD: embed_grad(c, row); break;
        case MNEM_OP_ROPE: rope(c, row); break;
        default:
            for (int64_t i = 0; i < c->n; i++) element(c, row * c->n + i);
        }
}
