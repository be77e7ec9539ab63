/* op_experts.h: the layouts of the matrices of EXPERTS: separate gate, up and down per expert; gate
 * above up in one matrix; or only up and down. */
#ifndef MNEM_SRC_OPS_CORE_OP_EXPERTS_H
#define MNEM_SRC_OPS_CORE_OP_EXPERTS_H

#include "mnem/ops.h"

/* Whether in[1] has both the gate and the up matrix of each expert. */
static inline bool mnem__experts_fused(const mnem_op_desc *d) {
    return d->in[2].dims == 0 && d->core != MNEM_OP_RELU_SQUARED;
}

/* The rows of in[1] per expert. */
static inline int64_t mnem__experts_first_rows(const mnem_op_desc *d) {
    return d->in[3].shape[1] * (mnem__experts_fused(d) ? 2 : 1);
}

static inline int64_t mnem__experts_count(const mnem_op_desc *d) {
    return d->in[1].shape[0] / mnem__experts_first_rows(d);
}

/* The number of products that read a token. */
static inline int64_t mnem__experts_readers(const mnem_op_desc *d) {
    return d->core == MNEM_OP_RELU_SQUARED ? 1 : 2;
}

#endif
