/* rope.c: ROPE_TABLE, the angles of a run's positions, once for all layers; ROPE, which turns
 * heads.
 *
 * Angles are made in double, since a position of 100,000 times a float frequency would be off by a
 * hundredth of a turn. Su et al. 2021; YaRN: Peng et al. 2023; llama3's scaling arrives as
 * frequency factors, by which each pair's frequency is divided.
 *
 * Cost: a sine and a cosine per pair and token for the table; 2 multiply-adds per element turned.
 */
#include <math.h>

#include "ops/rows/real_rows.h"

enum { DIMS_MAX = 65536 };

static bool is_table(const mnem_tensor *tensor, mnem_type type, int64_t tokens, int32_t dims) {
    return tensor->type == type && tensor->layout == MNEM_LAYOUT_ROW && tensor->dims == 2 &&
           mnem__tensor_valid(tensor) &&
           tensor->stride[1] == (int64_t)mnem_type_get(type)->block_bytes &&
           tensor->shape[0] == tokens && tensor->shape[1] == dims;
}

static mnem_status check_dims(const mnem_op_desc *desc) {
    const int32_t dims = desc->rope.dims;
    if (dims <= 0 || dims % 2 != 0 || dims > DIMS_MAX)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "rope.dims is %d, expected an even number from 2 to %d", (int)dims,
                             (int)DIMS_MAX);
    return MNEM_OK;
}

static bool in_range(float x, float least, float most) {
    return x >= least && x <= most; /* false for a NaN */
}

