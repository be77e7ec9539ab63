/* delta.c: DELTA: the gated delta rule (Yang, Kautz and Hatamizadeh 2024; by channel: Kimi Linear,
 * 2025), token by token.
 *
 * For each head a state S [n, m] says which value a key has: a token lets it decay, corrects what
 * it knows of the token's key towards the token's value, and asks it for the query. Token by token
 * costs 3 n m multiply-adds; forms that take many tokens at once need fewer passes over S, but
 * their sums depend on where they are cut. state_kernels.h says how S lies and in which order sums
 * are made. A member keeps 16 tokens' normalized keys and queries in the workspace. */
#include <math.h>

#include "ops/state/state_run.h"

enum { TOKENS = MNEM__STATE_TOKENS };

static bool is_by_row(const mnem_op_desc *desc) {
    return desc->in[3].dims == 3;
}

static mnem_status check_gates(const mnem_op_desc *desc, int64_t tokens, int64_t heads, int64_t n) {
    const mnem_tensor *decay = &desc->in[3], *beta = &desc->in[4], *a = &desc->in[5];
    const mnem_tensor *bias = &desc->in[6];
    const bool by_row = is_by_row(desc);
    if (!mnem__tensor_is_f32(decay, by_row ? 3 : 2) || decay->shape[0] != tokens ||
        decay->shape[1] != heads || (by_row && decay->shape[2] != n))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[3] must be F32 [T, heads] or [T, heads, n], with the T and heads of in[2]");
    if (!mnem__tensor_is_f32(beta, 2) || beta->shape[0] != tokens || beta->shape[1] != heads)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[4] must be F32 [T, heads], with the T and heads of in[2]");
    if (!mnem__tensor_is_f32(a, 1) || a->shape[0] != heads)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[5] must be F32 [heads], with the heads of in[2]");
    if (!mnem__tensor_is_f32(bias, by_row ? 2 : 1) || bias->shape[0] != heads ||
        (by_row && bias->shape[1] != n))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[6] must be F32 [heads], or [heads, n] if in[3] is [T, heads, n]");
    return MNEM_OK;
}

