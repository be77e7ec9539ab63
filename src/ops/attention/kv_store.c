/* kv_store.c: KV_STORE: a run's keys and values into the pages of its sequences.
 *
 * The unit of work is a block of 16 positions of one KV head (kv_block.h), so no two members of the
 * team write the same lines. The member with the last row also zeroes the values after it. */
#include "ops/attention/attention_kernels.h"
#include "ops/core/op_rows.h"

static mnem_status check_kv_store(const mnem_op_desc *desc) {
    const mnem_tensor *keys = &desc->in[0], *values = &desc->in[1];
    const char *wrong = mnem__kv_layout_wrong(&desc->kv);
    if (wrong) return mnem__op_fail(MNEM_INVALID, desc, "%s", wrong);
    if (!mnem__tensor_is_f32(keys, 3) || keys->shape[1] != desc->kv.kv_heads ||
        keys->shape[2] != desc->kv.head_dim)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0] must be F32 [T, kv_heads, head_dim], with the kv_heads and head_dim of desc.kv");
    if (!mnem__tensor_is_f32(values, 3) || values->shape[0] != keys->shape[0] ||
        values->shape[1] != keys->shape[1] || values->shape[2] != mnem__kv_value_dim(&desc->kv))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] must be F32 [T, kv_heads, %d], with the T and kv_heads of in[0]",
            (int)mnem__kv_value_dim(&desc->kv));
    return MNEM_OK;
}

/* The rows of one sequence that lie in its index-th touched block, of one KV head. */
static void store_block(const mnem_op *op, const mnem_op_args *args,
                        const mnem_kv_sequence *sequence, int64_t index, int64_t head) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem__op_rows keys = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows values = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__kv_block layout = mnem__kv_block_get(&op->desc.kv);
    const int64_t first = sequence->first_position, end = first + sequence->rows;
    const int64_t start = (first / MNEM__KV_BLOCK + index) * MNEM__KV_BLOCK;
    const int64_t from = start > first ? start : first;
    const int64_t to = start + MNEM__KV_BLOCK < end ? start + MNEM__KV_BLOCK : end;
    const int64_t row = sequence->first_row + (from - first);
    const mnem__kv_rows rows = {
        .key = mnem__op_row(&keys, row, head),
        .value = mnem__op_row(&values, row, head),
        .key_token = keys.token,
        .value_token = values.token,
        .begin = (int)(from - start),
        .count = (int)(to - from),
        .is_last = to == end,
    };
    kernels->store(&op->desc.kv, &rows,
                   mnem__kv_block_at(&op->desc.kv, &layout, sequence, head, start));
}

static void run_kv_store(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const int64_t heads = op->desc.kv.kv_heads;
    for (int32_t s = 0; s < args->kv_count; s++) {
        const mnem_kv_sequence *sequence = &args->kv[s];
        if (sequence->rows <= 0) continue;
        const int64_t last = (int64_t)sequence->first_position + sequence->rows - 1;
        const int64_t blocks =
            last / MNEM__KV_BLOCK - sequence->first_position / MNEM__KV_BLOCK + 1;
        int64_t begin, end;
        mnem_team_split(worker, blocks * heads, 1, &begin, &end);
        for (int64_t u = begin; u < end; u++) store_block(op, args, sequence, u / heads, u % heads);
    }
}

MNEM__KV_KERNELS("kv_store", run_kv_store)

const mnem__op_table mnem__op_kv_store = {
    .check = check_kv_store, .key = mnem__kv_key, .levels = MNEM__OP_LISTS(kernels)};