static mnem_status check_rope_table(const mnem_op_desc *desc) {
    const mnem_rope *rope = &desc->rope;
    MNEM__TRY(check_dims(desc));
    const mnem_type type = desc->out.type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    if (!is_table(&desc->out, type, desc->out.shape[0], rope->dims))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 or F64 [T, rope.dims]");
    if (!mnem__tensor_absent(&desc->in[0]) &&
        (!mnem__tensor_is_f32(&desc->in[0], 1) || desc->in[0].shape[0] != rope->dims / 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [rope.dims / 2]");
    if (!in_range(rope->base, 1e-3f, 1e30f))
        return mnem__op_fail(MNEM_INVALID, desc, "rope.base is %g, expected 0.001 to 1e30",
                             (double)rope->base);
    if (!in_range(rope->scale, 0.0f, 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "rope.scale is %g, expected 0 (which means 1) to 1e6",
                             (double)rope->scale);
    if (!in_range(rope->yarn_ext, 0.0f, 1e6f) || !in_range(rope->yarn_attn, 0.0f, 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "rope.yarn_ext is %g and yarn_attn %g, expected 0 to 1e6 for both",
                             (double)rope->yarn_ext, (double)rope->yarn_attn);
    if (rope->yarn_ext == 0.0f) return MNEM_OK;
    if (rope->original_context <= 0 || !in_range(rope->yarn_beta_fast, 1e-3f, 1e6f) ||
        !in_range(rope->yarn_beta_slow, 1e-3f, 1e6f) || rope->base == 1.0f)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "YaRN (rope.yarn_ext above 0) needs original_context above 0, yarn_beta_fast and "
            "yarn_beta_slow of 0.001 to 1e6, and a base other than 1");
    return MNEM_OK;
}

/* The pair whose wave turns `turns` times over the original context (a real number). */
static double yarn_pair(const mnem_rope *rope, double turns) {
    const double pi = 3.14159265358979323846;
    return rope->dims * log(rope->original_context / (turns * 2.0 * pi)) / (2.0 * log(rope->base));
}

/* How much of the unscaled angle a pair keeps: 1 for fast waves, 0 for slow ones. */
static double yarn_mix(const mnem_rope *rope, int64_t pair) {
    if (rope->yarn_ext == 0.0f) return 0.0;
    double low = yarn_pair(rope, rope->yarn_beta_fast);
    double high = yarn_pair(rope, rope->yarn_beta_slow);
    low = fmax(0.0, rope->yarn_unrounded ? low : floor(low));
    high = fmin(rope->dims - 1.0, rope->yarn_unrounded ? high : ceil(high));
    double ramp = ((double)pair - low) / fmax(0.001, high - low);
    return (1.0 - fmin(1.0, fmax(0.0, ramp))) * rope->yarn_ext;
}

static double magnitude(const mnem_rope *rope, double scale) {
    double attn = rope->yarn_attn == 0.0f ? 1.0 : rope->yarn_attn;
    return rope->yarn_ext == 0.0f ? attn : attn * (1.0 + 0.1 * log(1.0 / scale));
}

/* Angle of a pair per position. */
static double pair_frequency(const mnem_rope *rope, const float *factors, int64_t pair,
                             double scale) {
    double frequency = pow(rope->base, -2.0 * (double)pair / rope->dims);
    if (factors) frequency /= factors[pair];
    double mix = yarn_mix(rope, pair);
    return frequency * (scale * (1.0 - mix) + mix);
}

static void put_pair(const mnem_tensor *out, void *row, int64_t pair, int64_t half, double cosine,
                     double sine) {
    if (out->type == MNEM_TYPE_F64) {
        ((double *)row)[pair] = cosine;
        ((double *)row)[half + pair] = sine;
    } else {
        ((float *)row)[pair] = (float)cosine;
        ((float *)row)[half + pair] = (float)sine;
    }
}

static void run_table(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_rope *rope = &op->desc.rope;
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const float *factors = NULL;
    if (!mnem__tensor_absent(&op->desc.in[0]))
        factors = (const float *)(const void *)((const char *)args->in[0] + op->desc.in[0].offset);
    const double scale = rope->scale == 0.0f ? 1.0 : rope->scale, size = magnitude(rope, scale);
    const int64_t half = rope->dims / 2;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * half, half, &begin, &end);
    for (int64_t pair = 0; begin < end && pair < half; pair++) {
        const double frequency = pair_frequency(rope, factors, pair, scale);
        for (int64_t t = begin / half; t < end / half; t++) {
            const double angle = args->positions[t] * frequency;
            const double c = cos(angle) * size, s = sin(angle) * size;
            put_pair(&op->desc.out, mnem__op_row(&out, t, 0), pair, half, c, s);
        }
    }
}

static const mnem__op_kernel table_kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "rope_table plain",
                                             run_table, NULL};
static const mnem__op_kernels table_kernels = {&table_kernel, 1};
const mnem__op_table mnem__op_rope_table = {
    .check = check_rope_table, .key = mnem__row_key, .levels = {&table_kernels}};

static mnem_status check_rope(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    MNEM__TRY(check_dims(desc));
    if (!mnem__real_is(desc, in, 3) || in->shape[2] < desc->rope.dims)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be F32, BF16, F16 or F64 [T, heads, rope.dims or more]");
    if (!is_table(&desc->in[1], mnem__row_key(desc).type, in->shape[0], desc->rope.dims))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be F32 (F64 if in[0] is) [T, rope.dims]");
    return mnem__real_check_like(desc, &desc->out, "out");
}

/* A head that isn't of floats is turned in the worker's part of the workspace. */
static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    const mnem_type type = mnem__row_key(desc).type;
    if (desc->in[0].type == type && desc->out.type == type) return 0;
    return mnem__align_up((uint64_t)desc->in[0].shape[2] * sizeof(float), 64);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static void run_rope(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__real_rows in = mnem__real_rows_get(kernels, &op->desc.in[0], args->in[0]);
    const mnem__op_rows table = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__real_rows out = mnem__real_rows_get(kernels, &op->desc.out, args->out);
    const int64_t n = in.rows.n, heads = in.rows.heads;
    const float sign = op->desc.inverse ? -1.0f : 1.0f;
    void *scratch = mnem__op_scratch(args, worker, scratch_bytes(&op->desc));
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * heads, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t t = r / heads, h = r % heads;
        const void *x = mnem__real_read(&in, t, h, 0, n, scratch);
        (op->desc.rope.neox ? kernels->rope_neox : kernels->rope_near)(
            n, op->desc.rope.dims, mnem__op_row(&table, t, 0), sign, x,
            mnem__real_place(&out, t, h, 0, scratch));
        mnem__real_write(&out, t, h, 0, n, scratch, NULL);
    }
}

MNEM__ROW_OP(rope, check_rope, workspace, run_rope)
