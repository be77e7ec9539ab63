/* attention.c: ATTENTION: cuts a run into units (attention_kernels.h) and deals them to the team.
 *
 * A unit is one KV head of one sequence for as many consecutive tokens as make about 96 rows, so that
 * a tile of keys and values, once in the first cache, serves them all. Units are dealt in turn, heads
 * first: members get the same mixture of short and long (causal) ones. A row's result depends on
 * nothing but its query, its position and the pages.
 *
 * Cost: 2 d multiply-adds per query head, position before it and token. The workspace is one scratch
 * per member, whatever the context. */
#include <string.h>

#include "ops/attention_kernels.h"
#include "ops/op_rows.h"

static int64_t group_of(const mnem_op_desc *desc) {
    return desc->in[0].shape[1] / desc->kv.kv_heads;
}

static int64_t unit_tokens(const mnem_op_desc *desc) {
    const int64_t tokens = MNEM__ATTENTION_ROWS / group_of(desc);
    return tokens > 0 ? tokens : 1;
}

/* A8 rows whose blocks of 32 don't end with a unit are made in f32 first. */
static bool staged(const mnem_op_desc *desc) {
    return desc->out.type == MNEM_TYPE_A8;
}

static uint64_t staged_bytes(const mnem_op_desc *desc) {
    const int64_t *shape = desc->in[0].shape;
    if (!staged(desc)) return 0;
    return mnem__align_up((uint64_t)(shape[0] * shape[1] * shape[2]) * sizeof(float), 64);
}

/* n bytes at *at, aligned; NULL while measuring. */
static void *carve(char *start, uint64_t *at, int64_t n) {
    uint64_t offset = *at;
    *at += mnem__align_up((uint64_t)n, 64);
    return start ? start + offset : NULL;
}

mnem__attention_scratch mnem__attention_scratch_get(const mnem_kv_layout *layout, int64_t rows,
                                                    void *start) {
    const mnem__kv_block block = mnem__kv_block_get(layout);
    const bool q8 = layout->type == MNEM_TYPE_Q8_0;
    const int64_t d = block.head_dim, scales = d / MNEM__KV_SCALE, tile = MNEM__ATTENTION_TILE;
    mnem__attention_scratch s = {0};
    s.query = carve(start, &s.bytes, rows * d * 4);
    s.acc = carve(start, &s.bytes, rows * block.dim_padded * 4);
    s.sum = carve(start, &s.bytes, rows * MNEM__KV_BLOCK * 4);
    s.max = carve(start, &s.bytes, rows * 4);
    s.position = carve(start, &s.bytes, rows * 4);
    s.p = carve(start, &s.bytes, MNEM__ATTENTION_STEP_ROWS * tile * 4);
    if (q8) {
        s.query_q8 = carve(start, &s.bytes, rows * d);
        s.query_scale = carve(start, &s.bytes, rows * scales * 4);
        s.query_sum = carve(start, &s.bytes, rows * scales * 4);
        s.value_scale = carve(start, &s.bytes, scales * tile * 4);
        s.value_max = carve(start, &s.bytes, scales * 4);
        s.words = carve(start, &s.bytes, scales * MNEM__ATTENTION_STEP_ROWS * tile * 2);
    } else if (rows >= MNEM__ATTENTION_EXPAND_ROWS) {
        s.keys = carve(start, &s.bytes, tile * d * 4);
        s.values = carve(start, &s.bytes, tile * block.dim_padded * 4);
    }
    return s;
}

/* Rows of the largest unit. */
static int64_t scratch_rows(const mnem_op_desc *desc) {
    const int64_t tokens = unit_tokens(desc), most = desc->in[0].shape[0];
    return (tokens < most ? tokens : most) * group_of(desc);
}

static uint64_t workspace(const mnem_op *op) {
    const mnem_op_desc *desc = &op->desc;
    const uint64_t one = mnem__attention_scratch_get(&desc->kv, scratch_rows(desc), NULL).bytes;
    return staged_bytes(desc) + one * (uint64_t)desc->workers;
}

