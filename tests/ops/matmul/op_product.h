/* op_product.h: a MATMUL with everything that it needs, for tests. */
#ifndef MNEM_TESTS_OPS_MATMUL_OP_PRODUCT_H
#define MNEM_TESTS_OPS_MATMUL_OP_PRODUCT_H

#include "mnem/ops.h"

typedef struct product {
    mnem_op_desc desc;
    mnem_op_args args;
    uint8_t *raw, *packed;
    float *x, *bias, *out;
    int64_t rows, k, tokens;
} product;

/* Aligned as operators want it; free() gives it back. */
void *op_block(uint64_t bytes);

/* Random weights through quantize; inputs f32; bias and what out holds random too. */
product product_make(mnem_type type, int64_t rows, int64_t k, int64_t tokens, uint64_t seed);
/* Packs p->raw once more, after it was changed. */
void product_pack(product *p, mnem_type type);
void product_drop(product *p);

#endif
