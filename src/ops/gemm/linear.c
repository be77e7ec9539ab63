/* linear.c: LINEAR and its gradients: checks, and which product of gemm.h each one is.
 *
 *     LINEAR              out [T, rows] = x [T, k]     times weight^T    sums over k
 *     LINEAR_GRAD_INPUT   dx [T, k]     = dy [T, rows] times weight      sums over rows
 *     LINEAR_GRAD_WEIGHT  dw [rows, k] += dy^T         times x [T, k]    sums over 256 tokens each
 *
 * The last one adds in chains: the products of 256 tokens are summed from zero, and that sum is
 * added to the gradient, one block of tokens after the other.
 *
 *     one call of 512      g + (t0 + ... + t255) + (t256 + ... + t511)
 *     two calls of 256     g + (t0 + ... + t255)     then     + (t256 + ... + t511)
 *
 * So tokens in multiples of 256, added one call after the other, give the same gradient to the bit
 * as all in one call: it is why a step may be cut into micro-batches of any number. */
#include "ops/gemm/linear.h"

#include "base/checked.h"

bool mnem__linear_is_real(const mnem_op_desc *desc, mnem_type type) {
    if (desc->in[0].type == MNEM_TYPE_F64) return type == MNEM_TYPE_F64;
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_BF16 || type == MNEM_TYPE_F16;
}

bool mnem__linear_is_matrix(const mnem_op_desc *desc, const mnem_tensor *tensor, int64_t rows,
                            int64_t columns) {
    if (!mnem__linear_is_real(desc, tensor->type) || tensor->layout != MNEM_LAYOUT_ROW ||
        tensor->dims != 2 || !mnem__tensor_valid(tensor))
        return false;
    const int64_t size = mnem_type_get(tensor->type)->block_bytes;
    return tensor->stride[1] == size && tensor->stride[0] % size == 0 &&
           tensor->offset % size == 0 && tensor->shape[0] == rows && tensor->shape[1] == columns;
}

bool mnem__linear_is_output(const mnem_op_desc *desc, const mnem_tensor *tensor, int64_t rows,
                            int64_t columns) {
    return mnem__linear_is_matrix(desc, tensor, rows, columns) &&
           (rows == 1 || tensor->stride[0] >= columns * tensor->stride[1]);
}

mnem_type mnem__linear_wide(const mnem_op_desc *desc) {
    return desc->in[0].type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
}

mnem_status mnem__linear_check_input(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    if (!mnem__linear_is_matrix(desc, in, in->shape[0], in->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be a matrix in row layout of F32, BF16, F16 or F64");
    if (in->shape[0] > INT32_MAX)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] has 2^31 rows (tokens) or more; run fewer tokens at once");
    return MNEM_OK;
}

mnem_status mnem__linear_check_weight(const mnem_op_desc *desc) {
    const mnem_tensor *weight = &desc->in[1];
    const mnem_type_info *info = mnem_type_get(weight->type);
    if (mnem__linear_is_matrix(desc, weight, weight->shape[0], weight->shape[1])) return MNEM_OK;
    if (info && info->is_weight && info->block_elements > 1 && weight->dims == 2 &&
        weight->layout == MNEM_LAYOUT_ROW && mnem__tensor_valid(weight) &&
        mnem__linear_wide(desc) == MNEM_TYPE_F32)
        return MNEM_OK;
    return mnem__op_fail(
        MNEM_INVALID, desc,
        "in[1] must be a matrix in row layout (contiguous columns, stride and offset multiples of "
        "an element), of a type for weights (of F64 exactly if in[0] is F64)");
}

mnem__op_key mnem__linear_key(const mnem_op_desc *desc) {
    const mnem_type wide = mnem__linear_wide(desc);
    const bool weight = desc->kind == MNEM_OP_LINEAR_GRAD_WEIGHT;
    const mnem_type other = weight ? desc->in[1].type : desc->out.type;
    const bool bf16 = desc->in[0].type == MNEM_TYPE_BF16 || other == MNEM_TYPE_BF16;
    return (mnem__op_key){bf16 ? MNEM_TYPE_BF16 : wide, MNEM_LAYOUT_ROW};
}

mnem__gemm_matrix mnem__linear_matrix(const mnem_tensor *tensor, const void *base, bool across) {
    return (mnem__gemm_matrix){.type = tensor->type,
                               .data = base ? (const char *)base + tensor->offset : NULL,
                               .stride = tensor->stride[0],
                               .across = across};
}

/* ---- LINEAR, LINEAR_GRAD_INPUT ---- */

static mnem_status check_linear(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *weight = &desc->in[1], *bias = &desc->in[2];
    const bool gradient = desc->kind == MNEM_OP_LINEAR_GRAD_INPUT;
    MNEM__TRY(mnem__linear_check_input(desc));
    MNEM__TRY(mnem__linear_check_weight(desc));
    if (in->shape[1] != weight->shape[gradient ? 0 : 1])
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must have as many columns as in[1] has %s",
                             gradient ? "rows" : "columns");
    if (!mnem__linear_is_output(desc, &desc->out, in->shape[0], weight->shape[gradient ? 1 : 0]))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "out must be F32, BF16 or F16 (F64 if in[0] is) [rows of in[0], %s of in[1]]",
            gradient ? "columns" : "rows");
    const mnem_type wide = mnem__linear_wide(desc);
    if (!gradient && !mnem__tensor_absent(bias) &&
        (bias->type != wide || bias->layout != MNEM_LAYOUT_ROW || bias->dims != 1 ||
         !mnem_tensor_contiguous(bias) || !mnem__tensor_valid(bias) ||
         bias->shape[0] != weight->shape[0] || bias->offset % 4 != 0))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] must be F32 (F64 if in[0] is) [rows of in[1]]");
    return MNEM_OK;
}