static mnem_status check_out(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0], *out = &desc->out;
    if (out->type == MNEM_TYPE_A8) {
        if (mnem__op_is_a8(out, queries->shape[0], queries->shape[1] * queries->shape[2]))
            return MNEM_OK;
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't A8 [T, heads * head_dim]");
    }
    if (!mnem__tensor_is_f32(out, 3) || !mnem__tensor_same_shape(queries, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't F32 of the shape of in[0]");
    return MNEM_OK;
}

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0];
    const char *wrong = mnem__kv_layout_wrong(&desc->kv);
    if (wrong) return mnem__op_fail(MNEM_INVALID, desc, wrong);
    if (!mnem__tensor_is_f32(queries, 3) || queries->shape[2] != desc->kv.head_dim)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't F32 [T, heads, head_dim]");
    if (queries->shape[1] % desc->kv.kv_heads != 0)
        return mnem__op_fail(MNEM_INVALID, desc, "heads aren't a multiple of kv_heads");
    if (!(desc->scale > 0.0f && desc->scale < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc, "scale isn't a positive number");
    if (desc->max_positions <= 0)
        return mnem__op_fail(MNEM_INVALID, desc, "max_positions isn't positive");
    return check_out(desc);
}

/* Where the units' f32 results go: out, or the workspace before it is quantized. */
static mnem__op_rows results(const mnem_op *op, const mnem_op_args *args) {
    const int64_t heads = op->desc.in[0].shape[1], d = op->desc.in[0].shape[2];
    if (!staged(&op->desc)) return mnem__op_rows_get(&op->desc.out, args->out);
    return (mnem__op_rows){
        .heads = heads, .n = d, .token = heads * d * 4, .head = d * 4, .base = args->workspace};
}

static void quantize(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem__op_rows from = results(op, args), to = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t blocks = (to.n + 31) / 32;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++)
        kernels->quantize(mnem__op_row(&from, t, 0), to.n, 0, blocks, mnem__op_row(&to, t, 0));
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem_op_desc *desc = &op->desc;
    const int64_t kv_heads = desc->kv.kv_heads, step = unit_tokens(desc);
    const mnem__op_rows in = mnem__op_rows_get(&desc->in[0], args->in[0]);
    const mnem__op_rows out = results(op, args);
    char *start = (char *)args->workspace + staged_bytes(desc);
    const int64_t rows = scratch_rows(desc);
    const uint64_t one = mnem__attention_scratch_get(&desc->kv, rows, NULL).bytes;
    const mnem__attention_scratch scratch =
        mnem__attention_scratch_get(&desc->kv, rows, start + (uint64_t)worker->index * one);
    int64_t index = 0;
    for (int32_t s = 0; s < args->kv_count; s++) {
        const mnem_kv_sequence *sequence = &args->kv[s];
        for (int64_t u = 0; u * step < sequence->rows; u++) {
            for (int64_t h = 0; h < kv_heads; h++, index++) {
                if (index % worker->count != worker->index) continue;
                const int64_t first = u * step, rest = sequence->rows - first;
                const int64_t row = sequence->first_row + first, head = h * group_of(desc);
                const mnem__attention_unit unit = {
                    .layout = &desc->kv,
                    .sequence = sequence,
                    .kv_head = h,
                    .group = group_of(desc),
                    .first = first,
                    .tokens = rest < step ? rest : step,
                    .scale = desc->scale * 0x1.715476p+0f, /* log2(e) */
                    .query = mnem__op_row(&in, row, head),
                    .query_token = in.token,
                    .query_head = in.head,
                    .out = mnem__op_row(&out, row, head),
                    .out_token = out.token,
                    .out_head = out.head,
                };
                kernels->attend(&unit, &scratch);
            }
        }
    }
    if (!staged(desc)) return;
    mnem_team_barrier(worker);
    quantize(op, args, worker);
}

MNEM__KV_KERNELS("attention", run)

const mnem__op_table mnem__op_attention = {
    .check = check, .key = mnem__kv_key, .workspace = workspace, .levels = MNEM__KV_LEVELS};
