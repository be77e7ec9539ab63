/* matmul.c: MATMUL: checks, the input made ready, rows shared among the team.
 *
 * Members take whole groups of 16 rows; each computes all tokens for its groups, so that no output
 * is shared. An input that isn't what the kernel wants (f32 for quantized weights or for pairs of
 * bf16, elements apart, or A8 that is to be lifted) is first written to the workspace by all
 * members together. Behind it lies what low-rank products need, which a member adds to its groups
 * after their sums (low_rank.c). */
#include "base/checked.h"
#include "base/error.h"
#include "ops/core/half.h"
#include "ops/matmul/low_rank.h"
#include "ops/matmul/matmul_kernel.h"

#include <string.h>

/* The most tokens with which what comes next is fetched. */
enum { FETCHED_TOKENS = 16 };

mnem_type mnem_matmul_input(mnem_type weight) {
    const mnem__pack_form *form = mnem__pack_form_get(weight);
    return form && form->unit_blocks ? MNEM_TYPE_A8 : MNEM_TYPE_F32;
}

static mnem_status check_input(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *weight = &desc->in[1];
    if (in->layout != MNEM_LAYOUT_ROW || in->dims != 2 || !mnem__tensor_valid(in))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be a matrix in row layout");
    if (in->type != MNEM_TYPE_F32 && in->type != mnem_matmul_input(weight->type))
        return mnem__op_fail(MNEM_UNSUPPORTED, desc,
                             "in[0] must be F32, or A8 (only where in[1] is quantized)");
    if (in->shape[0] > INT32_MAX)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of tokens (dimension 0 of in[0]) must be less than 2^31");
    if (in->shape[1] != weight->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] and in[1] must have the same number of columns");
    return MNEM_OK;
}

static mnem_status check_matmul(const mnem_op_desc *desc) {
    const mnem_tensor *weight = &desc->in[1], *bias = &desc->in[2], *out = &desc->out;
    const bool sparse = weight->layout == MNEM_LAYOUT_SPARSE;
    if ((weight->layout != MNEM_LAYOUT_PACKED && !sparse) || !mnem__tensor_valid(weight))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be a packed matrix of a type for weights");
    if (desc->in[0].dims == 3 && !sparse) return mnem__matmul_check_heads(desc);
    MNEM__TRY(check_input(desc));
    if (!mnem__tensor_absent(bias) &&
        (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != weight->shape[0]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be F32 [rows of in[1]]");
    if (!mnem__tensor_is_f32(out, 2) || out->shape[0] < desc->in[0].shape[0] ||
        out->shape[1] != weight->shape[0] || out->stride[0] % 4 != 0)
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 [rows of in[0], rows of in[1]]");
    return desc->low_count ? mnem__low_rank_check_add(desc) : MNEM_OK;
}

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[1].type, desc->in[1].layout};
}

mnem_type mnem__matmul_ready_type(const mnem__matmul_kernel *kernel) {
    return kernel->rounds_input ? MNEM_TYPE_BF16 : mnem_matmul_input(kernel->type);
}

static mnem_type ready_type(const mnem_op *op) {
    return mnem__matmul_ready_type(op->detail);
}

/* Whether the kernel can read in[0] where it is. */
static bool input_ready(const mnem_op *op) {
    const mnem_tensor *in = &op->desc.in[0];
    mnem_type want = ready_type(op);
    return in->type == want && (want == MNEM_TYPE_A8 || in->stride[1] == 4);
}

/* Whether so many tokens are lifted, which takes a copy. */
static bool lifts(const mnem_op *op, int64_t tokens) {
    const mnem__matmul_kernel *kernel = op->detail;
    return kernel->lifts_from && tokens >= kernel->lifts_from;
}

static int64_t ready_row_bytes(const mnem_op *op) {
    return (int64_t)mnem__align_up(mnem_type_row_bytes(ready_type(op), op->desc.in[1].shape[1]),
                                   64);
}

