/* experts.c: EXPERTS: checks, the rows of each expert, the walk over the experts.
 *
 * Idea: rows are sorted by expert, so that each expert's matrices are used once, for all its rows.
 * A member computes its columns of an expert's hidden rows, all meet, and it computes its columns
 * of the result. With few tokens a row's results are kept until all are there, so that experts may
 * come in any order; with many they come ascending, and each is added at once.
 * Invariant: out is the same chain of fused additions either way, in the order of the experts'
 * numbers; a row's bits depend on its token only. Apart, results stay as they are, in out, for
 * experts_sum.c to add.
 * Cost: T k rows through two products and one; a meeting an expert, and one before the first. */
#include <string.h>

#include "base/minmax.h"
#include "ops/experts/experts.h"

static bool is_packed(const mnem_tensor *weight, int64_t rows, int64_t k) {
    return weight->layout == MNEM_LAYOUT_PACKED && mnem__tensor_valid(weight) &&
           weight->shape[0] == rows && weight->shape[1] == k;
}

/* What an expert gives. */
static int64_t width_out(const mnem_op_desc *desc) {
    return desc->apart && desc->route.used > 0 ? desc->out.shape[1] / desc->route.used
                                               : desc->out.shape[1];
}

/* Beside each other, so that they are one row for each of a token's experts. */
static mnem_status check_apart(const mnem_op_desc *desc) {
    const mnem_tensor *out = &desc->out;
    if (!desc->apart) return MNEM_OK;
    if (desc->axis < 0 || out->shape[1] % desc->route.used ||
        out->stride[0] != out->shape[1] * (int64_t)sizeof(float))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 [T, used * n_out], without gaps");
    return MNEM_OK;
}

/* Gates and ups apart, in one, or no gates. */
static mnem_status check_core(const mnem_op_desc *desc) {
    const bool gated = desc->core == MNEM_OP_SILU_MUL || desc->core == MNEM_OP_GELU_MUL ||
                       desc->core == MNEM_OP_SWIGLU_MUL || desc->core == MNEM_OP_RELU_MUL;
    const bool apart = !mnem__tensor_absent(&desc->in[2]);
    if (!(desc->limit >= 0) || (desc->limit > 0 && desc->core != MNEM_OP_SILU_MUL))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "limit is %g, expected 0 (or more, with core silu_mul)",
                             (double)desc->limit);
    if (!gated && desc->core != MNEM_OP_RELU_SQUARED)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "core must be silu_mul, gelu_mul, swiglu_mul, relu_mul, or "
                             "relu_squared (without gates)");
    if (apart && !gated)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] must be absent (dims 0) for core relu_squared");
    if (!apart && !mnem__tensor_absent(&desc->in[5]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[5] must be absent (dims 0), because in[2] is absent");
    return MNEM_OK;
}

static mnem_status check_weights(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *gate = &desc->in[1], *down = &desc->in[3];
    const mnem_tensor *bias = &desc->in[5];
    const int64_t ff = down->shape[1], n_out = width_out(desc);
    if (ff < 16 || ff % MNEM_PACK_ROWS || n_out % MNEM_PACK_ROWS ||
        gate->shape[0] % mnem__experts_first_rows(desc))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of rows of each expert in in[1], in[2] and in[3] must be "
                             "a multiple of 16, at least 16");
    const int64_t experts = mnem__experts_count(desc);
    const bool apart = !mnem__tensor_absent(&desc->in[2]);
    if (!is_packed(gate, experts * mnem__experts_first_rows(desc), in->shape[1]) ||
        (apart && !is_packed(&desc->in[2], experts * ff, in->shape[1])) ||
        !is_packed(down, experts * n_out, ff))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1], in[2] and in[3] must be packed: gate [N * ff, n], up [N * ff, "
                             "n] and down [N * n_out, ff]");
    if (!mnem__tensor_absent(bias) &&
        (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != experts * (2 * ff + n_out)))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[5] must be F32 [N * (2 * ff + n_out)], with the N, ff and n_out "
                             "of in[1] and in[3]");
    if (desc->route.used < 1 || (desc->route.used > experts && !desc->apart))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "route.used is %d, expected 1 to %lld, the number of experts",
                             (int)desc->route.used, (long long)experts);
    return check_apart(desc);
}

