/* causal_setup.c: see causal_setup.h. */
#include "ops/attention/causal_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"

enum { GAP_HEAD = 1, GAP_TOKEN = 3 }; /* elements */

static bool of_keys(causal_operand o) {
    return o == CAUSAL_K || o == CAUSAL_V || o == CAUSAL_DK || o == CAUSAL_DV;
}

static int heads_of(const causal_shape *s, causal_operand o) {
    return of_keys(o) ? s->kv_heads : s->heads;
}

static int width_of(const causal_shape *s, causal_operand o) {
    return o == CAUSAL_LOG ? 1 : s->n;
}

static mnem_type type_of(const causal_shape *s, causal_operand o) {
    if (o == CAUSAL_LOG) return s->types[0] == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    return s->types[o == CAUSAL_Q ? 0 : of_keys(o) ? 1 : 2];
}

static int tokens_of(const causal_shape *s) {
    return s->sequence * s->sequences;
}

static mnem_tensor tensor_of(const causal_shape *s, causal_operand o) {
    const int heads = heads_of(s, o), n = width_of(s, o);
    mnem_tensor t = mnem_tensor_3d(type_of(s, o), tokens_of(s), heads, n);
    const int64_t size = t.stride[2];
    t.stride[1] = (n + GAP_HEAD) * size;
    t.stride[0] = heads * t.stride[1] + GAP_TOKEN * size;
    t.offset = 5 * size;
    if (o == CAUSAL_LOG) t.dims = 2;
    return t;
}

static char *at(const causal_setup *s, causal_operand o, int t, int h, int c) {
    const mnem_tensor *x = &s->tensor[o];
    const int64_t size = (int64_t)mnem_type_row_bytes(x->type, 1);
    return s->bytes[o] + x->offset + t * x->stride[0] + h * x->stride[1] + c * size;
}

double causal_get(const causal_setup *s, causal_operand o, int t, int h, int c) {
    const char *from = at(s, o, t, h, c);
    float x;
    double wide;
    if (s->tensor[o].type == MNEM_TYPE_F64) {
        memcpy(&wide, from, sizeof wide);
        return wide;
    }
    assert_int_equal(mnem_dequantize_row(s->tensor[o].type, 1, from, &x), MNEM_OK);
    return (double)x;
}

void causal_set(causal_setup *s, causal_operand o, int t, int h, int c, double x) {
    char *to = at(s, o, t, h, c);
    const float narrow = (float)x;
    if (s->tensor[o].type == MNEM_TYPE_F64)
        memcpy(to, &x, sizeof x);
    else
        assert_int_equal(mnem_quantize_row(s->tensor[o].type, 1, &narrow, to), MNEM_OK);
}

void causal_set_token(causal_setup *s, causal_operand o, int t, double x) {
    for (int h = 0; h < heads_of(&s->shape, o); h++)
        for (int c = 0; c < width_of(&s->shape, o); c++) causal_set(s, o, t, h, c, x);
}

causal_setup causal_make(const causal_shape *shape, uint64_t seed) {
    causal_setup s = {.shape = *shape};
    rng r = {seed};
    if (s.shape.scale == 0) s.shape.scale = 1.0f / sqrtf((float)shape->n);
    for (int o = 0; o < CAUSAL_OPERANDS; o++) {
        const causal_operand which = (causal_operand)o;
        s.tensor[o] = tensor_of(shape, which);
        const uint64_t bytes =
            mnem_tensor_bytes(&s.tensor[o]) + (uint64_t)s.tensor[o].offset; /* or more */
        s.bytes[o] = malloc(bytes);
        s.expected[o] = calloc((size_t)tokens_of(shape) * (size_t)heads_of(shape, which) *
                                   (size_t)width_of(shape, which),
                               sizeof(double));
        assert_true(s.bytes[o] && s.expected[o]);
        memset(s.bytes[o], 0x5a, bytes);
        for (int t = 0; o <= CAUSAL_DOUT && t < tokens_of(shape); t++)
            for (int h = 0; h < heads_of(shape, which); h++)
                for (int c = 0; c < shape->n; c++)
                    causal_set(&s, which, t, h, c, 2 * (double)rng_float(&r));
    }
    return s;
}