static uint64_t ready_bytes(const mnem_op *op) {
    if (input_ready(op) && !lifts(op, op->desc.in[0].shape[0])) return 0;
    return (uint64_t)op->desc.in[0].shape[0] * (uint64_t)ready_row_bytes(op);
}

static uint64_t workspace(const mnem_op *op) {
    if (op->desc.in[0].dims == 3) return mnem__matmul_heads_workspace(op);
    return ready_bytes(op) + (op->desc.low_count ? mnem__low_rank_add_workspace(&op->desc) : 0);
}

/* 32 elements (fewer at the end) of a token, from block on, as floats beside each other. */
static const float *gather(const mnem_tensor *in, const char *row, int64_t block, float *buffer) {
    int64_t n = in->shape[1] - 32 * block;
    if (in->stride[1] == 4) return (const float *)(const void *)row + 32 * block;
    for (int64_t j = 0; j < (n < 32 ? n : 32); j++)
        memcpy(buffer + j, row + (32 * block + j) * in->stride[1], 4);
    return buffer;
}

/* n <= 32 elements; an odd one becomes a pair. */
static void round_block(const float *x, int64_t n, char *out) {
    uint16_t rounded[32];
    for (int64_t j = 0; j < n; j++) rounded[j] = mnem__float_bf16(x[j]);
    if (n % 2) rounded[n++] = 0;
    memcpy(out, rounded, (size_t)n * 2);
}

void mnem__matmul_ready(const mnem__matmul_kernel *kernel, const float *x, int64_t n, int64_t block,
                        int64_t blocks, void *row) {
    char *ready = row;
    const mnem_type type = mnem__matmul_ready_type(kernel);
    if (type == MNEM_TYPE_A8) {
        kernel->quantize(x, n, block, blocks, row);
        return;
    }
    for (int64_t i = block; i < block + blocks; i++, x += 32) {
        const int64_t left = n - 32 * i, count = left < 32 ? left : 32;
        if (type == MNEM_TYPE_BF16)
            round_block(x, count, ready + i * 64);
        else
            memcpy(ready + i * 128, x, (size_t)count * 4);
    }
}

static void lift(mnem__a8_block *block) {
    for (int j = 0; j < 32; j++) block->q[j] ^= -128;
}

static void make_ready(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *in = &op->desc.in[0];
    const mnem__matmul_kernel *kernel = op->detail;
    const bool lifted = lifts(op, args->tokens), is_a8 = in->type == MNEM_TYPE_A8;
    int64_t n = in->shape[1], blocks = (n + 31) / 32, begin, end;
    const int64_t row_bytes = ready_row_bytes(op);
    mnem_team_split(worker, args->tokens * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t t = i / blocks, block = i % blocks;
        float buffer[32];
        const char *row = (const char *)args->in[0] + in->offset + t * in->stride[0];
        char *ready = (char *)args->workspace + t * row_bytes;
        mnem__a8_block *a8 = (mnem__a8_block *)(void *)ready + block;
        if (is_a8)
            *a8 = ((const mnem__a8_block *)(const void *)row)[block];
        else
            mnem__matmul_ready(kernel, gather(in, row, block, buffer), n, block, 1, ready);
        if (lifted) lift(a8);
    }
    mnem_team_barrier(worker);
}

static int64_t group_bytes(const mnem_tensor *weight) {
    const int64_t k = weight->shape[1];
    return (int64_t)(weight->layout == MNEM_LAYOUT_SPARSE ? mnem_sparse_group_bytes(weight->type, k)
                                                          : mnem_pack_group_bytes(weight->type, k));
}

static mnem__matmul_job whole_job(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *desc = &op->desc;
    const mnem_tensor *in = &desc->in[0], *out = &desc->out, *bias = &desc->in[2];
    mnem__matmul_job job = {
        .weights = (const uint8_t *)args->in[1] + desc->in[1].offset,
        .group_bytes = group_bytes(&desc->in[1]),
        .k = in->shape[1],
        .rows = args->row_end - args->row_begin,
        .input = (const uint8_t *)args->in[0] + in->offset,
        .input_stride = in->stride[0],
        .tokens = args->tokens,
        .out = (float *)(void *)((char *)args->out + out->offset) + args->row_begin,
        .out_stride = out->stride[0] / 4,
        .accumulate = desc->accumulate,
        .lifted = lifts(op, args->tokens),
    };
    if (!mnem__tensor_absent(bias))
        job.bias = (const float *)(const void *)((const char *)args->in[2] + bias->offset) +
                   args->row_begin;
    if (!input_ready(op) || job.lifted) {
        job.input = args->workspace;
        job.input_stride = ready_row_bytes(op);
    }
    return job;
}

