/* op_product.c: see op_product.h. */
#include "ops/matmul/op_product.h"

#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

void *op_block(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    return p;
}

void product_pack(product *p, mnem_type type) {
    uint64_t row = mnem_type_row_bytes(type, p->k), group = mnem_pack_group_bytes(type, p->k);
    for (int64_t r = 0; r < p->rows; r += MNEM_PACK_ROWS)
        mnem_pack_group(type, p->rows - r < MNEM_PACK_ROWS ? p->rows - r : MNEM_PACK_ROWS, p->k,
                        p->raw + (uint64_t)r * row,
                        p->packed + (uint64_t)(r / MNEM_PACK_ROWS) * group);
}

/* A row of weights; types that aren't quantized to become random blocks behind a scale. */
static void make_row(rng *r, mnem_type type, int64_t k, const float *w, uint8_t *row) {
    const mnem_type_info *info = mnem_type_get(type);
    mnem_status status = mnem_quantize_row(type, k, w, row);
    if (status == MNEM_OK) return;
    assert_int_equal(status, MNEM_UNSUPPORTED);
    for (uint64_t i = 0; i < mnem_type_row_bytes(type, k); i++) row[i] = (uint8_t)rng_next(r);
    for (int64_t b = 0; b < k / info->block_elements; b++)
        memcpy(row + b * info->block_bytes, &(uint16_t){0x1400}, 2); /* 2^-10 */
}

static void make_weights(product *p, mnem_type type, rng *r) {
    uint64_t row = mnem_type_row_bytes(type, p->k);
    float *w = op_block((uint64_t)p->k * 4);
    p->raw = op_block(row * (uint64_t)p->rows);
    p->packed = op_block(mnem_pack_bytes(type, p->rows, p->k));
    for (int64_t i = 0; i < p->rows; i++) {
        rng_fill(r, w, p->k, 0.05f);
        make_row(r, type, p->k, w, p->raw + (uint64_t)i * row);
    }
    free(w);
    product_pack(p, type);
}

product product_make(mnem_type type, int64_t rows, int64_t k, int64_t tokens, uint64_t seed) {
    product p = {.rows = rows, .k = k, .tokens = tokens};
    rng r = {seed};
    make_weights(&p, type, &r);
    p.x = op_block((uint64_t)(tokens * k) * 4);
    p.bias = op_block((uint64_t)rows * 4);
    p.out = op_block((uint64_t)(tokens * rows) * 4);
    rng_fill(&r, p.x, tokens * k, 3.0f);
    rng_fill(&r, p.bias, rows, 1.0f);
    rng_fill(&r, p.out, tokens * rows, 1.0f);
    p.desc = (mnem_op_desc){.kind = MNEM_OP_MATMUL, .workers = 1};
    p.desc.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, k);
    p.desc.in[1] = mnem_tensor_packed(type, rows, k);
    p.desc.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, rows);
    p.args = (mnem_op_args){.tokens = tokens,
                            .in = {p.x, p.packed, p.bias},
                            .out = p.out,
                            .row_begin = 0,
                            .row_end = rows};
    return p;
}

void product_drop(product *p) {
    free(p->raw), free(p->packed), free(p->x), free(p->bias), free(p->out);
}
