/* linear_loss.c: LINEAR_LOSS: cross-entropy over a vocabulary without all of its logits.
 *
 * Some tokens at a time (256 to 1024), and of a large vocabulary some words at a time. The logits
 * of the first words may be kept from the losses to the gradients, those of others are computed
 * twice:
 *
 *     for each part of the tokens
 *         for each group of words: logits = x weight^T; of each token the largest, the sum of exp
 *         losses = log(sum) + largest - logit of the target
 *         for each group of words: logits once more, unless they were kept
 *             dlogits = (exp(logit - largest) / sum - [word is target]) * gradient_scale
 *             dx += dlogits weight; dweight += dlogits^T x
 *
 *     vocabulary  | kept: one group, 0 to all | 1024 words | 1024 words | ... |
 *     workspace   kept logits [tokens, kept] | logits of a group [tokens, 1024] |
 *                 largest, sum, logit of each token | dx's sums [tokens, n] if dx is 16 bits wide
 *                 and there are several groups | a teacher's sums, and its logits as the first
 *                 two | the products'
 *
 * With a teacher (linear_teach.h) its logits of the same words lie beside.
 *
 * All words are kept if those of 256 tokens fit desc.keep_bytes (4 MiB if that is 0), and up to
 * 8192 words always. So the default takes at most 8 MiB (and 1 KiB for each of the n numbers of x,
 * where that is more) for a vocabulary of any size, beside what the products need.
 *
 * Only the time depends on what is kept and on the parts: sums of exp begin every 1024 words, dx's
 * every 512, those of gradients of weights every 256 tokens (as in LINEAR_GRAD_WEIGHT), and parts
 * are a multiple of that. Losses and dx don't depend on the number of tokens.
 *
 * (Few tokens at a time would make room for all words. But packing the weights and adding to their
 * gradients, once for each few tokens, would cost more than the products.) */
#include "ops/gemm/linear.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "ops/gemm/linear_teach.h"

enum { WHOLE_WORDS = 8192, GROUP_WORDS = 1024, INPUT_WORDS = 512 };
enum { LEAST_TOKENS = 256, MOST_TOKENS = 1024, KEEP_BYTES = 4 << 20 };

typedef struct token_sum {
    mnem__exp_sum logits;
    double target; /* its logit */
} token_sum;

/* Where things are in the workspace; the same function measures and carves. */
typedef struct layout {
    int64_t tokens, words; /* of a part, of a group after the first */
    int64_t kept;          /* words */
    bool sums_dx;
    uint64_t group, sums, dx, taught, teacher, gemm; /* taught: sums; teacher: its logits */
} layout;

static bool wants(const mnem_op_desc *d, int also) {
    return !mnem__tensor_absent(&d->also[also]);
}

static mnem_status check_linear_loss(const mnem_op_desc *desc) {
    const mnem_tensor *x = &desc->in[0], *weight = &desc->in[1], *out = &desc->out;
    const mnem_type wide = mnem__linear_wide(desc);
    MNEM__TRY(mnem__linear_check_input(desc));
    MNEM__TRY(mnem__linear_check_weight(desc));
    if (x->shape[1] != weight->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] and in[1] must have the same number of columns");
    if (weight->shape[0] > INT32_MAX)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] has 2^31 rows (tokens of the vocabulary) or more, which is not supported");
    if (out->type != wide || out->layout != MNEM_LAYOUT_ROW || out->dims != 1 ||
        !mnem__tensor_valid(out) || !mnem_tensor_contiguous(out) || out->shape[0] != x->shape[0] ||
        out->offset % 4 != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must be F32 (F64 if in[0] is) [rows of in[0]]");
    if (wants(desc, 0) && !mnem__linear_is_output(desc, &desc->also[0], x->shape[0], x->shape[1]))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "also[0] must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]");
    if (wants(desc, 1) &&
        (desc->also[1].type != wide ||
         !mnem__linear_is_output(desc, &desc->also[1], weight->shape[0], weight->shape[1])))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "also[1] must be F32 (F64 if in[0] is), with the shape of in[1]");
    return mnem__teach_check(desc);
}

