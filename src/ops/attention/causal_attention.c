/* causal_attention.c: CAUSAL_ATTENTION and its gradient: checks, workspace, and units dealt to the
 * team.
 *
 * Forward, a unit is a few tiles of queries that share their keys (heads of one group, neighbouring
 * tiles). Gradient: one sequence and KV head by one member, which keeps dq of the whole sequence in
 * its scratch and walks the tiles of keys once (5 products a pair); or, where that scratch would be
 * large or members would idle, tiles of keys for dk and dv and tiles of queries for dq, each by one
 * member (7 products a pair). Either way an element's additions are those of its pairs in order, so
 * the bits are the same. The latest tiles, the longest, are dealt first.
 *
 * Cost: 2 n multiply-adds per query, key before it and head forward, 5 n (or 7 n) for the gradient.
 * Workspace per member, n = 64: 210 KiB forward; gradient 402 KiB and dq (at most 1 MiB). */
#include "ops/attention/causal_attention.h"
#include "base/minmax.h"
#include "ops/rows/real_rows.h"

enum { WALK_BYTES_MAX = 1 << 20 }; /* of dq in a member's scratch */

/* ---- what a descriptor says ---- */

static mnem__causal_operand operand(const mnem_tensor *tensor, const void *base) {
    if (tensor->dims == 0) return (mnem__causal_operand){0};
    return (mnem__causal_operand){.base = (char *)base + tensor->offset,
                                  .type = tensor->type,
                                  .token = tensor->stride[0],
                                  .head = tensor->stride[1]};
}

/* Few tiles together where they are wide: the second cache is to hold them. */
static int64_t items_of(int64_t n) {
    return n <= 64 ? MNEM__CAUSAL_ITEMS : n <= 128 ? 2 : 1;
}

/* Of sequences of so many tokens. */
static mnem__causal_job shapes(const mnem_op_desc *desc, int64_t sequence) {
    const mnem_tensor *q = &desc->in[0];
    return (mnem__causal_job){
        .sequence = sequence,
        .heads = q->shape[1],
        .group = q->shape[1] / desc->in[1].shape[1],
        .n = q->shape[2],
        .padded = (int64_t)mnem__align_up((uint64_t)q->shape[2], MNEM__CAUSAL_STEP),
        .tiles = (sequence + MNEM__CAUSAL_TILE - 1) / MNEM__CAUSAL_TILE,
        .items = items_of(q->shape[2]),
        .scale = desc->scale,
        .accumulate = desc->accumulate,
    };
}

/* Fewer tokens than a sequence has are the beginning of one. */
static mnem__causal_job job_get(const mnem_op_desc *desc, const mnem_op_args *args) {
    const bool begins = args->tokens > 0 && args->tokens < desc->sequence;
    mnem__causal_job job = shapes(desc, begins ? args->tokens : desc->sequence);
    job.q = operand(&desc->in[0], args->in[0]);
    job.k = operand(&desc->in[1], args->in[1]);
    job.v = operand(&desc->in[2], args->in[2]);
    if (desc->kind == MNEM_OP_CAUSAL_ATTENTION) {
        job.out = operand(&desc->out, args->out);
        job.log = operand(&desc->also[0], args->also[0]);
        return job;
    }
    job.out = operand(&desc->in[3], args->in[3]);
    job.log = operand(&desc->in[4], args->in[4]);
    job.dout = operand(&desc->in[5], args->in[5]);
    job.dq = operand(&desc->out, args->out);
    job.dk = operand(&desc->also[0], args->also[0]);
    job.dv = operand(&desc->also[1], args->also[1]);
    return job;
}

/* ---- check ---- */

static bool is_log(const mnem_op_desc *desc, const mnem_tensor *t) {
    return t->type == (mnem__real_is_f64(desc) ? MNEM_TYPE_F64 : MNEM_TYPE_F32) &&
           t->layout == MNEM_LAYOUT_ROW && t->dims == 2 && mnem__tensor_valid(t) &&
           t->shape[0] == desc->in[0].shape[0] && t->shape[1] == desc->in[0].shape[1];
}

static bool is_like(const mnem_op_desc *desc, const mnem_tensor *t, int in) {
    return mnem__real_is(desc, t, 3) && mnem__tensor_same_shape(t, &desc->in[in]);
}

static bool is_absent_or_like(const mnem_op_desc *desc, const mnem_tensor *t, int in) {
    return mnem__tensor_absent(t) || is_like(desc, t, in);
}

