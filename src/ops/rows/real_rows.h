/* real_rows.h: operands of F32, BF16, F16 or F64 as rows in the type that kernels compute in.
 *
 * Kernels compute in floats (or doubles), some in BF16 too. An operand of that type is passed in
 * place; of another type, part of a row at a time is converted into a buffer first, or out of
 * one afterwards (to nearest even). Buffers are small enough for the L1 cache, so only the
 * operand's own bytes go to memory. */
#ifndef MNEM_SRC_OPS_ROWS_REAL_ROWS_H
#define MNEM_SRC_OPS_ROWS_REAL_ROWS_H

#include "ops/core/op_rows.h"
#include "ops/rows/row_kernels.h"

typedef struct mnem__real_rows {
    mnem__op_rows rows;
    const mnem__row_kernels *kernels;
    mnem_type type;
    int64_t unit; /* bytes of an element */
    int64_t step; /* bytes from one to the next */
    bool direct;  /* of the kernels' type, without gaps */
    bool add;     /* as an output: accumulated */
} mnem__real_rows;

/* Absent (dims 0): rows.base is NULL. */
mnem__real_rows mnem__real_rows_get(const mnem__row_kernels *kernels, const mnem_tensor *tensor,
                                    const void *base);

static inline char *mnem__real_at(const mnem__real_rows *r, int64_t t, int64_t h, int64_t column) {
    return (char *)mnem__op_row(&r->rows, t, h) + column * r->step;
}
/* Copies n elements with gaps between them to buffer. */
void mnem__real_gather(const mnem__real_rows *r, const char *at, int64_t n, void *buffer);
/* Elements [column, column + n) of row (t, h): in place, or in buffer. */
static inline const void *mnem__real_read(const mnem__real_rows *r, int64_t t, int64_t h,
                                          int64_t column, int64_t n, void *buffer) {
    const char *at = mnem__real_at(r, t, h, column);
    if (r->direct) return at;
    if (r->step == r->unit)
        r->kernels->load(r->type, n, at, buffer);
    else
        mnem__real_gather(r, at, n, buffer);
    return buffer;
}
/* Where to compute them: in place or in buffer. write completes the output afterwards; spare is as
 * large as buffer, for accumulated rows. */
static inline void *mnem__real_place(const mnem__real_rows *r, int64_t t, int64_t h, int64_t column,
                                     void *buffer) {
    return r->direct && !r->add && r->rows.base ? mnem__real_at(r, t, h, column) : buffer;
}
void mnem__real_write(const mnem__real_rows *r, int64_t t, int64_t h, int64_t column, int64_t n,
                      void *buffer, void *spare);

/* ---- checks ---- */

/* Whether the operator computes in doubles: in[0] is F64. */
static inline bool mnem__real_is_f64(const mnem_op_desc *desc) {
    return desc->in[0].type == MNEM_TYPE_F64;
}
/* Whether an operand is valid: F64 if in[0] is, else F32, BF16 or F16; ROW. */
bool mnem__real_is_apart(const mnem_op_desc *desc, const mnem_tensor *tensor, int dims);
/* The same, with a contiguous last dimension. */
bool mnem__real_is(const mnem_op_desc *desc, const mnem_tensor *tensor, int dims);
/* Checks that in[0] is [T, n], or [T, heads, n] if dims is 3. */
mnem_status mnem__real_check_first(const mnem_op_desc *desc, int dims);
/* name's tensor has the shape of in[0]. */
mnem_status mnem__real_check_like(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name);
/* name's tensor is [n], n as wide as in[0]; sum: F32 (F64), as gradients of weights are. */
mnem_status mnem__real_check_wide(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name, bool sum);
mnem_status mnem__real_check_epsilon(const mnem_op_desc *desc);

static inline uint64_t mnem__real_unit(const mnem_op_desc *desc) {
    return mnem__real_is_f64(desc) ? sizeof(double) : sizeof(float);
}

#endif