/* Without pointers (args of zeros) it is the shape only: the workspace is measured by the same
 * numbers that run. */
static mnem__gemm product(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    const bool gradient = d->kind == MNEM_OP_LINEAR_GRAD_INPUT;
    const bool bias = !gradient && !mnem__tensor_absent(&d->in[2]);
    const int64_t unit = mnem_type_get(d->in[1].type)->block_elements;
    return (mnem__gemm){
        .m = args->tokens,
        .n = d->out.shape[1],
        .k = d->in[0].shape[1],
        .k_block = mnem__gemm_k_block(op->detail, d->in[0].shape[1], unit > 32 ? unit : 32),
        .a = mnem__linear_matrix(&d->in[0], args->in[0], false),
        .b = mnem__linear_matrix(&d->in[1], args->in[1], gradient),
        .out = args->out ? (char *)args->out + d->out.offset : NULL,
        .out_type = d->out.type,
        .out_stride = d->out.stride[0],
        .start = bias && args->in[2] ? (const char *)args->in[2] + d->in[2].offset : NULL,
        .accumulate = d->accumulate,
    };
}

static uint64_t workspace_linear(const mnem_op *op) {
    const mnem__gemm g = product(op, &(mnem_op_args){.tokens = op->desc.in[0].shape[0]});
    return mnem__gemm_bytes(op->detail, &g, op->desc.workers);
}

static void run_linear(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__gemm g = product(op, args);
    mnem__gemm_run(op->detail, &g, args->workspace, worker);
}

/* ---- LINEAR_GRAD_WEIGHT ---- */

static mnem_status check_weight(const mnem_op_desc *desc) {
    const mnem_tensor *dy = &desc->in[0], *x = &desc->in[1], *out = &desc->out;
    const mnem_tensor *bias = &desc->also[0];
    const mnem_type wide = mnem__linear_wide(desc);
    MNEM__TRY(mnem__linear_check_input(desc));
    if (!mnem__linear_is_matrix(desc, x, dy->shape[0], x->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be a matrix of F32, BF16 or F16 (F64 if in[0] is) with as "
                             "many rows as in[0]");
    if (mnem__tensor_absent(out) && mnem__tensor_absent(bias))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out and also[0] are both missing; give at least one of them");
    if (!mnem__tensor_absent(out) &&
        (out->type != wide || !mnem__linear_is_output(desc, out, dy->shape[1], x->shape[1])))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "out must be F32 (F64 if in[0] is) [columns of in[0], columns of in[1]]");
    if (!mnem__tensor_absent(bias) &&
        (bias->type != wide || bias->layout != MNEM_LAYOUT_ROW || bias->dims != 1 ||
         !mnem_tensor_contiguous(bias) || !mnem__tensor_valid(bias) ||
         bias->shape[0] != dy->shape[1] || bias->offset % 4 != 0))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "also[0] must be F32 (F64 if in[0] is) [columns of in[0]]");
    return MNEM_OK;
}

static mnem__gemm weight_product(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    return (mnem__gemm){
        .m = d->in[0].shape[1],
        .n = d->in[1].shape[1],
        .k = args->tokens,
        .k_block = MNEM__LINEAR_TOKENS,
        .a = mnem__linear_matrix(&d->in[0], args->in[0], true),
        .b = mnem__linear_matrix(&d->in[1], args->in[1], true),
        .out = args->out ? (char *)args->out + d->out.offset : NULL,
        .out_type = mnem__linear_wide(d),
        .out_stride = d->out.stride[0],
        .accumulate = true,
    };
}

static uint64_t workspace_weight(const mnem_op *op) {
    if (mnem__tensor_absent(&op->desc.out)) return 0;
    const mnem__gemm g = weight_product(op, &(mnem_op_args){.tokens = op->desc.in[0].shape[0]});
    return mnem__gemm_bytes(op->detail, &g, op->desc.workers);
}

/* The bias's gradient: columns of dy, summed in the same chains of tokens. */
static void add_bias(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__gemm_kernels *kernels = op->detail;
    const mnem_tensor *dy = &op->desc.in[0];
    int64_t begin, end;
    mnem_team_split(worker, dy->shape[1], 64, &begin, &end);
    mnem__gemm_matrix m = mnem__linear_matrix(dy, args->in[0], true);
    for (int64_t t = 0; begin < end && t < args->tokens; t += MNEM__LINEAR_TOKENS) {
        const int64_t left = args->tokens - t;
        kernels->add_columns(&m, left < MNEM__LINEAR_TOKENS ? left : MNEM__LINEAR_TOKENS, begin,
                             end, (char *)args->also[0] + op->desc.also[0].offset);
        m.data += MNEM__LINEAR_TOKENS * m.stride;
    }
}

static void run_weight(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    if (!mnem__tensor_absent(&op->desc.also[0])) add_bias(op, args, worker);
    if (mnem__tensor_absent(&op->desc.out)) return;
    const mnem__gemm g = weight_product(op, args);
    mnem__gemm_run(op->detail, &g, args->workspace, worker);
}

/* ---- tables ---- */

#define TABLE(name, text, check_, workspace_, run)                                                 \
    MNEM__GEMM_KERNELS(name, text, run)                                                            \
    const mnem__op_table mnem__op_##name = {.check = check_,                                       \
                                            .key = mnem__linear_key,                               \
                                            .workspace = workspace_,                               \
                                            .levels = MNEM__GEMM_LEVELS(name)}

TABLE(linear, "linear", check_linear, workspace_linear, run_linear);
TABLE(linear_grad_input, "linear_grad_input", check_linear, workspace_linear, run_linear);
TABLE(linear_grad_weight, "linear_grad_weight", check_weight, workspace_weight, run_weight);