/* ---- one part of the tokens, one group of words ---- */

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
    char *logits, *teacher; /* of the group */
    mnem__taught *taught;   /* NULL: there is no teacher */
    int64_t stride;
} state;

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
    return (mnem__gemm_matrix){s->kernels->wide, s->logits, s->stride, across};
}

/* logits = x weight^T */
static mnem__gemm logits_product(const state *s) {
    const int64_t unit = mnem_type_get(s->op->desc.in[1].type)->block_elements;
    return (mnem__gemm){.m = s->tokens,
                        .n = s->words,
                        .k = s->n,
                        .k_block = mnem__gemm_k_block(s->kernels, s->n, unit > 32 ? unit : 32),
                        .a = input_rows(s, false),
                        .b = weight_rows(s, false),
                        .out = s->logits,
                        .out_type = s->kernels->wide,
                        .out_stride = s->stride};
}

/* The teacher's, from what it has of the same tokens and its own weights. */
static mnem__gemm teacher_product(const state *s) {
    const mnem_op_desc *d = &s->op->desc;
    const int64_t unit = mnem_type_get(d->in[3].type)->block_elements, n = d->in[3].shape[1];
    mnem__gemm g = {.m = s->tokens,
                    .n = s->words,
                    .k = n,
                    .k_block = mnem__gemm_k_block(s->kernels, n, unit > 32 ? unit : 32),
                    .a = mnem__linear_matrix(&d->in[2], s->args->in[2], false),
                    .b = mnem__linear_matrix(&d->in[3], s->args->in[3], false),
                    .out = s->teacher,
                    .out_type = s->kernels->wide,
                    .out_stride = s->stride};
    g.a.data += s->token * g.a.stride;
    g.b.data += s->word * g.b.stride;
    return g;
}

