/* attention.c: ATTENTION: cuts a run into units (attention_kernels.h) and deals them to the team.
 *
 * A unit is one KV head of one sequence for as many consecutive tokens as make about 96 rows, so
 * that a tile of keys and values, once in the first cache, serves them all. Units are dealt in
 * turn, heads first: members get the same mixture of short and long (causal) ones. A row's result
 * depends on nothing but its query, its position and the pages.
 *
 * Cost: 2 d multiply-adds per query head, position before it and token. The workspace is one
 * scratch per member, whatever the context. */
#include <string.h>

#include "ops/attention/attention_kernels.h"
#include "ops/core/op_rows.h"

static const float log2_e = 0x1.715476p+0f;

static int64_t group_of(const mnem_op_desc *desc) {
    return desc->in[0].shape[1] / desc->kv.kv_heads;
}

static bool chooses(const mnem_op_desc *desc) {
    return !mnem__tensor_absent(&desc->in[2]);
}

/* Each token chooses for itself. */
static int64_t unit_tokens(const mnem_op_desc *desc) {
    if (chooses(desc)) return 1;
    const int64_t tokens = MNEM__ATTENTION_ROWS / group_of(desc);
    return tokens > 0 ? tokens : 1;
}

/* A8 out, and a group's heads aren't whole blocks of 32: made f32 first, quantized at the end. */
static bool staged(const mnem_op_desc *desc) {
    const int64_t d = mnem__kv_value_dim(&desc->kv);
    return desc->out.type == MNEM_TYPE_A8 && (d % 16 != 0 || d * group_of(desc) % 32 != 0);
}

static uint64_t staged_bytes(const mnem_op_desc *desc) {
    const int64_t rows = desc->in[0].shape[0] * desc->in[0].shape[1];
    if (!staged(desc)) return 0;
    return mnem__align_up((uint64_t)(rows * mnem__kv_value_dim(&desc->kv)) * sizeof(float), 64);
}

/* n bytes at *at, aligned; NULL while measuring. */
static void *carve(char *start, uint64_t *at, int64_t n) {
    uint64_t offset = *at;
    *at += mnem__align_up((uint64_t)n, 64);
    return start ? start + offset : NULL;
}

mnem__attention_scratch mnem__attention_scratch_get(const mnem_kv_layout *layout, int64_t rows,
                                                    bool gathers, void *start) {
    const mnem__kv_block block = mnem__kv_block_get(layout);
    const mnem_type keys = layout->type, values = mnem__kv_value_type(layout);
    const int64_t d = block.head_dim, scales = d / MNEM__KV_SCALE, tile = MNEM__ATTENTION_TILE;
    const int64_t value_scales = block.value_dim / MNEM__KV_SCALE;
    mnem__attention_scratch s = {0};
    s.query = carve(start, &s.bytes, rows * d * 4);
    s.acc = carve(start, &s.bytes, rows * block.value_padded * 4);
    s.sum = carve(start, &s.bytes, rows * MNEM__KV_BLOCK * 4);
    s.max = carve(start, &s.bytes, rows * 4);
    s.position = carve(start, &s.bytes, rows * 4);
    s.p = carve(start, &s.bytes, MNEM__ATTENTION_STEP_ROWS * tile * 4);
    if (mnem__kv_is_scaled(keys)) {
        s.query_q8 = carve(start, &s.bytes, rows * d);
        s.query_scale = carve(start, &s.bytes, rows * scales * 4);
        s.query_sum = carve(start, &s.bytes, rows * scales * 4);
    }
    if (mnem__kv_is_scaled(values)) {
        s.value_scale = carve(start, &s.bytes, value_scales * tile * 4);
        s.value_max = carve(start, &s.bytes, value_scales * 4);
        s.words = carve(start, &s.bytes, value_scales * MNEM__ATTENTION_STEP_ROWS * tile * 2);
    }
    const bool expands = rows >= MNEM__ATTENTION_EXPAND_ROWS;
    if (expands && keys == MNEM_TYPE_F16) s.keys = carve(start, &s.bytes, tile * d * 4);
    if (expands && values == MNEM_TYPE_F16)
        s.values = carve(start, &s.bytes, tile * block.value_padded * 4);
    if (mnem__kv_has_q4(layout))
        s.wide =
            carve(start, &s.bytes, MNEM__ATTENTION_TILE_BLOCKS * mnem__kv_block_wide(layout).bytes);
    if (gathers) s.gathered = carve(start, &s.bytes, MNEM__ATTENTION_TILE_BLOCKS * block.bytes);
    return s;
}

