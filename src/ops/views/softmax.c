/* softmax.c: SOFTMAX of real operands over any dimension: that one becomes the last, and its rows
 * are split over the team. A row that isn't F32 (F64) beside each other is gathered into the
 * worker's part of the workspace, or made there: two rows at most.
 *
 * Sums are those of the row kernels; the largest element is taken off first, so that nothing
 * overflows. A row without a finite number is NaN, as one with a NaN is. */
#include <math.h>

#include "base/checked.h"
#include "ops/core/op_rows.h"
#include "ops/views/view.h"

static mnem_status check_softmax(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    MNEM__TRY(mnem__view_check_real(desc, in, "in[0]", false));
    MNEM__TRY(mnem__view_check_real(desc, &desc->out, "out", true));
    if (!mnem__tensor_same_shape(in, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the shape of in[0]");
    if (desc->axis < 0 || desc->axis >= in->dims)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "axis is %d, expected 0 to less than %d, the number of dimensions of in[0]",
            (int)desc->axis, (int)desc->in[0].dims);
    return MNEM_OK;
}

/* Kernels can take its rows where they are. */
static bool is_direct(const mnem_op_desc *desc, const mnem_tensor *t) {
    const mnem_type wide = mnem__row_key(desc).type;
    return t->type == wide && t->stride[desc->axis] == (int64_t)mnem_type_get(wide)->block_bytes;
}

static uint64_t row_bytes(const mnem_op_desc *desc) {
    const uint64_t unit = mnem_type_get(mnem__row_key(desc).type)->block_bytes;
    return mnem__align_up((uint64_t)desc->in[0].shape[desc->axis] * unit, 64);
}

static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    return (uint64_t)(!is_direct(desc, &desc->in[0]) + !is_direct(desc, &desc->out)) *
           row_bytes(desc);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static void softmax_f64(int64_t n, const double *x, double *out) {
    double top = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i++) sum += out[i] = exp(x[i] - top);
    for (int64_t i = 0; i < n; i++) out[i] /= sum;
}

/* One worker's rows. */
typedef struct rows {
    const mnem__row_kernels *kernels;
    int64_t n, unit; /* of a row; bytes of what kernels compute in */
    mnem__view in, out;
    char *in_row, *out_row; /* in the workspace, where they are needed */
} rows;

static const void *read_row(const rows *s, int64_t at) {
    if (s->in.type == s->kernels->type && mnem__view_dense(&s->in)) return s->in.base + at;
    for (int64_t i = 0; i < s->n; i += MNEM__VIEW_CHUNK) {
        const int64_t n = s->n - i < MNEM__VIEW_CHUNK ? s->n - i : MNEM__VIEW_CHUNK;
        mnem__view_buffer buffer, raw;
        const void *x = mnem__view_read(&s->in, s->kernels, at + i * s->in.stride[MNEM__VIEW_LAST],
                                        n, &buffer, &raw);
        s->kernels->store(s->kernels->type, n, x, s->in_row + i * s->unit);
    }
    return s->in_row;
}

static void write_row(const rows *s, int64_t at) {
    for (int64_t i = 0; i < s->n; i += MNEM__VIEW_CHUNK) {
        const int64_t n = s->n - i < MNEM__VIEW_CHUNK ? s->n - i : MNEM__VIEW_CHUNK;
        mnem__view_buffer raw;
        mnem__view_write(&s->out, s->kernels, at + i * s->out.stride[MNEM__VIEW_LAST], n,
                         s->out_row + i * s->unit, &raw);
    }
}

static void softmax_row(const rows *s, int64_t in_at, int64_t out_at) {
    const bool direct = s->out.type == s->kernels->type && mnem__view_dense(&s->out);
    const void *x = read_row(s, in_at);
    void *to = direct ? (void *)(s->out.base + out_at) : s->out_row;
    if (s->kernels->type == MNEM_TYPE_F64)
        softmax_f64(s->n, x, to);
    else
        s->kernels->softmax(s->n, x, to);
    if (!direct) write_row(s, out_at);
}

static void run_softmax(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    mnem__view_shape shape = mnem__view_shape_get(&d->out, args->tokens);
    mnem__view views[] = {mnem__view_get(&d->in[0], args->in[0]),
                          mnem__view_get(&d->out, args->out)};
    mnem__view_turn(&shape, views, 2, MNEM_TENSOR_DIMS - d->in[0].dims + d->axis);
    for (int i = 0; i < 2; i++) /* of a row of one element, what the descriptor says */
        views[i].stride[MNEM__VIEW_LAST] = (i ? &d->out : &d->in[0])->stride[d->axis];
    rows s = {.kernels = op->detail,
              .n = shape.n[MNEM__VIEW_LAST],
              .unit = (int64_t)mnem_type_get(mnem__row_key(d).type)->block_bytes,
              .in = views[0],
              .out = views[1]};
    s.in_row = s.out_row = mnem__op_scratch(args, worker, scratch_bytes(d));
    if (!is_direct(d, &d->in[0])) s.out_row += row_bytes(d);
    int64_t begin, end;
    mnem_team_split(worker, s.n ? mnem__view_rows(&shape) : 0, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        softmax_row(&s, mnem__view_row(&views[0], &shape, r), mnem__view_row(&views[1], &shape, r));
}

MNEM__ROW_OP(softmax, check_softmax, workspace, run_softmax)