static mnem_status check_inputs(const mnem_op_desc *desc) {
    const mnem_tensor *q = &desc->in[0], *k = &desc->in[1], *v = &desc->in[2];
    if (!mnem__real_is(desc, q, 3))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be F32, BF16, F16 or F64 [T, heads, head_dim]");
    if (!mnem__real_is(desc, k, 3) || k->shape[0] != q->shape[0] || k->shape[2] != q->shape[2])
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] must be [T, kv_heads, head_dim], with the T, head_dim and type of in[0]");
    if (!mnem__real_is(desc, v, 3) || !mnem__tensor_same_shape(k, v))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must have the shape and type of in[1]");
    if (q->shape[0] < 1 || q->shape[1] < 1 || k->shape[1] < 1 || q->shape[2] < 1)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "every dimension of in[0] and in[1] must be at least 1");
    if (q->shape[2] > MNEM__CAUSAL_HEAD_DIM_MAX)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "head_dim (dimension 2 of in[0]) must be at most %d",
                             MNEM__CAUSAL_HEAD_DIM_MAX);
    if (q->shape[1] % k->shape[1] != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of heads (dimension 1 of in[0]) must be a multiple of the "
                             "number of KV heads (dimension 1 of in[1])");
    if (desc->sequence < 1 || q->shape[0] % desc->sequence != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of tokens (dimension 0 of in[0]) must be a multiple of "
                             "desc.sequence, the length of a sequence, which is %lld",
                             (long long)desc->sequence);
    if (!(desc->scale > 0.0f && desc->scale < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "scale is %g, expected more than 0 and less than 1e6",
                             (double)desc->scale);
    return MNEM_OK;
}

static mnem_status check_causal_attention(const mnem_op_desc *desc) {
    MNEM__TRY(check_inputs(desc));
    if (desc->accumulate)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "desc.accumulate is not supported; set it to false");
    if (!is_like(desc, &desc->out, 0))
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the shape and type of in[0]");
    if (!mnem__tensor_absent(&desc->also[0]) && !is_log(desc, &desc->also[0]))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "also[0] must be F32 (F64 if in[0] is) [T, heads], with the T and heads of in[0]");
    return MNEM_OK;
}

static mnem_status check_causal_attention_grad(const mnem_op_desc *desc) {
    MNEM__TRY(check_inputs(desc));
    if (!is_like(desc, &desc->in[3], 0) || !is_like(desc, &desc->in[5], 0))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[3] and in[5] must have the shape and type of in[0]");
    if (!is_log(desc, &desc->in[4]))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[4] must be F32 (F64 if in[0] is) [T, heads], with the T and heads of in[0]");
    if (!is_absent_or_like(desc, &desc->out, 0))
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the shape and type of in[0]");
    if (!is_absent_or_like(desc, &desc->also[0], 1) || !is_absent_or_like(desc, &desc->also[1], 1))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "also[0] and also[1] must have the shape and type of in[1]");
    return MNEM_OK;
}

/* ---- scratch ---- */

static float *carve(char *start, uint64_t *at, int64_t n) {
    const uint64_t offset = *at;
    *at += (uint64_t)n * sizeof(float); /* whole panels and tiles: multiples of 64 bytes */
    return start ? (float *)(void *)(start + offset) : NULL;
}

static mnem__causal_scratch scratch_forward(const mnem__causal_job *job, char *start) {
    const int64_t tile = job->padded * MNEM__CAUSAL_TILE;
    mnem__causal_scratch s = {0};
    s.keys = carve(start, &s.bytes, tile);
    s.keys_across = carve(start, &s.bytes, tile);
    s.values = carve(start, &s.bytes, tile);
    s.query = carve(start, &s.bytes, tile * job->items);
    s.acc = carve(start, &s.bytes, tile * job->items);
    s.max = carve(start, &s.bytes, MNEM__CAUSAL_TILE * job->items);
    s.sum = carve(start, &s.bytes, MNEM__CAUSAL_PANEL * job->items);
    s.score = carve(start, &s.bytes, MNEM__CAUSAL_TILE * MNEM__CAUSAL_TILE);
    s.row = carve(start, &s.bytes, MNEM__CAUSAL_TILE * 3);
    return s;
}

/* dq of a group's heads of one sequence may be kept. */
static bool one_walk_fits(const mnem__causal_job *job) {
    uint64_t bytes;
    return mnem__mul_u64((uint64_t)job->group, (uint64_t)job->tiles, &bytes) &&
           mnem__mul_u64(bytes, (uint64_t)(job->padded * MNEM__CAUSAL_TILE) * 4, &bytes) &&
           bytes <= WALK_BYTES_MAX;
}