void mnem__matmul_take_groups(mnem__matmul_job *job, int64_t begin, int64_t end) {
    int64_t rows = job->rows < end * MNEM_PACK_ROWS ? job->rows : end * MNEM_PACK_ROWS;
    job->weights += begin * job->group_bytes;
    job->out += begin * MNEM_PACK_ROWS;
    if (job->bias) job->bias += begin * MNEM_PACK_ROWS;
    job->rows = rows - begin * MNEM_PACK_ROWS;
}

/* With few tokens, low-rank products wait for memory more than they compute: what they read is
 * fetched while the groups are computed, one after another. Many tokens read the weights of a group
 * once for all only if one call has all groups. */
static void compute_fetching(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                             const mnem__matmul_job *job, int64_t begin, int64_t end) {
    const mnem__matmul_kernel *kernel = op->detail;
    const int64_t first = args->row_begin / MNEM_PACK_ROWS;
    const int64_t blocks = (job->k + 31) / 32;
    const uint8_t *lines[MNEM__LOW_RANK_LINES_MOST];
    mnem__low_rank_fetch fetch;
    mnem__low_rank_fetch_begin(op, args, worker, first + begin, first + end, &fetch);
    for (int64_t g = begin; g < end; g++) {
        mnem__matmul_job one = *job;
        mnem__matmul_take_groups(&one, g, g + 1);
        one.lines = lines;
        one.line_count = mnem__low_rank_fetch_group(&fetch, lines);
        one.lines_each = (one.line_count + blocks - 1) / blocks;
        kernel->compute(&one);
    }
}

void mnem__matmul_run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__matmul_kernel *kernel = op->detail;
    if (op->desc.in[0].dims == 3) {
        mnem__matmul_run_heads(op, args, worker);
        return;
    }
    if (!input_ready(op) || lifts(op, args->tokens)) make_ready(op, args, worker);
    mnem__matmul_job job = whole_job(op, args);
    int64_t begin, end;
    mnem_team_split(worker, mnem__matmul_groups(&job), 1, &begin, &end);
    if (begin >= end || args->tokens <= 0) return;
    if ((op->desc.low_count || args->soon) && args->low && args->low->count > 0 &&
        args->tokens <= FETCHED_TOKENS && kernel->fetches) {
        compute_fetching(op, args, worker, &job, begin, end);
    } else {
        mnem__matmul_take_groups(&job, begin, end);
        kernel->compute(&job);
    }
    if (op->desc.low_count) {
        const int64_t first = args->row_begin / MNEM_PACK_ROWS;
        mnem__low_rank_add(op, args, worker, (uint8_t *)args->workspace + ready_bytes(op),
                           first + begin, first + end);
    }
}

const mnem__op_table mnem__op_matmul = {
    .check = check_matmul,
    .key = key,
    .workspace = workspace,
    .levels =
        {
            &mnem__matmul_plain,
#if MNEM_X86
            &mnem__matmul_avx2,
            &mnem__matmul_avx512,
            &mnem__matmul_avx512_bf16,
#endif
        },
};

const mnem__matmul_kernel *mnem__matmul_kernel_get(mnem_type type) {
    for (int level = (int)mnem__cpu_level_get(); level >= 0; level--) {
        const mnem__op_kernels *kernels = mnem__op_matmul.levels[level];
        for (int i = 0; kernels && i < kernels->count; i++)
            if (kernels->list[i].type == type && kernels->list[i].layout == MNEM_LAYOUT_PACKED)
                return kernels->list[i].detail;
    }
    return NULL;
}
