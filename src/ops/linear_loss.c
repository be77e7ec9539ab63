/* linear_loss.c: LINEAR_LOSS: cross-entropy over a vocabulary without all of its logits.
 *
 * Some tokens at a time (256 to 1024), and of a large vocabulary some words at a time:
 *
 *     for each part of the tokens
 *         for each block of words: logits = x weight^T; of each token the largest, the sum of exp
 *         losses = log(sum) + largest - logit of the target
 *         for each block of words: logits once more, unless there is one block
 *             dlogits = (exp(logit - largest) / sum - [word is target]) * gradient_scale
 *             dx += dlogits weight; dweight += dlogits^T x
 *
 *     workspace:  logits [tokens, block] | largest, sum, logit of each token |
 *                 dx's sums [tokens, n] if dx is 16 bits and there are blocks | the products'
 *
 * Blocks begin at fixed words, so that losses and dx don't depend on the number of tokens; tokens of
 * a part are a multiple of 256, whose gradients of weights are then those of LINEAR_GRAD_WEIGHT.
 * Up to 8192 words are one block, larger vocabularies blocks of 1024 whose logits are computed twice:
 * a third more products, but the logits take 4 MiB, or 8 at most, for a vocabulary of any size.
 * (Of many tokens' logits, those of few tokens would fit, but then packing weights and adding to
 * their gradients, once for each few tokens, would cost more than the products.) */
#include "ops/linear.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

enum { WHOLE_WORDS = 8192, BLOCK_WORDS = 1024, LEAST_TOKENS = 256, MOST_TOKENS = 1024 };
enum { LOGITS = 1 << 20 }; /* in a block, where LEAST_TOKENS allows it */

typedef struct token_sum {
    double largest, sum, target; /* target: its logit */
} token_sum;

/* Where things are in the workspace; the same function measures and carves. */
typedef struct layout {
    int64_t words, tokens; /* of a block of logits */
    bool blocks, sums_dx;
    uint64_t sums, dx, gemm, bytes;
} layout;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool wants(const mnem_op_desc *d, int also) {
    return !mnem__tensor_absent(&d->also[also]);
}

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *x = &desc->in[0], *weight = &desc->in[1], *out = &desc->out;
    const mnem_type wide = mnem__linear_wide(desc);
    mnem_status status = mnem__linear_check_input(desc);
    if (status == MNEM_OK) status = mnem__linear_check_weight(desc);
    if (status != MNEM_OK) return status;
    if (x->shape[1] != weight->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] and in[1] differ in width");
    if (weight->shape[0] > INT32_MAX)
        return mnem__op_fail(MNEM_INVALID, desc, "more than 2^31 - 1 words");
    if (out->type != wide || out->layout != MNEM_LAYOUT_ROW || out->dims != 1 ||
        !mnem__tensor_valid(out) || !mnem_tensor_contiguous(out) || out->shape[0] != x->shape[0] ||
        out->offset % 4 != 0)
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't one F32 (F64) per token");
    if (wants(desc, 0) && !mnem__linear_is_output(desc, &desc->also[0], x->shape[0], x->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "also[0] isn't real rows of in[0]'s shape");
    if (wants(desc, 1) &&
        (desc->also[1].type != wide ||
         !mnem__linear_is_output(desc, &desc->also[1], weight->shape[0], weight->shape[1])))
        return mnem__op_fail(MNEM_INVALID, desc, "also[1] isn't F32 (F64) of in[1]'s shape");
    return MNEM_OK;
}

/* ---- one part of the tokens, one block of words ---- */

typedef struct state {
    const mnem_op *op;
    const mnem_op_args *args;
    const mnem_worker *worker;
    const mnem__gemm_kernels *kernels;
    layout at;
    char *workspace;
    token_sum *sums;
    int64_t n, vocab, size; /* size: bytes of a wide number */
    int64_t token, tokens, word, words;
} state;

static int64_t logits_stride(const state *s) {
    return s->at.words * s->size;
}

static mnem__gemm_matrix weight_rows(const state *s, bool across) {
    mnem__gemm_matrix m = mnem__linear_matrix(&s->op->desc.in[1], s->args->in[1], across);
    m.data += s->word * m.stride;
    return m;
}

static mnem__gemm_matrix input_rows(const state *s, bool across) {
    mnem__gemm_matrix m = mnem__linear_matrix(&s->op->desc.in[0], s->args->in[0], across);
    m.data += s->token * m.stride;
    return m;
}

static mnem__gemm_matrix logits_rows(const state *s, bool across) {
    return (mnem__gemm_matrix){s->kernels->wide, s->workspace, logits_stride(s), across};
}