/* Tiles of keys with their gradients, one tile of queries; dq of all where one walk may keep it. */
static mnem__causal_scratch scratch_keys(const mnem__causal_job *job, char *start) {
    const int64_t tile = job->padded * MNEM__CAUSAL_TILE, items = tile * job->items;
    mnem__causal_scratch s = {0};
    s.keys = carve(start, &s.bytes, items);
    s.keys_across = carve(start, &s.bytes, items);
    s.values = carve(start, &s.bytes, tile);
    s.values_across = carve(start, &s.bytes, items);
    s.query = carve(start, &s.bytes, tile);
    s.dout = carve(start, &s.bytes, tile);
    s.dkeys = carve(start, &s.bytes, items);
    s.dvalues = carve(start, &s.bytes, items);
    s.max = carve(start, &s.bytes, MNEM__CAUSAL_TILE * 2);
    s.score = carve(start, &s.bytes, MNEM__CAUSAL_TILE * MNEM__CAUSAL_TILE);
    s.slope = carve(start, &s.bytes, MNEM__CAUSAL_TILE * MNEM__CAUSAL_TILE);
    s.row = carve(start, &s.bytes, MNEM__CAUSAL_TILE * 3);
    s.dquery = one_walk_fits(job) ? carve(start, &s.bytes, job->group * job->tiles * tile) : NULL;
    return s;
}

/* Tiles of queries with their gradient, one tile of keys. */
static mnem__causal_scratch scratch_queries(const mnem__causal_job *job, char *start) {
    const int64_t tile = job->padded * MNEM__CAUSAL_TILE, items = tile * job->items;
    mnem__causal_scratch s = {0};
    s.keys = carve(start, &s.bytes, tile);
    s.keys_across = carve(start, &s.bytes, tile);
    s.values = carve(start, &s.bytes, tile);
    s.values_across = carve(start, &s.bytes, tile);
    s.query = carve(start, &s.bytes, items);
    s.dout = carve(start, &s.bytes, items);
    s.dquery = carve(start, &s.bytes, items);
    s.max = carve(start, &s.bytes, MNEM__CAUSAL_TILE * 2 * job->items);
    s.score = carve(start, &s.bytes, MNEM__CAUSAL_TILE * MNEM__CAUSAL_TILE);
    s.slope = carve(start, &s.bytes, MNEM__CAUSAL_TILE * MNEM__CAUSAL_TILE);
    s.row = carve(start, &s.bytes, MNEM__CAUSAL_TILE * 3);
    return s;
}

/* Bytes of one member's part of the workspace. */
static uint64_t own_bytes(const mnem_op_desc *desc, const mnem__causal_job *job) {
    if (mnem__real_is_f64(desc))
        return mnem__align_up((uint64_t)job->sequence * sizeof(double), 64);
    if (desc->kind == MNEM_OP_CAUSAL_ATTENTION) return scratch_forward(job, NULL).bytes;
    const uint64_t keys = scratch_keys(job, NULL).bytes, queries = scratch_queries(job, NULL).bytes;
    return keys > queries ? keys : queries;
}

static uint64_t workspace(const mnem_op *op) {
    const mnem__causal_job job = shapes(&op->desc, op->desc.sequence);
    return own_bytes(&op->desc, &job) * (uint64_t)op->desc.workers;
}

static char *own_workspace(const mnem_op *op, const mnem_op_args *args, const mnem__causal_job *job,
                           const mnem_worker *worker) {
    return (char *)args->workspace + (uint64_t)worker->index * own_bytes(&op->desc, job);
}

/* ---- run ---- */

/* How a run is cut: per sequence and KV head, heads of the group and tiles this many at a time. */
typedef struct cut {
    mnem__causal_run *function;
    int64_t heads, tiles;
} cut;

/* All sequences and heads at the tile first. index counts the units. */
static void deal_tile(const mnem__causal_job *job, int64_t tokens, const mnem_worker *worker,
                      const cut *by, int64_t first, const mnem__causal_scratch *scratch,
                      int64_t *index) {
    const int64_t parts = (job->group + by->heads - 1) / by->heads;
    for (int64_t row = 0; row < tokens; row += job->sequence)
        for (int64_t i = 0; i < job->heads / job->group * parts; i++, ++*index) {
            if (*index % worker->count != worker->index) continue;
            const int64_t head = i % parts * by->heads;
            by->function(
                job,
                &(mnem__causal_unit){.row = row,
                                     .kv_head = i / parts,
                                     .head = i / parts * job->group + head,
                                     .heads = mnem__min_i64(job->group - head, by->heads),
                                     .tile = first,
                                     .tiles = mnem__min_i64(job->tiles - first, by->tiles)},
                scratch);
        }
}

/* The longest units first: keys are long at the start of a sequence, queries at its end. */
static void deal(const mnem__causal_job *job, int64_t tokens, const mnem_worker *worker,
                 const cut *by, bool forwards, const mnem__causal_scratch *scratch) {
    const int64_t steps = (job->tiles + by->tiles - 1) / by->tiles;
    int64_t index = 0;
    for (int64_t i = 0; i < steps; i++)
        deal_tile(job, tokens, worker, by, (forwards ? i : steps - 1 - i) * by->tiles, scratch,
                  &index);
}

