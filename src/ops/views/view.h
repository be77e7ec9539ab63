/* view.h: operands of 1 to 4 dimensions and any strides, walked row by row.
 *
 * The idea: operators here share a loop of 4 dimensions (a shape), and each operand is a base with
 * a stride for each of them, 0 where it is broadcast. Dimensions that lie behind each other in all
 * operands become one first, so that whole tensors are one long row. Kernels get a chunk of a row
 * where it lies, or gathered into a buffer on the stack; memory sees each element once.
 *
 *     shape [2, 3, 4]   a [2, 3, 4]: 48 16 4      merged: shape [1, 1, 2, 12]   a: 48 4
 *                       b    [3, 4]:  0 16 4                                    b:  0 4 */
#ifndef MNEM_SRC_OPS_VIEWS_VIEW_H
#define MNEM_SRC_OPS_VIEWS_VIEW_H

#include "ops/core/op_impl.h"
#include "ops/rows/row_kernels.h"

enum { MNEM__VIEW_LAST = MNEM_TENSOR_DIMS - 1, MNEM__VIEW_CHUNK = 512 };

typedef struct mnem__view {
    mnem_type type;
    int64_t unit; /* bytes of an element */
    int64_t stride[MNEM_TENSOR_DIMS];
    char *base;
} mnem__view;

/* What is walked: the dimensions of an operand aligned to the last, 1 before them. */
typedef struct mnem__view_shape {
    int64_t n[MNEM_TENSOR_DIMS];
} mnem__view_shape;

/* A buffer for a chunk of the widest type. */
typedef struct mnem__view_buffer {
    _Alignas(64) uint64_t words[MNEM__VIEW_CHUNK];
} mnem__view_buffer;

/* ---- checks: every error of a descriptor ---- */

/* name's tensor has 1 to 4 dimensions of single elements, strides that are multiples of them, and
 * a size that can be counted even where strides are 0. written: no two elements overlap. */
mnem_status mnem__view_check(const mnem_op_desc *desc, const mnem_tensor *tensor, const char *name,
                             bool written);
/* That, of F32, BF16 or F16, or of F64 where in[0] is. */
mnem_status mnem__view_check_real(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name, bool written);
/* Each of the last dimensions is that of whole, or 1. */
bool mnem__view_spreads(const mnem_tensor *tensor, const mnem_tensor *whole);

/* ---- walking ---- */

/* tokens in the place of the first dimension. */
mnem__view_shape mnem__view_shape_get(const mnem_tensor *tensor, int64_t tokens);
mnem__view mnem__view_get(const mnem_tensor *tensor, const void *base);
/* Makes one of dimensions that lie behind each other in all views. */
void mnem__view_merge(mnem__view_shape *shape, mnem__view *views, int count);
/* Puts dimension d last; the order of the others stays. */
void mnem__view_turn(mnem__view_shape *shape, mnem__view *views, int count, int d);

/* Rows: all but the last dimension. */
static inline int64_t mnem__view_rows(const mnem__view_shape *shape) {
    return shape->n[0] * shape->n[1] * shape->n[2];
}
/* Where row r begins, from the base on. */
static inline int64_t mnem__view_row(const mnem__view *v, const mnem__view_shape *shape,
                                     int64_t r) {
    const int64_t c = r % shape->n[2], rest = r / shape->n[2];
    return c * v->stride[2] + rest % shape->n[1] * v->stride[1] + rest / shape->n[1] * v->stride[0];
}

static inline bool mnem__view_dense(const mnem__view *v) {
    return v->stride[MNEM__VIEW_LAST] == v->unit;
}
/* A chunk (n at most MNEM__VIEW_CHUNK) of a row as it is: where it lies, or in raw. */
const void *mnem__view_raw(const mnem__view *v, int64_t at, int64_t n, mnem__view_buffer *raw);

/* The same as what kernels compute in; both buffers may be used. */
const void *mnem__view_read(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at,
                            int64_t n, mnem__view_buffer *buffer, mnem__view_buffer *raw);
/* Where to make a chunk: its place, or buffer; write then finishes the job. */
void *mnem__view_place(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at,
                       mnem__view_buffer *buffer);
void mnem__view_write(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at, int64_t n,
                      const void *made, mnem__view_buffer *raw);

#endif
