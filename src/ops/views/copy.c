/* copy.c: COPY between any strides, and so TRANSPOSE; rows of the last dimension are split over the
 * team. Bytes are moved as they are, so the type's size is all that counts.
 *
 * The dimension that lies densest in out becomes the last, so that out is written in lines. Where
 * in lies dense in the dimension before, as when a matrix is transposed, 16 rows go together: a
 * line of in is used up while it is in the first cache. */
#include "ops/views/copy.h"

#include <string.h>

#include "base/minmax.h"
#include "ops/core/gaps.h"

static mnem_status check_copy(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    MNEM__TRY(mnem__view_check(desc, in, "in[0]", false));
    MNEM__TRY(mnem__view_check(desc, out, "out", true));
    if (out->type != in->type)
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the type of in[0]");
    if (!mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the shape of in[0]");
    return MNEM_OK;
}

enum { TOGETHER = 16 };

static int densest(const mnem__view_shape *shape, const mnem__view *v) {
    int best = MNEM__VIEW_LAST;
    for (int d = 0; d < MNEM__VIEW_LAST; d++)
        if (shape->n[d] > 1 && (shape->n[best] == 1 || v->stride[d] < v->stride[best])) best = d;
    return best;
}

typedef struct copying {
    mnem__view_shape shape;
    mnem__view view[2]; /* from, to */
} copying;

static void copy_part(const copying *c, int64_t row, int64_t column, int64_t n) {
    const mnem__view *from = &c->view[0], *to = &c->view[1];
    const int64_t in = from->stride[MNEM__VIEW_LAST], out = to->stride[MNEM__VIEW_LAST];
    const char *x = from->base + mnem__view_row(from, &c->shape, row) + column * in;
    char *y = to->base + mnem__view_row(to, &c->shape, row) + column * out;
    if (out == to->unit)
        mnem__gather(to->unit, n, x, in, y);
    else if (in == from->unit)
        mnem__scatter(to->unit, n, x, y, out);
    else
        for (int64_t i = 0; i < n; i++) memcpy(y + i * out, x + i * in, (size_t)to->unit);
}

#define TILE(type)                                                                                 \
    for (int64_t r = 0; r < rows; r++)                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(y + r * out_row + i * out, x + r * in_row + i * in, sizeof(type));

/* n columns from the first on of rows that are neighbours in the dimension before the last. */
static void copy_tile(const copying *c, int64_t row, int64_t rows, int64_t column, int64_t n) {
    const mnem__view *from = &c->view[0], *to = &c->view[1];
    const int64_t in = from->stride[MNEM__VIEW_LAST], out = to->stride[MNEM__VIEW_LAST];
    const int64_t in_row = from->stride[2], out_row = to->stride[2];
    const char *x = from->base + mnem__view_row(from, &c->shape, row) + column * in;
    char *y = to->base + mnem__view_row(to, &c->shape, row) + column * out;
    switch (to->unit) {
    case 1: TILE(uint8_t) break;
    case 2: TILE(uint16_t) break;
    case 4: TILE(uint32_t) break;
    default: TILE(uint64_t)
    }
}

/* Rows [row, row + count), neighbours as in copy_tile. */
static void copy_together(const copying *c, int64_t row, int64_t count) {
    const int64_t n = c->shape.n[MNEM__VIEW_LAST];
    for (int64_t column = 0; column < n; column += TOGETHER)
        copy_tile(c, row, count, column, n - column < TOGETHER ? n - column : TOGETHER);
}

void mnem__view_copy(mnem__view_shape shape, mnem__view from, mnem__view to,
                     const mnem_worker *worker) {
    copying c = {shape, {from, to}};
    mnem__view_merge(&c.shape, c.view, 2);
    mnem__view_turn(&c.shape, c.view, 2, densest(&c.shape, &c.view[1]));
    const int64_t n = c.shape.n[MNEM__VIEW_LAST], rows = mnem__view_rows(&c.shape);
    const bool turned = c.view[0].stride[2] == from.unit && !mnem__view_dense(&c.view[0]);
    int64_t begin, end;
    if (rows == 1) { /* one long row */
        mnem_team_split(worker, n, 64, &begin, &end);
        if (begin < end) copy_part(&c, 0, begin, end - begin);
        return;
    }
    mnem_team_split(worker, rows, turned ? TOGETHER : 1, &begin, &end);
    for (int64_t r = begin, count = 1; r < end; r += count) {
        if (turned) {
            count =
                mnem__min_i64(c.shape.n[2] - r % c.shape.n[2], mnem__min_i64(TOGETHER, end - r));
            copy_together(&c, r, count);
        } else {
            copy_part(&c, r, 0, n);
        }
    }
}

static void run_copy(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    mnem__view_copy(mnem__view_shape_get(&d->out, args->tokens),
                    mnem__view_get(&d->in[0], args->in[0]), mnem__view_get(&d->out, args->out),
                    worker);
}

static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "copy plain", run_copy,
                                       NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

/* One kernel for all types. */
static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){MNEM_TYPE_F32, desc->in[0].layout};
}

const mnem__op_table mnem__op_copy = {.check = check_copy, .key = key, .levels = {&kernels}};