/* logits = x weight^T */
static mnem__gemm logits_product(const state *s) {
    const int64_t unit = mnem_type_info_get(s->op->desc.in[1].type)->block_elements;
    return (mnem__gemm){.m = s->tokens,
                        .n = s->words,
                        .k = s->n,
                        .k_block = mnem__gemm_k_block(s->n, unit > 32 ? unit : 32),
                        .a = input_rows(s, false),
                        .b = weight_rows(s, false),
                        .out = s->workspace,
                        .out_type = s->kernels->wide,
                        .out_stride = logits_stride(s)};
}

/* dx += dlogits weight, or into the sums of dx */
static mnem__gemm input_product(const state *s) {
    const mnem_tensor *dx = &s->op->desc.also[0];
    const bool sums = s->at.sums_dx;
    return (mnem__gemm){.m = s->tokens,
                        .n = s->n,
                        .k = s->words,
                        .k_block = mnem__gemm_k_block(s->at.words, 32),
                        .a = logits_rows(s, false),
                        .b = weight_rows(s, true),
                        .out =
                            sums ? s->workspace + s->at.dx
                                 : (char *)s->args->also[0] + dx->offset + s->token * dx->stride[0],
                        .out_type = sums ? s->kernels->wide : dx->type,
                        .out_stride = sums ? s->n * s->size : dx->stride[0],
                        .accumulate = s->word > 0 || (s->op->desc.accumulate && !sums)};
}

/* dweight += dlogits^T x */
static mnem__gemm weight_product(const state *s) {
    const mnem_tensor *dw = &s->op->desc.also[1];
    return (mnem__gemm){.m = s->words,
                        .n = s->n,
                        .k = s->tokens,
                        .k_block = MNEM__LINEAR_TOKENS,
                        .a = logits_rows(s, true),
                        .b = input_rows(s, true),
                        .out = s->workspace
                                   ? (char *)s->args->also[1] + dw->offset + s->word * dw->stride[0]
                                   : NULL,
                        .out_type = s->kernels->wide,
                        .out_stride = dw->stride[0],
                        .accumulate = true};
}

static void multiply(const state *s, const mnem__gemm *g) {
    mnem__gemm_run(s->kernels, g, s->workspace + s->at.gemm, s->worker);
    mnem_team_barrier(s->worker);
}

/* ---- the layout ---- */