static mnem_status check_delta(const mnem_op_desc *desc) {
    const mnem_tensor *q = &desc->in[0], *v = &desc->in[2];
    if (!mnem__tensor_is_f32(q, 3))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, key_heads, n]");
    if (!mnem__tensor_is_f32(&desc->in[1], 3) || !mnem__tensor_same_shape(q, &desc->in[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 of the shape of in[0]");
    if (!mnem__tensor_is_f32(v, 3) || v->shape[0] != q->shape[0])
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be F32 [T, heads, m]");
    if (v->shape[1] % q->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc, "heads must be a multiple of key_heads");
    MNEM__TRY(check_gates(desc, v->shape[0], v->shape[1], q->shape[2]));
    if (!mnem__tensor_is_f32(&desc->out, 3) || !mnem__tensor_same_shape(v, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[2]");
    if (!mnem_state_bytes(v->shape[1], q->shape[2], v->shape[2]))
        return mnem__op_fail(MNEM_INVALID, desc, "the state is larger than 2^40 bytes");
    if (!(desc->epsilon >= 0.0f && desc->epsilon < 1.0f))
        return mnem__op_fail(MNEM_INVALID, desc, "epsilon is %g, expected 0 to less than 1",
                             (double)desc->epsilon);
    if (!isfinite(desc->scale) || desc->scale == 0.0f)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "scale is %g, expected a finite number other than 0",
                             (double)desc->scale);
    return mnem__state_check(desc);
}

/* One member's view: the parts of the workspace, and what a head's tokens have in common. */
typedef struct delta_run {
    const mnem__state_kernels *kernels;
    const mnem_op_desc *desc;
    mnem__op_rows q, k, v, decay, beta, a, bias, out;
    float *unit_q, *unit_k;     /* [TOKENS, n] */
    float *row_decay, *decay_k; /* the same, of decays by row; else NULL */
    float decays[TOKENS], betas[TOKENS];
} delta_run;

static int64_t key_head_of(const delta_run *r, int64_t head) {
    if (r->desc->tiled) return head % r->q.heads;
    return head / (r->v.heads / r->q.heads);
}

static void prepare_gates(delta_run *r, const mnem__state_part *part) {
    const float a = ((const float *)(const void *)r->a.base)[part->head];
    const float *bias = (const float *)(const void *)r->bias.base;
    for (int t = 0; t < part->tokens; t++) {
        const float *beta = mnem__op_row(&r->beta, part->first_row + t, 0);
        const float *decay = mnem__op_row(&r->decay, part->first_row + t, 0);
        r->betas[t] = beta[part->head];
        if (!r->row_decay) r->decays[t] = decay[part->head];
    }
    r->kernels->sigmoid(part->tokens, r->betas, r->betas);
    if (r->row_decay) return;
    r->kernels->softplus(part->tokens, r->decays, bias + part->head, 0, r->decays);
    r->kernels->exp(part->tokens, r->decays, a, r->decays);
}

/* Decays of a token's rows, and its key decayed by them. */
static void prepare_rows(delta_run *r, const mnem__state_part *part, int t) {
    const mnem__state_kernels *k = r->kernels;
    const int64_t n = r->q.n;
    const float a = ((const float *)(const void *)r->a.base)[part->head];
    float *decay = r->row_decay + t * n;
    k->softplus(n, mnem__op_row(&r->decay, part->first_row + t, part->head),
                mnem__op_row(&r->bias, part->head, 0), 1, decay);
    k->exp(n, decay, a, decay);
    k->mul(n, decay, r->unit_k + t * n, r->decay_k + t * n);
}

static void prepare(void *own, const mnem__state_part *part) {
    delta_run *r = own;
    const int64_t n = r->q.n, head = key_head_of(r, part->head);
    prepare_gates(r, part);
    for (int t = 0; t < part->tokens; t++) {
        const int64_t row = part->first_row + t;
        r->kernels->unit(n, mnem__op_row(&r->q, row, head), r->desc->epsilon, r->desc->scale,
                         r->unit_q + t * n);
        r->kernels->unit(n, mnem__op_row(&r->k, row, head), r->desc->epsilon, 1.0f,
                         r->unit_k + t * n);
        if (r->row_decay) prepare_rows(r, part, t);
    }
}

static void token(void *own, const mnem__state_part *part, mnem__state_block *block, int64_t column,
                  int t) {
    const delta_run *r = own;
    const int64_t row = part->first_row + t, n = r->q.n;
    const mnem__delta_token token = {.k = r->unit_k + t * n,
                                     .q = r->unit_q + t * n,
                                     .decay_k = r->row_decay ? r->decay_k + t * n : NULL,
                                     .row_decay = r->row_decay ? r->row_decay + t * n : NULL,
                                     .decay = r->row_decay ? 1.0f : r->decays[t],
                                     .beta = r->betas[t]};
    block->x = (const float *)mnem__op_row(&r->v, row, part->head) + column;
    block->out = (float *)mnem__op_row(&r->out, row, part->head) + column;
    r->kernels->delta(block, &token);
}

static uint64_t part_bytes(const mnem_op_desc *desc) {
    const uint64_t arrays = is_by_row(desc) ? 4 : 2;
    return arrays * TOKENS * (uint64_t)desc->in[0].shape[2] * sizeof(float); /* 64 x */
}

static uint64_t workspace(const mnem_op *op) {
    return part_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static void run_delta(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const int64_t n = d->in[0].shape[2];
    float *scratch = mnem__op_scratch(args, worker, part_bytes(d));
    delta_run own = {.kernels = op->detail,
                     .desc = d,
                     .q = mnem__op_rows_get(&d->in[0], args->in[0]),
                     .k = mnem__op_rows_get(&d->in[1], args->in[1]),
                     .v = mnem__op_rows_get(&d->in[2], args->in[2]),
                     .decay = mnem__op_rows_get(&d->in[3], args->in[3]),
                     .beta = mnem__op_rows_get(&d->in[4], args->in[4]),
                     .a = mnem__op_rows_get(&d->in[5], args->in[5]),
                     .bias = mnem__op_rows_get(&d->in[6], args->in[6]),
                     .out = mnem__op_rows_get(&d->out, args->out),
                     .unit_q = scratch,
                     .unit_k = scratch + TOKENS * n,
                     .row_decay = is_by_row(d) ? scratch + 2 * TOKENS * n : NULL,
                     .decay_k = is_by_row(d) ? scratch + 3 * TOKENS * n : NULL};
    const mnem__state_run run = {.heads = own.v.heads,
                                 .rows = n,
                                 .columns = own.v.n,
                                 .prepare = prepare,
                                 .token = token,
                                 .own = &own};
    mnem__state_walk(&run, op, args, worker);
}

MNEM__STATE_OP(delta, check_delta, workspace, run_delta)
