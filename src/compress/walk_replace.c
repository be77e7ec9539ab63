/* walk_replace.c: replaces weights of a layer during a walk, as a watcher asks.
 *
 * Idea: rows of any type become rows of the matrix's own, which are packed over those that the
 * layer has in memory: the program stays, and the layer runs again with them.
 * Invariant: nothing runs meanwhile: a watcher replaces in `end` only. Cost: two conversions and a
 * packing of each row. */
#include "base/error.h"
#include "compress/walk_private.h"

/* Rows in 16 bits hold what 8 and fewer say nearly exactly; others would round a second time. */
static bool is_plain(mnem_type type) {
    return mnem_type_get(type)->block_elements == 1;
}

static mnem_status check(const mnem__walker *w, int32_t matrix, int64_t first, int64_t rows) {
    int32_t at;
    if (!w->watcher->again)
        return mnem__fail(
            MNEM_INVALID,
            "walk: weights can be replaced only if watcher.again is set; set it to true");
    if (matrix < 0 || matrix >= mnem__walk_layer_matrices(w, w->layer, &at))
        return mnem__fail(MNEM_INVALID,
                          "walk: layer %d has no matrix %d that can be replaced (matrices of a "
                          "layer are counted from 0)",
                          w->layer, matrix);
    const int64_t all = w->info[matrix].shape[0];
    if (first < 0 || rows < 1 || first % MNEM_PACK_ROWS || first + rows > all ||
        (rows % MNEM_PACK_ROWS && first + rows < all))
        return mnem__fail(MNEM_INVALID,
                          "walk: %s: rows %lld to %lld can't be replaced alone: the first must be "
                          "a multiple of 16, and the end a multiple of 16 or the number of rows",
                          w->info[matrix].name, (long long)first, (long long)(first + rows));
    if (is_plain(w->info[matrix].type)) return MNEM_OK;
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "walk: %s has type %s, but weights can be replaced only in matrices of F32, F16 or BF16",
        w->info[matrix].name, mnem_type_get(w->info[matrix].type)->name);
}

/* The host's scratch, with room for columns of f32 at the most:
 *
 *     [packed group, where the device's memory is out of reach][a float row][a group's rows] */
static uint64_t group_room(int64_t columns) {
    return MNEM_PACK_ROWS * (uint64_t)columns * sizeof(float);
}

uint64_t mnem__walk_replace_bytes(int64_t columns, bool apart) {
    return (1 + (uint64_t)apart) * group_room(columns) + (uint64_t)columns * sizeof(float);
}

/* Rows in the matrix's own type, then packed to there. */
static mnem_status pack(const mnem__walker *w, const mnem_tensor_info *info, mnem_type type,
                        int64_t rows, const uint8_t *raw, mnem__location to) {
    const int64_t k = info->shape[1];
    uint8_t *scratch = mnem__part_host(&w->taken, mnem__walk_scratch(w));
    uint8_t *packed = mnem__location_open(to, scratch);
    float *row = (float *)(void *)(scratch + (packed == scratch ? group_room(k) : 0));
    uint8_t *own = (uint8_t *)(row + k);
    for (int64_t r = 0; r < rows; r++) {
        MNEM__TRY(
            mnem_dequantize_row(type, k, raw + (uint64_t)r * mnem_type_row_bytes(type, k), row));
        MNEM__TRY(mnem_quantize_row(info->type, k, row,
                                    own + (uint64_t)r * mnem_type_row_bytes(info->type, k)));
    }
    if (info->layout != MNEM_LAYOUT_SPARSE)
        mnem_pack_group(info->type, rows, k, own, packed);
    else if (!mnem_sparse_group(info->type, rows, k, own, packed))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "walk: %s is 2:4 sparse, but its new weights have more than two non-zero "
                          "numbers among four",
                          info->name);
    return mnem__location_put(to, packed, mnem__matrix_group_bytes(info));
}

mnem_status mnem_walk_replace(const mnem_walk_layer *layer, int32_t matrix, int64_t first,
                              int64_t rows, mnem_type type, const void *raw) {
    mnem__walker *w = layer->walker;
    MNEM__TRY(check(w, matrix, first, rows));
    const mnem_tensor_info *info = &w->info[matrix];
    const uint64_t group = mnem__matrix_group_bytes(info);
    const uint64_t raw_row = mnem_type_row_bytes(type, info->shape[1]);
    mnem__location to = mnem__location_at(mnem__weights_at(w->weights, matrix),
                                          (uint64_t)(first / MNEM_PACK_ROWS) * group);
    const uint8_t *from = raw;
    for (; rows > 0; rows -= MNEM_PACK_ROWS, to = mnem__location_at(to, group)) {
        const int64_t n = rows < MNEM_PACK_ROWS ? rows : MNEM_PACK_ROWS;
        MNEM__TRY(pack(w, info, type, n, from, to));
        from += (uint64_t)n * raw_row;
    }
    return MNEM_OK;
}
