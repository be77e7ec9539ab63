/* op_experts.h: how the matrices of EXPERTS lie: gate, up and down of each expert apart; gate and
 * up in one, below each other; or up and down alone. */
#ifndef MNEM_SRC_OPS_CORE_OP_EXPERTS_H
#define MNEM_SRC_OPS_CORE_OP_EXPERTS_H

#include "mnem/ops.h"

/* Whether in[1] has the gates and the ups of each expert. */
static inline bool mnem__experts_fused(const mnem_op_desc *d) {
    return d->in[2].dims == 0 && d->core != MNEM_OP_RELU_SQUARED;
}

/* Rows of in[1] for each expert. */
static inline int64_t mnem__experts_first_rows(const mnem_op_desc *d) {
    return d->in[3].shape[1] * (mnem__experts_fused(d) ? 2 : 1);
}

static inline int64_t mnem__experts_count(const mnem_op_desc *d) {
    return d->in[1].shape[0] / mnem__experts_first_rows(d);
}

/* How many products read a token. */
static inline int64_t mnem__experts_readers(const mnem_op_desc *d) {
    return d->core == MNEM_OP_RELU_SQUARED ? 1 : 2;
}

#endif
