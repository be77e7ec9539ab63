/* add.c: ADD of real operands: out = in[0] + alpha in[1], broadcast, in chunks of columns.
 *
 * Rows of one shape, as models have them, go the way of other elementwise operators
 * (elementwise.h); all else is walked as views. Either way an element is one sum of f32 (f64),
 * rounded once more where out is 16 bits wide, so the bits are the same. */
#include <math.h>

#include "ops/rows/elementwise.h"
#include "ops/views/view.h"

static bool is_plain_row(const mnem_tensor *t, const mnem_tensor *like) {
    return t->dims == 2 && t->shape[0] == like->shape[0] && t->shape[1] == like->shape[1] &&
           t->stride[1] == (int64_t)mnem_type_get(t->type)->block_bytes;
}

/* Rows of one shape and nothing else asked for. */
static bool is_rows(const mnem_op_desc *d) {
    return (d->alpha == 0.0f || d->alpha == 1.0f) && is_plain_row(&d->out, &d->in[0]) &&
           is_plain_row(&d->in[0], &d->in[0]) && is_plain_row(&d->in[1], &d->in[0]);
}

static mnem_status check_add(const mnem_op_desc *desc) {
    MNEM__TRY(mnem__view_check_real(desc, &desc->in[0], "in[0]", false));
    MNEM__TRY(mnem__view_check_real(desc, &desc->in[1], "in[1]", false));
    MNEM__TRY(mnem__view_check_real(desc, &desc->out, "out", true));
    if (!mnem__view_spreads(&desc->in[0], &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] has another shape than out, and can't be broadcast to it: each "
                             "dimension must be that of out, or 1");
    if (!mnem__view_spreads(&desc->in[1], &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] has another shape than out, and can't be broadcast to it: each "
                             "dimension must be that of out, or 1");
    if (!isfinite(desc->alpha))
        return mnem__op_fail(MNEM_INVALID, desc, "alpha is %g, expected a finite number",
                             (double)desc->alpha);
    if (desc->accumulate && !is_rows(desc))
        return mnem__op_fail(MNEM_UNSUPPORTED, desc,
                             "accumulate is supported only if in[0] and in[1] have the shape of "
                             "out, in row layout, and alpha is 0 or 1");
    return MNEM_OK;
}

static void chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                  const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->add(c->n, c->in[0], c->in[1], c->out[0]);
}

static const void *scaled_f64(int64_t n, const double *x, double alpha, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = x[i] * alpha;
    return to;
}

static const void *scaled_f32(int64_t n, const float *x, float alpha, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = x[i] * alpha;
    return to;
}

/* in[0], in[1] and out, and a chunk of each. */
typedef struct sum {
    const mnem__row_kernels *kernels;
    float alpha;
    mnem__view_shape shape;
    mnem__view view[3];
    mnem__view_buffer buffer[3], raw;
} sum;

static void add_chunk(sum *s, int64_t row, int64_t column, int64_t n) {
    const void *x[2];
    int64_t at[3];
    for (int i = 0; i < 3; i++)
        at[i] = mnem__view_row(&s->view[i], &s->shape, row) +
                column * s->view[i].stride[MNEM__VIEW_LAST];
    for (int i = 0; i < 2; i++)
        x[i] = mnem__view_read(&s->view[i], s->kernels, at[i], n, &s->buffer[i], &s->raw);
    if (s->alpha != 1.0f)
        x[1] = s->kernels->type == MNEM_TYPE_F64
                   ? scaled_f64(n, x[1], (double)s->alpha, (double *)s->buffer[1].words)
                   : scaled_f32(n, x[1], s->alpha, (float *)(void *)s->buffer[1].words);
    void *out = mnem__view_place(&s->view[2], s->kernels, at[2], &s->buffer[2]);
    s->kernels->add(n, x[0], x[1], out);
    mnem__view_write(&s->view[2], s->kernels, at[2], n, out, &s->raw);
}

static void run_views(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    sum s;
    s.kernels = op->detail;
    s.alpha = d->alpha == 0.0f ? 1.0f : d->alpha;
    s.shape = mnem__view_shape_get(&d->out, args->tokens);
    for (int i = 0; i < 2; i++) s.view[i] = mnem__view_get(&d->in[i], args->in[i]);
    s.view[2] = mnem__view_get(&d->out, args->out);
    mnem__view_merge(&s.shape, s.view, 3);
    const int64_t n = s.shape.n[MNEM__VIEW_LAST];
    const int64_t chunks = (n + MNEM__VIEW_CHUNK - 1) / MNEM__VIEW_CHUNK;
    int64_t begin, end;
    mnem_team_split(worker, mnem__view_rows(&s.shape) * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u % chunks * MNEM__VIEW_CHUNK, rest = n - column;
        add_chunk(&s, u / chunks, column, rest < MNEM__VIEW_CHUNK ? rest : MNEM__VIEW_CHUNK);
    }
}

static void run_add(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    if (is_rows(&op->desc))
        mnem__elementwise_run(mnem__elementwise_kernels(op), op, args, worker, chunk);
    else
        run_views(op, args, worker);
}

MNEM__ROW_OP(add, check_add, NULL, run_add)