static mnem_status check_experts(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out, *routes = &desc->in[4];
    const bool f32 = mnem__tensor_is_f32(in, 2);
    if (!f32 && !mnem__op_is_a8(in, in->shape[0], in->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 or A8 [T, n]");
    if (!mnem__tensor_is_f32(out, 2) || out->shape[0] != in->shape[0])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must be F32, a matrix with as many rows as in[0]");
    MNEM__TRY(check_core(desc));
    MNEM__TRY(check_weights(desc));
    if (!f32 && (mnem_matmul_input(desc->in[1].type) != MNEM_TYPE_A8 ||
                 (!mnem__tensor_absent(&desc->in[2]) &&
                  mnem_matmul_input(desc->in[2].type) != MNEM_TYPE_A8)))
        return mnem__op_fail(MNEM_UNSUPPORTED, desc,
                             "in[0] must be F32, because in[1] or in[2] is of a float type");
    if (!mnem__tensor_is_f32(routes, 2) || routes->shape[0] != in->shape[0] ||
        routes->shape[1] != 2 * (int64_t)desc->route.used)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[4] must be F32 [T, 2 * route.used], with the T of in[0]");
    if (in->shape[0] > INT32_MAX / desc->route.used)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the tokens (dimension 0 of in[0]) times route.used must be less than "
                             "2^31: run fewer tokens at once");
    return MNEM_OK;
}

/* ---- the workspace ---- */

static uint64_t ready_bytes(mnem_type weight, int64_t n) {
    const mnem_type type = mnem__matmul_ready_type(mnem__matmul_kernel_get(weight));
    return mnem__align_up(mnem_type_row_bytes(type, n + (type == MNEM_TYPE_BF16 && n % 2)), 64);
}

static uint64_t lines(uint64_t bytes) {
    return mnem__align_up(bytes, 64);
}

static mnem__experts_sizes sizes_of(const mnem_op_desc *d) {
    const mnem_tensor *gate = &d->in[1], *up = &d->in[2], *down = &d->in[3];
    mnem__experts_sizes s = {.tokens = d->in[0].shape[0],
                             .used = d->route.used,
                             .n = d->in[0].shape[1],
                             .ff = down->shape[1],
                             .n_out = width_out(d)};
    s.experts = mnem__experts_count(d);
    s.input_row = ready_bytes(gate->type, s.n);
    if (!mnem__tensor_absent(up))
        s.input_row = mnem__max_u64(s.input_row, ready_bytes(up->type, s.n));
    s.hidden_row = ready_bytes(down->type, s.ff);
    const uint64_t tokens = (uint64_t)s.tokens, rows = tokens * (uint64_t)s.used;
    const uint64_t most = d->apart ? 0 : MNEM__EXPERTS_ANY_ORDER;
    const uint64_t kept = mnem__min_u64(tokens, most) * (uint64_t)s.used;
    const uint64_t block = mnem__min_u64(tokens, MNEM__EXPERTS_BLOCK);
    const uint64_t wide = mnem__max_u64(2 * (uint64_t)s.ff, (uint64_t)s.n_out);
    s.lists = lines((2 * (uint64_t)s.experts + 1 + rows) * sizeof(int32_t));
    s.hidden = tokens * s.hidden_row;
    s.results = lines(kept * (uint64_t)s.n_out * sizeof(float));
    s.gathered = block * s.input_row;
    s.products = lines(block * wide * sizeof(float));
    return s;
}

static uint64_t workspace(const mnem_op *op) {
    const mnem__experts_sizes s = sizes_of(&op->desc);
    return s.lists + 2 * s.hidden + s.results +
           (s.gathered + s.products) * (uint64_t)op->desc.workers;
}

static void open_run(mnem__experts *x, const mnem_op *op, const mnem_op_args *args,
                     const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    *x = (mnem__experts){.op = op,
                         .args = args,
                         .worker = worker,
                         .sizes = sizes_of(d),
                         .rows = op->detail,
                         .in = mnem__op_rows_get(&d->in[0], args->in[0]),
                         .routes = mnem__op_rows_get(&d->in[4], args->in[4]),
                         .out = mnem__op_rows_get(&d->out, args->out),
                         .any_order = d->apart || args->tokens <= MNEM__EXPERTS_ANY_ORDER};
    const mnem__experts_sizes *s = &x->sizes;
    uint8_t *at = args->workspace;
    x->first = (void *)at;
    x->wanted = x->first + s->experts + 1;
    x->entry = x->wanted + s->experts;
    x->hidden[0] = at + s->lists;
    x->hidden[1] = x->hidden[0] + s->hidden;
    x->results = (void *)(x->hidden[1] + s->hidden);
    if (d->apart) x->results = mnem__op_row(&x->out, 0, 0);
    at += s->lists + 2 * s->hidden + s->results;
    x->gathered = at + (uint64_t)worker->index * (s->gathered + s->products);
    x->products = (void *)(x->gathered + s->gathered);
    for (int i = 0; i < 3; i++)
        x->kernel[i] = mnem__tensor_absent(&d->in[1 + i])
                           ? x->kernel[0]
                           : mnem__matmul_kernel_get(d->in[1 + i].type);
}

/* ---- rows by expert ---- */

/* Counted from the first that is here; below 0: not here. */
static int32_t expert_of(const mnem__experts *x, int64_t row) {
    const float *route = mnem__op_row(&x->routes, row / x->sizes.used, 0);
    const int32_t first = x->op->desc.apart ? x->op->desc.axis : 0;
    const int32_t number = (int32_t)route[row % x->sizes.used] - first;
    return number < x->sizes.experts ? number : -1;
}

/* Counting sort, by worker 0; an expert's rows stay in the order of the tokens. Returns how many
 * experts have rows. */
static int32_t sort_rows(const mnem__experts *x) {
    const int64_t rows = x->args->tokens * x->sizes.used, experts = x->sizes.experts;
    int32_t wanted = 0;
    memset(x->first, 0, (size_t)(experts + 1) * sizeof *x->first);
    for (int64_t i = 0; i < rows; i++)
        if (expert_of(x, i) >= 0) x->first[expert_of(x, i) + 1]++;
    for (int64_t e = 0; e < experts; e++) {
        if (x->first[e + 1] > 0) x->wanted[wanted++] = (int32_t)e;
        x->first[e + 1] += x->first[e];
    }
    for (int64_t i = 0; i < rows; i++)
        if (expert_of(x, i) >= 0) x->entry[x->first[expert_of(x, i)]++] = (int32_t)i;
    for (int64_t e = experts; e > 0; e--) x->first[e] = x->first[e - 1];
    x->first[0] = 0;
    return wanted;
}

static int32_t count_wanted(const mnem__experts *x) {
    int32_t wanted = 0;
    for (int64_t e = 0; e < x->sizes.experts; e++) wanted += x->first[e + 1] > x->first[e];
    return wanted;
}

/* ---- the walk ---- */

static void clear(const mnem__experts *x) {
    int64_t begin, end;
    mnem__experts_columns(x, &begin, &end);
    for (int64_t t = 0; t < x->args->tokens; t++)
        memset((float *)mnem__op_row(&x->out, t, 0) + begin, 0,
               (size_t)(end - begin) * sizeof(float));
}

/* The results that were kept, added in the order of the experts' numbers. */
static void add_results(const mnem__experts *x) {
    int64_t begin, end;
    mnem__experts_columns(x, &begin, &end);
    const mnem__experts_sum sum = {x->rows, x->sizes.used, x->sizes.n_out,
                                   x->op->desc.route.on_input};
    for (int64_t t = 0; t < x->args->tokens; t++) {
        const float *results = x->results + t * x->sizes.used * x->sizes.n_out + begin;
        mnem__experts_add(&sum, mnem__op_row(&x->routes, t, 0), results, end - begin,
                          (float *)mnem__op_row(&x->out, t, 0) + begin);
    }
}

static void run_experts(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__experts x;
    const mnem_op_experts *source = args->experts;
    open_run(&x, op, args, worker);
    if (worker->index == 0) source->want(source->context, x.wanted, sort_rows(&x), !x.any_order);
    mnem_team_barrier(worker);
    if (!op->desc.apart) clear(&x);
    const int32_t count = count_wanted(&x);
    for (int32_t at = 0; at < count; at++) {
        mnem_op_expert expert = {.number = x.wanted[at]};
        if (!source->next(source->context, worker, at, &expert)) return;
        const mnem__expert_rows rows = {
            .expert = &expert,
            .entry = x.entry + x.first[expert.number],
            .count = x.first[expert.number + 1] - x.first[expert.number],
            .hidden = x.hidden[at & 1],
        };
        mnem__experts_hidden(&x, &rows);
        mnem_team_barrier(worker);
        mnem__experts_result(&x, &rows);
    }
    if (x.any_order && !op->desc.apart) add_results(&x);
}

MNEM__ROW_OP(experts, check_experts, workspace, run_experts)
