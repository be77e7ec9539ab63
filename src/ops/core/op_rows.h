/* op_rows.h: f32 (or A8) operands as rows: [T, n] is T rows of n, [T, heads, n] is T * heads rows,
 * with any strides between them; the elements of a row are contiguous. */
#ifndef MNEM_SRC_OPS_CORE_OP_ROWS_H
#define MNEM_SRC_OPS_CORE_OP_ROWS_H

#include "base/checked.h"
#include "ops/core/op_impl.h"

typedef struct mnem__op_rows {
    int64_t heads, n;    /* heads is 1 for [T, n] */
    int64_t token, head; /* strides in bytes */
    char *base;
} mnem__op_rows;

static inline mnem__op_rows mnem__op_rows_get(const mnem_tensor *tensor, const void *base) {
    const bool headed = tensor->dims == 3;
    return (mnem__op_rows){.heads = headed ? tensor->shape[1] : 1,
                           .n = tensor->shape[tensor->dims - 1],
                           .token = tensor->stride[0],
                           .head = headed ? tensor->stride[1] : 0,
                           .base = (char *)base + tensor->offset};
}

static inline void *mnem__op_row(const mnem__op_rows *rows, int64_t t, int64_t h) {
    return rows->base + t * rows->token + h * rows->head;
}

/* One worker's part of a workspace of equal parts. */
static inline void *mnem__op_scratch(const mnem_op_args *args, const mnem_worker *worker,
                                     uint64_t bytes) {
    return (char *)args->workspace + (uint64_t)worker->index * bytes;
}

/* F32, 2 or 3 dimensions, rows without gaps. */
static inline bool mnem__op_is_rows(const mnem_tensor *tensor) {
    return mnem__tensor_is_f32(tensor, 2) || mnem__tensor_is_f32(tensor, 3);
}

/* A8 [tokens, n], rows at multiples of 64 bytes. */
static inline bool mnem__op_is_a8(const mnem_tensor *tensor, int64_t tokens, int64_t n) {
    return tensor->type == MNEM_TYPE_A8 && tensor->layout == MNEM_LAYOUT_ROW && tensor->dims == 2 &&
           mnem__tensor_valid(tensor) && tensor->shape[0] == tokens && tensor->shape[1] == n &&
           tensor->offset % 64 == 0 && tensor->stride[0] % 64 == 0;
}

/* I32 [tokens, k]: the choices of rows. */
static inline bool mnem__op_is_choice(const mnem_tensor *tensor, int64_t tokens) {
    return tensor->type == MNEM_TYPE_I32 && tensor->layout == MNEM_LAYOUT_ROW &&
           tensor->dims == 2 && mnem__tensor_valid(tensor) && tensor->shape[0] == tokens &&
           tensor->shape[1] > 0 && tensor->stride[1] == (int64_t)sizeof(int32_t);
}

#endif
