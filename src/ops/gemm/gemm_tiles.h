/* gemm_tiles.h: tiles of ROWS by VECTORS * 16, whose sums (gemm_pack.h, gemm_blocks_sums.h) stay in
 * registers. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_TILES_H
#define MNEM_SRC_OPS_GEMM_GEMM_TILES_H

static void pack_a(const mnem__gemm_part *part) {
    pack(part, part->to, ROWS);
}

/* A whole tile of f32, straight to out. */
static void tile_whole(const mnem__gemm_block *block, const float *a, const float *b, char *out) {
    lanes acc[ROWS * VECTORS];
    for (int r = 0; r < ROWS; r++) __builtin_prefetch(out + r * block->out_stride, 1);
    sums(block->steps, a, b, acc);
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        float *row = (float *)(void *)(out + r * block->out_stride);
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            lanes x = acc[r * VECTORS + v];
            if (block->add_out) x = lanes_add(lanes_load(row + v * LANES), x);
            lanes_store(row + v * LANES, x);
        }
    }
}

LANES_INLINE void put_tile(const mnem__gemm_block *block, const float *tile, char *out,
                           int64_t rows, int64_t columns, const mnem_type type) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += LANES)
            put(type, out + r * block->out_stride + c * real_bytes(type),
                lanes_load(tile + r * COLUMNS + c), columns - c, block->add_out);
}

/* Any tile: through a copy of its sums. */
static void tile_part(const mnem__gemm_block *block, const float *a, const float *b, char *out,
                      float *partial, int64_t rows, int64_t columns) {
    lanes acc[ROWS * VECTORS];
    float copy[ROWS * COLUMNS];
    float *to = partial && !block->to_out ? partial : copy;
    sums(block->steps, a, b, acc);
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const int i = r * VECTORS + v;
            lanes x = acc[i];
            if (block->from_partial) x = lanes_add(lanes_load(partial + i * LANES), x);
            lanes_store(to + i * LANES, x);
        }
    }
    if (!block->to_out) return;
    if (block->out_type == MNEM_TYPE_BF16)
        put_tile(block, copy, out, rows, columns, MNEM_TYPE_BF16);
    else if (block->out_type == MNEM_TYPE_F16)
        put_tile(block, copy, out, rows, columns, MNEM_TYPE_F16);
    else
        put_tile(block, copy, out, rows, columns, MNEM_TYPE_F32);
}

/* A panel of b stays in the first cache while a's pass by from the second. */
static void multiply(const mnem__gemm_block *block) {
    const int64_t bytes = real_bytes(block->out_type);
    const bool straight = block->out_type == MNEM_TYPE_F32 && !block->partial;
    for (int64_t c = 0, panel = 0; c < block->columns; c += COLUMNS, panel++) {
        const float *a = block->a, *b = block->b + panel * block->b_panel;
        const int64_t columns = block->columns - c < COLUMNS ? block->columns - c : COLUMNS;
        float *partial = block->partial ? block->partial + panel * ROWS * COLUMNS : NULL;
        for (int64_t r = 0; r < block->rows; r += ROWS, a += block->a_panel) {
            const int64_t rows = block->rows - r < ROWS ? block->rows - r : ROWS;
            char *out = block->out + r * block->out_stride + c * bytes;
            if (straight && rows == ROWS && columns == COLUMNS)
                tile_whole(block, a, b, out);
            else
                tile_part(block, a, b, out, partial, rows, columns);
            if (partial) partial += block->partial_panel;
        }
    }
}

#endif