static state state_get(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    state s = {.op = op, .args = args, .worker = worker, .kernels = op->detail};
    s.n = d->in[1].shape[1];
    s.vocab = d->in[1].shape[0];
    s.size = s.kernels->wide == MNEM_TYPE_F64 ? 8 : 4;
    layout *l = &s.at;
    l->blocks = s.vocab > WHOLE_WORDS;
    l->words = l->blocks ? BLOCK_WORDS : s.vocab;
    l->sums_dx = wants(d, 0) && l->blocks && d->also[0].type != s.kernels->wide;
    const int64_t row = l->words + (l->sums_dx ? s.n : 0);
    l->tokens = LOGITS / row / LEAST_TOKENS * LEAST_TOKENS;
    if (l->tokens < LEAST_TOKENS) l->tokens = LEAST_TOKENS;
    l->tokens = least(least(l->tokens, MOST_TOKENS), d->in[0].shape[0]);
    l->sums = mnem__align_up((uint64_t)(l->tokens * l->words * s.size), 64);
    l->dx = mnem__align_up(l->sums + (uint64_t)l->tokens * sizeof(token_sum), 64);
    l->gemm = l->dx;
    if (l->sums_dx) l->gemm += mnem__align_up((uint64_t)(l->tokens * s.n * s.size), 64);
    s.workspace = args->workspace;
    if (s.workspace) s.sums = (token_sum *)(void *)(s.workspace + l->sums);
    return s;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t workspace(const mnem_op *op) {
    const mnem_op_args none = {0};
    state s = state_get(op, &none, NULL);
    const int workers = op->desc.workers;
    s.tokens = s.at.tokens;
    s.words = s.at.words;
    mnem__gemm g = logits_product(&s);
    uint64_t bytes = mnem__gemm_bytes(s.kernels, &g, workers);
    g = input_product(&s);
    if (wants(&op->desc, 0)) bytes = most(bytes, mnem__gemm_bytes(s.kernels, &g, workers));
    g = weight_product(&s);
    if (wants(&op->desc, 1)) bytes = most(bytes, mnem__gemm_bytes(s.kernels, &g, workers));
    return s.at.gemm + bytes;
}

/* ---- rows ---- */

static double logit(const state *s, int64_t token, int64_t word) {
    const char *at = s->workspace + token * logits_stride(s) + word * s->size;
    if (s->size == 8) return *(const double *)(const void *)at;
    return (double)*(const float *)(const void *)at;
}

/* Adds this block's words to what is known of a token. */
static void sum_token(const state *s, int64_t token) {
    token_sum *t = &s->sums[token];
    const int64_t target = (int64_t)s->args->targets[s->token + token] - s->word;
    double largest, sum;
    s->kernels->sum_exp(s->words, s->workspace + token * logits_stride(s), &largest, &sum);
    if (s->word == 0) *t = (token_sum){.largest = largest, .sum = sum};
    if (s->word > 0) {
        const double top = fmax(t->largest, largest);
        t->sum = t->sum * exp(t->largest - top) + sum * exp(largest - top);
        t->largest = top;
    }
    if (target >= 0 && target < s->words) t->target = logit(s, token, target);
}

static void put_loss(const state *s, int64_t token) {
    const token_sum *t = &s->sums[token];
    const int64_t at = s->token + token;
    const double loss = s->args->targets[at] < 0 ? 0.0 : log(t->sum) + (t->largest - t->target);
    char *out = (char *)s->args->out + s->op->desc.out.offset;
    if (s->size == 8)
        ((double *)(void *)out)[at] = loss;
    else
        ((float *)(void *)out)[at] = (float)loss;
}

/* Logits of a token become their gradients. */
static void turn_token(const state *s, int64_t token) {
    char *row = s->workspace + token * logits_stride(s);
    const int64_t target = s->args->targets[s->token + token];
    const double scale = (double)s->args->gradient_scale;
    if (target < 0) {
        memset(row, 0, (size_t)(s->words * s->size));
        return;
    }
    s->kernels->scale_exp(s->words, row, s->sums[token].largest, scale / s->sums[token].sum);
    if (target < s->word || target - s->word >= s->words) return;
    char *at = row + (target - s->word) * s->size;
    if (s->size == 8)
        *(double *)(void *)at -= scale;
    else
        *(float *)(void *)at -= s->args->gradient_scale;
}

typedef void each_token(const state *s, int64_t token);

static void for_tokens(const state *s, each_token *function) {
    int64_t begin, end;
    mnem_team_split(s->worker, s->tokens, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) function(s, i);
}

/* Rounds the sums of dx. */
static void put_dx(const state *s, int64_t token) {
    const mnem_tensor *dx = &s->op->desc.also[0];
    s->kernels->put_row(s->n, s->workspace + s->at.dx + token * s->n * s->size, dx->type,
                        (char *)s->args->also[0] + dx->offset + (s->token + token) * dx->stride[0],
                        s->op->desc.accumulate);
}

/* ---- the loops ---- */

static void block_set(state *s, int64_t word) {
    s->word = word;
    s->words = least(s->vocab - word, s->at.words);
}

static void block_logits(const state *s) {
    const mnem__gemm g = logits_product(s);
    multiply(s, &g);
}

static void part_losses(state *s) {
    for (int64_t word = 0; word < s->vocab; word += s->at.words) {
        block_set(s, word);
        block_logits(s);
        for_tokens(s, sum_token);
        if (s->at.blocks) mnem_team_barrier(s->worker); /* the next overwrites these logits */
    }
    for_tokens(s, put_loss);
}

static void part_gradients(state *s) {
    const mnem_op_desc *d = &s->op->desc;
    for (int64_t word = 0; word < s->vocab; word += s->at.words) {
        block_set(s, word);
        if (s->at.blocks) block_logits(s);
        for_tokens(s, turn_token);
        mnem_team_barrier(s->worker);
        const mnem__gemm dx = input_product(s), dw = weight_product(s);
        if (wants(d, 0)) multiply(s, &dx);
        if (wants(d, 1)) multiply(s, &dw);
    }
    if (s->at.sums_dx) for_tokens(s, put_dx);
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    state s = state_get(op, args, worker);
    const bool gradients = wants(&op->desc, 0) || wants(&op->desc, 1);
    for (; s.token < args->tokens; s.token += s.at.tokens) {
        s.tokens = least(args->tokens - s.token, s.at.tokens);
        part_losses(&s);
        if (gradients) part_gradients(&s);
        mnem_team_barrier(worker);
    }
}

MNEM__GEMM_KERNELS(loss, "linear_loss", run)

const mnem__op_table mnem__op_linear_loss = {.check = check,
                                             .key = mnem__linear_key,
                                             .workspace = workspace,
                                             .levels = MNEM__GEMM_LEVELS(loss)};