/* Rows of the largest unit. */
static int64_t scratch_rows(const mnem_op_desc *desc) {
    const int64_t tokens = unit_tokens(desc), most = desc->in[0].shape[0];
    return (tokens < most ? tokens : most) * group_of(desc);
}

static uint64_t workspace(const mnem_op *op) {
    const mnem_op_desc *desc = &op->desc;
    const uint64_t one =
        mnem__attention_scratch_get(&desc->kv, scratch_rows(desc), chooses(desc), NULL).bytes;
    return staged_bytes(desc) + one * (uint64_t)desc->workers;
}

static mnem_status check_out(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0], *out = &desc->out;
    const int64_t tokens = queries->shape[0], heads = queries->shape[1];
    const int64_t width = mnem__kv_value_dim(&desc->kv);
    if (out->type == MNEM_TYPE_A8 && mnem__op_is_a8(out, tokens, heads * width)) return MNEM_OK;
    if (mnem__tensor_is_f32(out, 3) && out->shape[0] == tokens && out->shape[1] == heads &&
        out->shape[2] == width)
        return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc,
                         "out must be F32 [T, heads, %d] or A8 [T, heads * %d], with the T and "
                         "heads of in[0]",
                         (int)width, (int)width);
}

static mnem_status check_attention(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0];
    const char *wrong = mnem__kv_layout_wrong(&desc->kv);
    if (wrong) return mnem__op_fail(MNEM_INVALID, desc, "%s", wrong);
    if (!mnem__tensor_is_f32(queries, 3) || queries->shape[2] != desc->kv.head_dim)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0] must be F32 [T, heads, head_dim], with the head_dim of desc.kv, %d",
            (int)desc->kv.head_dim);
    if (queries->shape[1] % desc->kv.kv_heads != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of heads (dimension 1 of in[0]) must be a multiple of "
                             "desc.kv.kv_heads, which is %d",
                             (int)desc->kv.kv_heads);
    if (!(desc->scale > 0.0f && desc->scale < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "scale is %g, expected more than 0 and less than 1e6",
                             (double)desc->scale);
    if (!(desc->soft_cap >= 0.0f && desc->soft_cap < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "soft_cap is %g, expected 0 (off), or more than 0 and less than 1e6",
                             (double)desc->soft_cap);
    if (!mnem__tensor_absent(&desc->in[1]) &&
        (!mnem__tensor_is_f32(&desc->in[1], 1) || desc->in[1].shape[0] != queries->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be F32 [heads], with the heads (dimension 1) of in[0]");
    if (!(desc->temperature >= 0.0f && desc->temperature <= 1e6f) ||
        (desc->temperature > 0.0f && desc->temperature_every <= 0))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "temperature is %g and temperature_every %d, expected 0 for both "
                             "(off), or more than 0 for both",
                             (double)desc->temperature, (int)desc->temperature_every);
    if (desc->window < 0)
        return mnem__op_fail(MNEM_INVALID, desc, "window is %d, expected 0 (off) or more",
                             (int)desc->window);
    if (desc->both_ways && desc->window > 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "window (%d) and both_ways can't be combined; set one of them to 0",
                             (int)desc->window);
    if (chooses(desc) && !mnem__op_is_choice(&desc->in[2], queries->shape[0]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be I32 [T, k], with the T of in[0]");
    if (chooses(desc) && (desc->window > 0 || desc->both_ways))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] can't be combined with window or both_ways; set both to 0");
    if (desc->max_positions <= 0)
        return mnem__op_fail(MNEM_INVALID, desc, "max_positions is %d, expected 1 or more",
                             (int)desc->max_positions);
    return check_out(desc);
}

/* Where the units' f32 results go: out, or the workspace before it is quantized. */
static mnem__op_rows results(const mnem_op *op, const mnem_op_args *args) {
    const int64_t heads = op->desc.in[0].shape[1], d = mnem__kv_value_dim(&op->desc.kv);
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

/* How many parts a group of heads is cut into, so that a run of few units keeps a large team busy
 * (each part reads the pages again). Parts of an A8 row are whole blocks. */
static int64_t group_parts(const mnem_op_desc *desc, int64_t units, int64_t members) {
    const int64_t group = group_of(desc);
    if (units == 0 || units % members == 0 || units >= 4 * members) return 1;
    if (desc->out.type == MNEM_TYPE_A8 && !staged(desc) && mnem__kv_value_dim(&desc->kv) % 32 != 0)
        return 1;
    const int64_t parts = (2 * members + units - 1) / units;
    return parts < group ? parts : group;
}

static int64_t count_units(const mnem_op *op, const mnem_op_args *args) {
    const int64_t step = unit_tokens(&op->desc);
    int64_t units = 0;
    for (int32_t s = 0; s < args->kv_count; s++)
        if (args->kv[s].rows > 0) units += (args->kv[s].rows + step - 1) / step;
    return units * op->desc.kv.kv_heads;
}

/* What a row chose; NULL: it sees all. */
static const int32_t *chosen_by(const mnem_op_desc *desc, const mnem_op_args *args, int64_t row,
                                int64_t position) {
    const mnem_tensor *in = &desc->in[2];
    if (!chooses(desc) || position < in->shape[1]) return NULL;
    const char *of = (const char *)args->in[2] + in->offset + row * in->stride[0];
    return (const int32_t *)(const void *)of;
}

/* The unit of a sequence's rows from first on, for group heads from head on. */
static mnem__attention_unit unit_of(const mnem_op *op, const mnem_op_args *args,
                                    const mnem_kv_sequence *sequence, int64_t first, int64_t head,
                                    int64_t group) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem_op_desc *desc = &op->desc;
    const mnem__op_rows in = mnem__op_rows_get(&desc->in[0], args->in[0]), out = results(op, args);
    const mnem_tensor *sinks = &desc->in[1];
    const bool quantized = desc->out.type == MNEM_TYPE_A8 && !staged(desc);
    const int64_t step = unit_tokens(desc), rest = sequence->rows - first;
    const int64_t row = sequence->first_row + first;
    return (mnem__attention_unit){
        .layout = &desc->kv,
        .sequence = sequence,
        .kv_head = head / group_of(desc),
        .group = group,
        .first = first,
        .tokens = rest < step ? rest : step,
        .scale = desc->scale * log2_e,
        .soft_cap = desc->soft_cap * log2_e,
        .sinks =
            mnem__tensor_absent(sinks)
                ? NULL
                : (const float *)(const void *)((const char *)args->in[1] + sinks->offset) + head,
        .chosen = chosen_by(desc, args, row, sequence->first_position + first),
        .chosen_count = chooses(desc) ? desc->in[2].shape[1] : 0,
        .temperature = desc->temperature,
        .temperature_every = desc->temperature_every,
        .window = desc->window > 0 ? desc->window : INT32_MAX,
        .chunks = desc->window > 0 && desc->window_chunks,
        .from_1 = desc->temperature_from_1,
        .both_ways = desc->both_ways,
        .query = mnem__op_row(&in, row, head),
        .query_token = in.token,
        .query_head = in.head,
        .out = mnem__op_row(&out, row, quantized ? 0 : head),
        .out_token = out.token,
        .out_head = out.head,
        .quantize = quantized ? kernels->quantize : NULL,
        .out_width = desc->in[0].shape[1] * mnem__kv_value_dim(&desc->kv),
        .out_first = head * mnem__kv_value_dim(&desc->kv),
    };
}

static void run_units(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                      const mnem__attention_scratch *scratch) {
    const mnem__attention_kernels *kernels = op->detail;
    const int64_t heads = op->desc.in[0].shape[1], step = unit_tokens(&op->desc);
    const int64_t parts = group_parts(&op->desc, count_units(op, args), worker->count);
    const int64_t group = group_of(&op->desc), part = (group + parts - 1) / parts;
    int64_t index = 0;
    for (int32_t s = 0; s < args->kv_count; s++)
        for (int64_t first = 0; first < args->kv[s].rows; first += step)
            for (int64_t head = 0; head < heads; index++) {
                const int64_t end = (head / group + 1) * group; /* of this KV head's */
                const int64_t n = end - head < part ? end - head : part;
                if (index % worker->count == worker->index) {
                    const mnem__attention_unit unit =
                        unit_of(op, args, &args->kv[s], first, head, n);
                    kernels->attend(&unit, scratch);
                }
                head += n;
            }
}

static void run_attention(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const int64_t rows = scratch_rows(&op->desc);
    const bool some = chooses(&op->desc);
    const uint64_t one = mnem__attention_scratch_get(&op->desc.kv, rows, some, NULL).bytes;
    char *start = (char *)args->workspace + staged_bytes(&op->desc);
    const mnem__attention_scratch scratch = mnem__attention_scratch_get(
        &op->desc.kv, rows, some, start + (uint64_t)worker->index * one);
    run_units(op, args, worker, &scratch);
    if (!staged(&op->desc)) return;
    mnem_team_barrier(worker);
    quantize(op, args, worker);
}

MNEM__KV_KERNELS("attention", run_attention)

const mnem__op_table mnem__op_attention = {.check = check_attention,
                                           .key = mnem__kv_key,
                                           .workspace = workspace,
                                           .levels = MNEM__OP_LISTS(kernels)};