void causal_free(causal_setup *s) {
    for (int o = 0; o < CAUSAL_OPERANDS; o++) {
        free(s->bytes[o]);
        free(s->expected[o]);
    }
}

/* ---- the reference ---- */

static double *expected(const causal_setup *s, causal_operand o, int t, int h) {
    const int width = width_of(&s->shape, o);
    return s->expected[o] +
           ((size_t)t * (size_t)heads_of(&s->shape, o) + (size_t)h) * (size_t)width;
}

/* One head of an operand as doubles [T][n]. */
static double *head_of(const causal_setup *s, causal_operand o, int h) {
    const int n = s->shape.n, tokens = tokens_of(&s->shape);
    double *x = malloc((size_t)tokens * (size_t)n * sizeof *x);
    assert_non_null(x);
    for (int t = 0; t < tokens; t++)
        for (int c = 0; c < n; c++) x[t * n + c] = causal_get(s, o, t, h, c);
    return x;
}

typedef struct head_data {
    double *q, *k, *v, *dout, *p;
    int head, kv_head;
} head_data;

static double dot(int n, const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The row of query t, which sees the keys [first, t]. */
static void expect_row(causal_setup *s, const head_data *d, int first, int t) {
    const int n = s->shape.n, count = t + 1 - first;
    double *out = expected(s, CAUSAL_OUT, t, d->head), *dq = expected(s, CAUSAL_DQ, t, d->head);
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < count; j++) {
        d->p[j] = dot(n, d->q + t * n, d->k + (first + j) * n) * (double)s->shape.scale;
        most = fmax(most, d->p[j]);
    }
    for (int j = 0; j < count; j++) sum += exp(d->p[j] - most);
    *expected(s, CAUSAL_LOG, t, d->head) = most + log(sum);
    for (int j = 0; j < count; j++) {
        d->p[j] = exp(d->p[j] - most) / sum;
        for (int c = 0; c < n; c++) out[c] += d->p[j] * d->v[(first + j) * n + c];
    }
    const double *dout = d->dout + t * n;
    const double from = dot(n, dout, out);
    for (int j = 0; j < count; j++) {
        double *dk = expected(s, CAUSAL_DK, first + j, d->kv_head);
        double *dv = expected(s, CAUSAL_DV, first + j, d->kv_head);
        const double ds =
            d->p[j] * (dot(n, dout, d->v + (first + j) * n) - from) * (double)s->shape.scale;
        for (int c = 0; c < n; c++) {
            dv[c] += d->p[j] * dout[c];
            dk[c] += ds * d->q[t * n + c];
            dq[c] += ds * d->k[(first + j) * n + c];
        }
    }
}

static void start_expected(causal_setup *s) {
    for (int o = CAUSAL_OUT; o < CAUSAL_OPERANDS; o++) {
        const causal_operand which = (causal_operand)o;
        const double start = o >= CAUSAL_DQ && s->shape.accumulate ? 1.0 : 0.0;
        const int each = heads_of(&s->shape, which) * width_of(&s->shape, which);
        for (int i = 0; i < tokens_of(&s->shape) * each; i++) s->expected[o][i] = start;
    }
}

void causal_expect(causal_setup *s) {
    const causal_shape *shape = &s->shape;
    start_expected(s);
    for (int h = 0; h < shape->heads; h++) {
        const int kv = h / (shape->heads / shape->kv_heads);
        head_data d = {head_of(s, CAUSAL_Q, h),
                       head_of(s, CAUSAL_K, kv),
                       head_of(s, CAUSAL_V, kv),
                       head_of(s, CAUSAL_DOUT, h),
                       malloc((size_t)shape->sequence * sizeof(double)),
                       h,
                       kv};
        for (int t = 0; t < tokens_of(shape); t++)
            expect_row(s, &d, t / shape->sequence * shape->sequence, t);
        double *all[] = {d.q, d.k, d.v, d.dout, d.p};
        for (int i = 0; i < 5; i++) free(all[i]);
    }
}

