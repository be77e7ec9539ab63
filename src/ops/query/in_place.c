/* in_place.c: which inputs an output may be, as data. */
#include "ops/query/in_place.h"
#include "mnem/op_query.h"

unsigned mnem__op_overwrites(mnem_op_kind kind) {
    switch (kind) {
    case MNEM_OP_RMS_NORM:
    case MNEM_OP_ROPE:
    case MNEM_OP_SILU_MUL:
    case MNEM_OP_GELU:
    case MNEM_OP_GELU_ERF:
    case MNEM_OP_RELU_SQUARED:
    case MNEM_OP_XIELU:
    case MNEM_OP_RELU_MUL:
    case MNEM_OP_GELU_MUL:
    case MNEM_OP_SOFT_CAP:
    case MNEM_OP_SWIGLU_MUL:
    case MNEM_OP_CONV_SILU:
    case MNEM_OP_ROW_GATE:
    case MNEM_OP_ROW_LEVEL:
    case MNEM_OP_ROW_CUT:
    case MNEM_OP_DROPOUT:
    case MNEM_OP_SOFTMAX:
    case MNEM_OP_SCALE: return 1;
    case MNEM_OP_SIGMOID_MUL:
    case MNEM_OP_MUL:
    case MNEM_OP_ADD: return 3;
    case MNEM_OP_GELU_GRAD: return 2;
    default: return 0;
    }
}

static bool same_place(const mnem_tensor *a, const mnem_tensor *b) {
    if (a->type != b->type || a->layout != b->layout || a->offset != b->offset ||
        !mnem__tensor_same_shape(a, b))
        return false;
    for (int d = 0; d < a->dims; d++)
        if (a->stride[d] != b->stride[d]) return false;
    return true;
}

uint32_t mnem_op_in_place(const mnem_op_desc *desc) {
    mnem_op op;
    mnem_op_desc with_team = *desc;
    if (with_team.workers < 1) with_team.workers = 1;
    if (mnem_op_prepare(&with_team, &op) != MNEM_OK) return 0;
    uint32_t may = mnem__op_overwrites(desc->kind);
    for (int i = 0; i < MNEM_OP_INPUTS; i++)
        if (!same_place(&desc->in[i], &desc->out)) may &= ~(1u << i);
    return may;
}
