/* state_loss.c: STATE_LOSS: how far hidden states are from a teacher's, and its gradient.
 *
 * A token's loss is the mean square of the difference over that of the teacher's state, so a layer
 * whose numbers are large counts as much as another, and so does each token (as hidden states are
 * compared in TinyBERT, Jiao et al. 2020, but for the normalising):
 *
 *     loss = scale |x - t|^2 / (|t|^2 + n epsilon)        dx = loss_scale 2 (x - t) / (the same)
 *
 * Invariant: a token's loss and gradient depend on its own rows only; sums are of doubles, in one
 * order, by one function for every level of the processor.
 * Cost: both operands are read once for each. */
#include <math.h>
#include <string.h>

#include "ops/rows/real_rows.h"

enum { SUMS = 8, BUFFERS = 4 }; /* x, taught, dx, spare */

static bool is_gradient(const mnem_op_desc *desc) {
    return desc->kind == MNEM_OP_STATE_LOSS_GRAD;
}

static uint64_t row_bytes(const mnem_op_desc *desc) {
    return mnem__align_up((uint64_t)desc->in[0].shape[1] * mnem__real_unit(desc), 64);
}

static uint64_t workspace(const mnem_op *op) {
    return (uint64_t)op->desc.workers * BUFFERS * row_bytes(&op->desc);
}

static mnem_status check_losses(const mnem_op_desc *desc) {
    const mnem_tensor *out = &desc->out;
    const mnem_type wide = mnem__real_is_f64(desc) ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    if (out->type == wide && mnem__real_is(desc, out, 1) && out->shape[0] == desc->in[0].shape[0])
        return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 (F64 if in[0] is) [rows of in[0]]");
}

static mnem_status check_state_loss(const mnem_op_desc *desc) {
    MNEM__TRY(mnem__real_check_first(desc, 2));
    MNEM__TRY(mnem__real_check_like(desc, &desc->in[1], "in[1]"));
    MNEM__TRY(mnem__real_check_epsilon(desc));
    if (!isfinite(desc->scale))
        return mnem__op_fail(MNEM_INVALID, desc, "scale is %g, expected a finite number",
                             (double)desc->scale);
    return is_gradient(desc) ? mnem__real_check_like(desc, &desc->out, "out") : check_losses(desc);
}

/* ---- rows ---- */

static double number(const void *row, int64_t i, bool f64) {
    return f64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
}

typedef struct apart {
    double difference, size; /* sums of squares: of x - t, of t */
} apart;

static apart apart_get(int64_t n, const void *x, const void *taught, bool f64) {
    double difference[SUMS] = {0}, size[SUMS] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double t = number(taught, i, f64), d = number(x, i, f64) - t;
        difference[i % SUMS] += d * d;
        size[i % SUMS] += t * t;
    }
    apart a = {0, 0};
    for (int i = 0; i < SUMS; i++) a.difference += difference[i], a.size += size[i];
    return a;
}

static void pull(int64_t n, const void *x, const void *taught, double factor, bool f64, void *dx) {
    for (int64_t i = 0; i < n; i++) {
        const double d = factor * (number(x, i, f64) - number(taught, i, f64));
        if (f64)
            ((double *)dx)[i] = d;
        else
            ((float *)dx)[i] = (float)d;
    }
}

/* One worker's view. */
typedef struct view {
    const mnem_op_desc *desc;
    const mnem_op_args *args;
    mnem__real_rows x, taught, dx; /* dx: of the gradient */
    int64_t n;
    bool f64;
    char *buffer[BUFFERS];
} view;

static void put_loss(const view *v, int64_t t, double loss) {
    char *at = (char *)v->args->out + v->desc->out.offset + t * v->desc->out.stride[0];
    if (v->f64)
        *(double *)(void *)at = loss;
    else
        *(float *)(void *)at = (float)loss;
}

/* Tokens that aren't counted have no loss, and their gradient is 0. */
static void run_row(const view *v, int64_t t) {
    const bool counts = v->args->targets[t] >= 0;
    const void *x = mnem__real_read(&v->x, t, 0, 0, v->n, v->buffer[0]);
    const void *taught = mnem__real_read(&v->taught, t, 0, 0, v->n, v->buffer[1]);
    const apart a = apart_get(v->n, x, taught, v->f64);
    const double size = a.size + (double)v->n * (double)v->desc->epsilon;
    const double scale = counts ? (double)v->desc->scale : 0;
    if (!is_gradient(v->desc)) {
        put_loss(v, t, counts ? scale * a.difference / size : 0);
        return;
    }
    void *dx = mnem__real_place(&v->dx, t, 0, 0, v->buffer[2]);
    if (counts)
        pull(v->n, x, taught, (double)v->args->gradient_scale * scale * 2 / size, v->f64, dx);
    else
        memset(dx, 0, (size_t)v->n * mnem__real_unit(v->desc));
    mnem__real_write(&v->dx, t, 0, 0, v->n, v->buffer[2], v->buffer[3]);
}

static void run_state_loss(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const uint64_t row = row_bytes(d);
    view v = {.desc = d,
              .args = args,
              .x = mnem__real_rows_get(op->detail, &d->in[0], args->in[0]),
              .taught = mnem__real_rows_get(op->detail, &d->in[1], args->in[1]),
              .n = d->in[0].shape[1],
              .f64 = mnem__real_is_f64(d)};
    if (is_gradient(d)) v.dx = mnem__real_rows_get(op->detail, &d->out, args->out);
    v.dx.add = d->accumulate;
    for (uint64_t i = 0; i < BUFFERS; i++)
        v.buffer[i] = (char *)args->workspace + ((uint64_t)worker->index * BUFFERS + i) * row;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) run_row(&v, t);
}

MNEM__ROW_OP(state_loss, check_state_loss, workspace, run_state_loss)
MNEM__ROW_OP(state_loss_grad, check_state_loss, workspace, run_state_loss)