/* ---- runs ---- */

static mnem_tensor wanted(const causal_setup *s, causal_operand o) {
    return s->shape.absent & 1u << o ? (mnem_tensor){0} : s->tensor[o];
}

mnem_op_desc causal_desc(const causal_setup *s) {
    return (mnem_op_desc){.kind = MNEM_OP_CAUSAL_ATTENTION,
                          .in = {s->tensor[CAUSAL_Q], s->tensor[CAUSAL_K], s->tensor[CAUSAL_V]},
                          .out = s->tensor[CAUSAL_OUT],
                          .also = {wanted(s, CAUSAL_LOG)},
                          .workers = 1,
                          .scale = s->shape.scale,
                          .sequence = s->shape.sequence};
}

mnem_op_desc causal_desc_gradient(const causal_setup *s) {
    mnem_op_desc d = causal_desc(s);
    d.kind = MNEM_OP_CAUSAL_ATTENTION_GRAD;
    d.in[3] = s->tensor[CAUSAL_OUT];
    d.in[4] = s->tensor[CAUSAL_LOG];
    d.in[5] = s->tensor[CAUSAL_DOUT];
    d.out = wanted(s, CAUSAL_DQ);
    d.also[0] = wanted(s, CAUSAL_DK);
    d.also[1] = wanted(s, CAUSAL_DV);
    d.accumulate = s->shape.accumulate;
    return d;
}

void causal_run_forward(causal_setup *s, int workers) {
    op_run(causal_desc(s), workers,
           (mnem_op_args){.tokens = s->tokens ? s->tokens : tokens_of(&s->shape),
                          .in = {s->bytes[CAUSAL_Q], s->bytes[CAUSAL_K], s->bytes[CAUSAL_V]},
                          .out = s->bytes[CAUSAL_OUT],
                          .also = {s->bytes[CAUSAL_LOG]}});
}

void causal_run_gradient(causal_setup *s, int workers) {
    for (int o = CAUSAL_DQ; s->shape.accumulate && o < CAUSAL_OPERANDS; o++)
        for (int t = 0; t < tokens_of(&s->shape); t++)
            causal_set_token(s, (causal_operand)o, t, 1.0);
    op_run(causal_desc_gradient(s), workers,
           (mnem_op_args){.tokens = tokens_of(&s->shape),
                          .in = {s->bytes[CAUSAL_Q], s->bytes[CAUSAL_K], s->bytes[CAUSAL_V],
                                 s->bytes[CAUSAL_OUT], s->bytes[CAUSAL_LOG], s->bytes[CAUSAL_DOUT]},
                          .out = s->bytes[CAUSAL_DQ],
                          .also = {s->bytes[CAUSAL_DK], s->bytes[CAUSAL_DV]}});
}

void causal_run(causal_setup *s, int workers) {
    causal_run_forward(s, workers);
    causal_run_gradient(s, workers);
}

double causal_error(const causal_setup *s, causal_operand o) {
    const int heads = heads_of(&s->shape, o), width = width_of(&s->shape, o);
    double most = 0, size = 1;
    for (int t = 0; t < tokens_of(&s->shape); t++)
        for (int h = 0; h < heads; h++)
            for (int c = 0; c < width; c++) {
                const double right = expected(s, o, t, h)[c];
                const double error = fabs(causal_get(s, o, t, h, c) - right);
                if (!(error <= most)) most = error;
                if (isnan(error)) return error;
                size = fmax(size, fabs(right));
            }
    return most / size;
}

void causal_assert_same(const causal_setup *a, const causal_setup *b) {
    for (int o = CAUSAL_OUT; o < CAUSAL_OPERANDS; o++)
        assert_memory_equal(a->bytes[o], b->bytes[o],
                            mnem_tensor_bytes(&a->tensor[o]) + (uint64_t)a->tensor[o].offset);
}