static void run_causal_attention(const mnem_op *op, const mnem_op_args *args,
                                 const mnem_worker *worker) {
    const mnem__causal_kernels *kernels = op->detail;
    const mnem__causal_job job = job_get(&op->desc, args);
    const mnem__causal_scratch s = scratch_forward(&job, own_workspace(op, args, &job, worker));
    const int64_t heads = mnem__min_i64(job.group, job.items);
    deal(&job, args->tokens, worker, &(cut){kernels->forward, heads, job.items / heads}, false, &s);
}

/* One walk costs 5 where two cost 7, but has few units: it pays if members don't idle. */
static bool one_walk_pays(const mnem__causal_job *job, int64_t tokens, int64_t members) {
    const int64_t units = tokens / job->sequence * (job->heads / job->group);
    const int64_t turns = (units + members - 1) / members;
    return job->tiles == 1 || 7 * units >= 5 * turns * members;
}

static void run_gradient(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__causal_kernels *kernels = op->detail;
    const mnem__causal_job job = job_get(&op->desc, args);
    char *start = own_workspace(op, args, &job, worker);
    const mnem__causal_scratch keys = scratch_keys(&job, start);
    const mnem__causal_scratch queries = scratch_queries(&job, start);
    const bool dkeys = job.dk.base || job.dv.base, dquery = job.dq.base != NULL;
    const int64_t heads = mnem__min_i64(job.group, job.items);
    const cut all = {kernels->gradient, job.group, job.tiles};
    const cut by_keys = {kernels->gradient_keys, job.group, job.items};
    const cut by_queries = {kernels->gradient_queries, heads, job.items / heads};
    if (dkeys && dquery && keys.dquery && one_walk_pays(&job, args->tokens, worker->count)) {
        deal(&job, args->tokens, worker, &all, true, &keys);
        return;
    }
    if (dkeys) deal(&job, args->tokens, worker, &by_keys, true, &keys);
    if (dquery) deal(&job, args->tokens, worker, &by_queries, false, &queries);
}

static void run_double(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__causal_job job = job_get(&op->desc, args);
    const int64_t kv_heads = job.heads / job.group;
    double *row = (double *)(void *)own_workspace(op, args, &job, worker);
    for (int64_t i = worker->index; i < args->tokens / job.sequence * kv_heads;
         i += worker->count) {
        const mnem__causal_unit unit = {.row = i / kv_heads * job.sequence,
                                        .kv_head = i % kv_heads};
        if (op->desc.kind == MNEM_OP_CAUSAL_ATTENTION)
            mnem__causal_forward_f64(&job, &unit, row);
        else
            mnem__causal_gradient_f64(&job, &unit, row);
    }
}

/* ---- registry ---- */

#define KERNEL(level)                                                                              \
    {                                                                                              \
        MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "causal_attention " #level, run_causal_attention,          \
            &mnem__causal_kernels_##level                                                          \
    }
#define KERNEL_GRADIENT(level)                                                                     \
    {                                                                                              \
        MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "causal_attention_grad " #level, run_gradient,             \
            &mnem__causal_kernels_##level                                                          \
    }

static const mnem__op_kernel list_plain[] = {
    KERNEL(plain),
    {MNEM_TYPE_F64, MNEM_LAYOUT_ROW, "causal_attention f64", run_double, NULL},
};
static const mnem__op_kernel list_gradient_plain[] = {
    KERNEL_GRADIENT(plain),
    {MNEM_TYPE_F64, MNEM_LAYOUT_ROW, "causal_attention_grad f64", run_double, NULL},
};
static const mnem__op_kernels forward_plain = {list_plain, 2};
static const mnem__op_kernels gradient_plain = {list_gradient_plain, 2};
#if MNEM_X86
static const mnem__op_kernel list_avx2[] = {KERNEL(avx2)}, list_avx512[] = {KERNEL(avx512)};
static const mnem__op_kernel list_gradient_avx2[] = {KERNEL_GRADIENT(avx2)};
static const mnem__op_kernel list_gradient_avx512[] = {KERNEL_GRADIENT(avx512)};
static const mnem__op_kernels forward_avx2 = {list_avx2, 1}, forward_avx512 = {list_avx512, 1};
static const mnem__op_kernels gradient_avx2 = {list_gradient_avx2, 1};
static const mnem__op_kernels gradient_avx512 = {list_gradient_avx512, 1};
#endif

const mnem__op_table mnem__op_causal_attention = {
    .check = check_causal_attention,
    .key = mnem__row_key,
    .workspace = workspace,
    .levels = MNEM__OP_LISTS(forward),
};

const mnem__op_table mnem__op_causal_attention_grad = {
    .check = check_causal_attention_grad,
    .key = mnem__row_key,
    .workspace = workspace,
    .levels = MNEM__OP_LISTS(gradient),
};