/* dx += dlogits weight, or into the sums of dx */
static mnem__gemm input_product(const state *s) {
    const mnem_tensor *dx = &s->op->desc.also[0];
    const bool sums = s->at.sums_dx;
    return (mnem__gemm){.m = s->tokens,
                        .n = s->n,
                        .k = s->words,
                        .k_block = INPUT_WORDS,
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

/* How many tokens make a part, and how many words are kept. */
static void layout_choose(layout *l, const mnem_op_desc *d, int64_t size) {
    const int64_t vocab = d->in[1].shape[0], n = d->in[1].shape[1], tokens = d->in[0].shape[0];
    const uint64_t room = d->keep_bytes ? d->keep_bytes : KEEP_BYTES;
    const int64_t numbers = (int64_t)(mnem__min_u64(room, INT64_MAX) / (uint64_t)size);
    const bool whole =
        vocab <= WHOLE_WORDS || vocab <= numbers / mnem__min_i64(tokens, LEAST_TOKENS);
    l->words = whole ? vocab : GROUP_WORDS;
    l->sums_dx = wants(d, 0) && !whole && d->also[0].type != mnem__linear_wide(d);
    const int64_t row = l->words + (l->sums_dx ? n : 0);
    l->tokens = numbers / row / LEAST_TOKENS * LEAST_TOKENS;
    if (l->tokens < LEAST_TOKENS) l->tokens = LEAST_TOKENS;
    l->tokens = mnem__min_i64(mnem__min_i64(l->tokens, MOST_TOKENS), tokens);
    l->kept = whole ? vocab : (numbers / l->tokens - row) / GROUP_WORDS * GROUP_WORDS;
    if (l->kept < 0) l->kept = 0;
}

static state state_get(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    state s = {.op = op, .args = args, .worker = worker, .kernels = op->detail};
    s.n = d->in[1].shape[1];
    s.vocab = d->in[1].shape[0];
    s.size = s.kernels->wide == MNEM_TYPE_F64 ? 8 : 4;
    layout *l = &s.at;
    layout_choose(l, d, s.size);
    const uint64_t column = (uint64_t)(l->tokens * s.size);
    l->group = mnem__align_up(column * (uint64_t)l->kept, 64);
    l->sums = l->group;
    if (l->kept < s.vocab) l->sums += mnem__align_up(column * (uint64_t)l->words, 64);
    l->dx = mnem__align_up(l->sums + (uint64_t)l->tokens * sizeof(token_sum), 64);
    l->taught = l->dx;
    if (l->sums_dx) l->taught += mnem__align_up(column * (uint64_t)s.n, 64);
    l->gemm = l->teacher = l->taught;
    if (mnem__teach_is(d)) {
        l->teacher += mnem__align_up((uint64_t)l->tokens * sizeof(mnem__taught), 64);
        l->gemm = l->teacher + l->sums; /* as the student's logits */
    }
    s.workspace = args->workspace;
    if (s.workspace) s.sums = (token_sum *)(void *)(s.workspace + l->sums);
    if (s.workspace && mnem__teach_is(d))
        s.taught = (mnem__taught *)(void *)(s.workspace + l->taught);
    return s;
}

static uint64_t workspace(const mnem_op *op) {
    const mnem_op_args none = {0};
    state s = state_get(op, &none, NULL);
    const int workers = op->desc.workers;
    s.tokens = s.at.tokens;
    s.words = s.at.kept > s.at.words ? s.at.kept : s.at.words;
    mnem__gemm g = logits_product(&s);
    uint64_t bytes = mnem__gemm_bytes(s.kernels, &g, workers);
    g = input_product(&s);
    if (wants(&op->desc, 0)) bytes = mnem__max_u64(bytes, mnem__gemm_bytes(s.kernels, &g, workers));
    g = weight_product(&s);
    if (wants(&op->desc, 1)) bytes = mnem__max_u64(bytes, mnem__gemm_bytes(s.kernels, &g, workers));
    if (mnem__teach_is(&op->desc)) {
        g = teacher_product(&s);
        bytes = mnem__max_u64(bytes, mnem__gemm_bytes(s.kernels, &g, workers));
    }
    return s.at.gemm + bytes;
}

/* ---- rows ---- */

static double logit(const state *s, int64_t token, int64_t word) {
    const char *at = s->logits + token * s->stride + word * s->size;
    if (s->size == 8) return *(const double *)(const void *)at;
    return (double)*(const float *)(const void *)at;
}

/* Adds words [word, word + words) of the group to what is known of a token. */
static void add_words(const state *s, int64_t token, int64_t word, int64_t words) {
    token_sum *t = &s->sums[token];
    const bool first = s->word + word == 0;
    const int64_t at = token * s->stride + word * s->size;
    mnem__exp_sum now;
    s->kernels->sum_exp(words, s->logits + at, 1, &now.largest, &now.sum);
    t->logits = first ? now : mnem__exp_sum_add(t->logits, now, 1);
    if (s->taught)
        mnem__taught_add(&s->taught[token], s->op, words, s->logits + at, s->teacher + at, first);
}

static void sum_token(const state *s, int64_t token) {
    const int64_t target = (int64_t)s->args->targets[s->token + token] - s->word;
    for (int64_t word = 0; word < s->words; word += GROUP_WORDS)
        add_words(s, token, word, mnem__min_i64(s->words - word, GROUP_WORDS));
    if (target >= 0 && target < s->words) s->sums[token].target = logit(s, token, target);
}

static void put_loss(const state *s, int64_t token) {
    const token_sum *t = &s->sums[token];
    const int64_t at = s->token + token;
    double loss = log(t->logits.sum) + (t->logits.largest - t->target);
    loss = s->taught ? mnem__taught_loss(&s->taught[token], &s->op->desc, loss)
                     : (1 - (double)s->op->desc.teach_weight) * loss;
    if (s->args->targets[at] < 0) loss = 0;
    char *out = (char *)s->args->out + s->op->desc.out.offset;
    if (s->size == 8)
        ((double *)(void *)out)[at] = loss;
    else
        ((float *)(void *)out)[at] = (float)loss;
}

/* Logits of a token become their gradients, but for its target's; that of the target is this much
 * less. */
static double turn_words(const state *s, int64_t token, char *row) {
    const mnem__exp_sum logits = s->sums[token].logits;
    const double scale = (double)s->args->gradient_scale;
    const double hard = scale * (1 - (double)s->op->desc.teach_weight);
    if (!s->taught) {
        s->kernels->scale_exp(s->words, row, logits.largest, hard / logits.sum);
        return hard;
    }
    mnem__taught_turn(&s->taught[token], s->op, s->words, row, s->teacher + token * s->stride,
                      logits, scale);
    return hard;
}

static void turn_token(const state *s, int64_t token) {
    char *row = s->logits + token * s->stride;
    const int64_t target = s->args->targets[s->token + token];
    if (target < 0) {
        memset(row, 0, (size_t)(s->words * s->size));
        return;
    }
    const double less = turn_words(s, token, row);
    if (target < s->word || target - s->word >= s->words) return;
    char *at = row + (target - s->word) * s->size;
    if (s->size == 8)
        *(double *)(void *)at -= less;
    else
        *(float *)(void *)at -= (float)less;
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

/* The group that begins at a word. */
static void group_set(state *s, int64_t word) {
    const bool kept = word < s->at.kept;
    const int64_t width = kept ? s->at.kept : s->at.words;
    s->word = word;
    s->words = mnem__min_i64(s->vocab - word, width);
    s->logits = s->workspace + (kept ? 0 : s->at.group);
    s->teacher = s->logits + s->at.teacher;
    s->stride = width * s->size;
}

static void group_logits(const state *s) {
    const mnem__gemm g = logits_product(s);
    multiply(s, &g);
    if (!s->taught) return;
    const mnem__gemm teacher = teacher_product(s);
    multiply(s, &teacher);
}

static void part_losses(state *s) {
    for (int64_t word = 0; word < s->vocab; word += s->words) {
        group_set(s, word);
        group_logits(s);
        for_tokens(s, sum_token);
        if (s->at.kept < s->vocab) mnem_team_barrier(s->worker); /* the next may overwrite these */
    }
    for_tokens(s, put_loss);
}

static void part_gradients(state *s) {
    const mnem_op_desc *d = &s->op->desc;
    for (int64_t word = 0; word < s->vocab; word += s->words) {
        group_set(s, word);
        if (word >= s->at.kept) group_logits(s);
        for_tokens(s, turn_token);
        mnem_team_barrier(s->worker);
        const mnem__gemm dx = input_product(s), dw = weight_product(s);
        if (wants(d, 0)) multiply(s, &dx);
        if (wants(d, 1)) multiply(s, &dw);
    }
    if (s->at.sums_dx) for_tokens(s, put_dx);
}

static void run_linear_loss(const mnem_op *op, const mnem_op_args *args,
                            const mnem_worker *worker) {
    state s = state_get(op, args, worker);
    const bool gradients = wants(&op->desc, 0) || wants(&op->desc, 1);
    for (; s.token < args->tokens; s.token += s.at.tokens) {
        s.tokens = mnem__min_i64(args->tokens - s.token, s.at.tokens);
        part_losses(&s);
        if (gradients) part_gradients(&s);
        mnem_team_barrier(worker);
    }
}

MNEM__GEMM_KERNELS(loss, "linear_loss", run_linear_loss)

const mnem__op_table mnem__op_linear_loss = {.check = check_linear_loss,
                                             .key = mnem__linear_key,
                                             .workspace = workspace,
                                             .levels = MNEM__GEMM_LEVELS(loss)};
