/* op_extent.h: the part of an operator's operands that a run with given arguments uses. */
#ifndef MNEM_SRC_OPS_QUERY_OP_EXTENT_H
#define MNEM_SRC_OPS_QUERY_OP_EXTENT_H

#include "ops/core/op_impl.h"

/* Operand number i: inputs, out, further outputs. */
enum { MNEM__OP_OUT = MNEM_OP_INPUTS, MNEM__OP_OPERANDS = MNEM_OP_INPUTS + 1 + MNEM_OP_ALSO };

static inline const mnem_tensor *mnem__op_operand(const mnem_op_desc *d, int i) {
    if (i < MNEM__OP_OUT) return &d->in[i];
    return i == MNEM__OP_OUT ? &d->out : &d->also[i - MNEM__OP_OUT - 1];
}

/* The operand whose first dimension is args.tokens; NULL: args.tokens isn't used. */
static inline const mnem_tensor *mnem__op_counted(const mnem_op_desc *d) {
    switch (d->kind) {
    case MNEM_OP_CONCAT: return d->axis == 0 ? NULL : &d->out;
    case MNEM_OP_EMBED:
    case MNEM_OP_ROPE_TABLE:
    case MNEM_OP_ADD:
    case MNEM_OP_PRODUCT: return &d->out;
    default: return &d->in[0];
    }
}

/* Whether its state is page 0 of a sequence (ops.h). */
static inline bool mnem__op_has_state(mnem_op_kind kind) {
    return kind == MNEM_OP_CONV_SILU || kind == MNEM_OP_DELTA || kind == MNEM_OP_SCAN;
}

/* Whether it reads args.kv without writing there. */
static inline bool mnem__op_reads_pages(mnem_op_kind kind) {
    return kind == MNEM_OP_ATTENTION || kind == MNEM_OP_INDEX;
}

/* Whether it uses args.kv. */
static inline bool mnem__op_has_pages(mnem_op_kind kind) {
    return kind == MNEM_OP_KV_STORE || kind == MNEM_OP_SHORT_CONV || kind == MNEM_OP_INDEX_STORE ||
           mnem__op_reads_pages(kind) || mnem__op_has_state(kind);
}

/* EXPERTS gets its matrices elsewhere, and in[6] only serves predictions. */
static inline bool mnem__op_reads(const mnem_op_desc *d, int i) {
    return d->kind != MNEM_OP_EXPERTS || i == 0 || i == 4 || i == 5 || i >= MNEM__OP_OUT;
}

#endif
