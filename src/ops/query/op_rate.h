/* op_rate.h: the cost of an operator (op_query.h) as factors, for callers that need it in each run:
 * mnem_op_cost_get takes longer than the event of a small operator. */
#ifndef MNEM_SRC_OPS_QUERY_OP_RATE_H
#define MNEM_SRC_OPS_QUERY_OP_RATE_H

#include <stdbool.h>

#include "mnem/ops.h"

/* Of t > 0 tokens, all rows of a matrix: bytes + t * token_bytes, t * token_products, and what
 * mnem__op_rate_pages adds where there are position_bytes or state_bytes. */
typedef struct mnem__op_rate {
    bool known; /* false: the cost has another form: use mnem_op_cost_get */
    uint64_t bytes, token_bytes, token_products, position_bytes, state_bytes;
} mnem__op_rate;

mnem__op_rate mnem__op_rate_of(const mnem_op *op);
void mnem__op_rate_pages(const mnem__op_rate *rate, const mnem_op *op, const mnem_kv_sequence *kv,
                         int32_t count, uint64_t *bytes, uint64_t *products);

#endif
