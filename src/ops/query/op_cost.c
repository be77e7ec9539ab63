/* op_cost.c: what a run costs: multiply-adds of what is a product, bytes of every operand once.
 *
 * Most operands have a row for each token. Those that are there as a whole, such as weights, are
 * bits of a table; what a run takes a part of (rows, pages, experts) is a case of its own. */
#include "base/minmax.h"
#include "mnem/op_query.h"
#include "ops/core/op_experts.h"
#include "ops/matmul/low_rank.h"
#include "ops/query/op_extent.h"
#include "ops/query/op_rate.h"

enum { OUT = 1 << MNEM__OP_OUT, ALSO0 = OUT << 1, ALSO1 = OUT << 2, ALL = ALSO1 * 2 - 1 };

/* Operands whose first dimension isn't that of tokens. */
static unsigned wholes(const mnem_op_desc *d) {
    switch (d->kind) {
    case MNEM_OP_EMBED:
    case MNEM_OP_ROPE_TABLE: return 1;
    case MNEM_OP_RMS_NORM:
    case MNEM_OP_ATTENTION:
    case MNEM_OP_SHORT_CONV: return 2;
    case MNEM_OP_ROUTE: return 2 | 4;
    case MNEM_OP_ROW_GATE: return 4;
    case MNEM_OP_MATMUL:
    case MNEM_OP_LAYER_NORM:
    case MNEM_OP_LINEAR:
    case MNEM_OP_LINEAR_GRAD_INPUT: return 6;
    case MNEM_OP_LINEAR_GRAD_WEIGHT: return OUT | ALSO0;
    case MNEM_OP_LINEAR_LOSS: return 2 | ALSO1;
    case MNEM_OP_RMS_NORM_GRAD:
    case MNEM_OP_LAYER_NORM_GRAD: return 2 | ALSO0 | ALSO1;
    case MNEM_OP_EMBED_GRAD: return d->by_token ? 0 : OUT;
    case MNEM_OP_EXPERTS: return 2 | 4 | 8 | 32;
    case MNEM_OP_CONV_SILU: return 2 | 4;
    case MNEM_OP_DELTA: return 32 | 64;
    case MNEM_OP_SCAN: return 16 | 32 | 64;
    case MNEM_OP_REDUCE: return d->axes & 1 ? OUT : 0;
    case MNEM_OP_CONCAT: return d->axis == 0 ? ALL : 0;
    default: return 0;
    }
}

/* Outputs that are added to, and so are read. */
static unsigned added_to(const mnem_op_desc *d) {
    switch (d->kind) {
    case MNEM_OP_EMBED_GRAD: return OUT;
    case MNEM_OP_LINEAR_GRAD_WEIGHT: return OUT | ALSO0;
    case MNEM_OP_LINEAR_LOSS: return ALSO1 | (d->accumulate ? ALSO0 : 0);
    case MNEM_OP_RMS_NORM_GRAD:
    case MNEM_OP_LAYER_NORM_GRAD: return ALSO0 | ALSO1 | (d->accumulate ? OUT : 0);
    default: return d->accumulate ? OUT | ALSO0 | ALSO1 : 0;
    }
}

/* What is broadcast over the first dimension has no part for a token. */
static bool by_tokens(const mnem_op_desc *d, const mnem_tensor *t) {
    const mnem_tensor *counted = mnem__op_counted(d);
    return counted && t->shape[0] == counted->shape[0] &&
           (t->dims == counted->dims || (d->kind != MNEM_OP_ADD && d->kind != MNEM_OP_PRODUCT)) &&
           !(d->kind == MNEM_OP_PRODUCT && t == &d->in[1] && t->dims == 2);
}

/* rows in the place of the first dimension; dimensions that repeat what they have count once. */
static uint64_t bytes_of(const mnem_tensor *t, int64_t rows) {
    const int last = t->dims - 1;
    if (rows <= 0) return 0;
    if (t->layout == MNEM_LAYOUT_PACKED) return mnem_pack_bytes(t->type, rows, t->shape[last]);
    if (t->layout == MNEM_LAYOUT_SPARSE) return mnem_sparse_bytes(t->type, rows, t->shape[last]);
    const int64_t n = last == 0 ? rows : t->shape[last];
    uint64_t bytes = mnem_type_row_bytes(t->type, t->stride[last] == 0 && n > 1 ? 1 : n);
    for (int i = 0; i < last; i++)
        if (t->stride[i] != 0) bytes *= (uint64_t)(i == 0 ? rows : t->shape[i]);
    return bytes;
}

static uint64_t elements(const mnem_tensor *t, int from) {
    uint64_t n = 1;
    for (int i = from; i < t->dims; i++) n *= (uint64_t)t->shape[i];
    return n;
}

/* ---- parts ---- */

static int64_t rows_done(const mnem_op_args *args) {
    return args->row_end - args->row_begin;
}

static uint64_t expert_count(const mnem_op_desc *d) {
    return (uint64_t)mnem__experts_count(d);
}

/* Experts that could be used at most. */
static uint64_t experts_used(const mnem_op_desc *d, int64_t tokens) {
    return mnem__min_u64(expert_count(d), (uint64_t)tokens * (uint64_t)d->route.used);
}

static uint64_t operand_bytes(const mnem_op_desc *d, int i, const mnem_op_args *args) {
    const mnem_tensor *t = mnem__op_operand(d, i);
    if (mnem__tensor_absent(t) || (d->kind == MNEM_OP_EXPERTS && i == 6)) return 0;
    if (d->kind == MNEM_OP_MATMUL && i > 0 && i != 4) /* weights, bias, out: of its rows */
        return i == MNEM__OP_OUT ? (uint64_t)(args->tokens * rows_done(args)) * sizeof(float)
                                 : bytes_of(t, rows_done(args));
    if (d->kind == MNEM_OP_EMBED && i == 0)
        return (uint64_t)args->tokens * mnem_type_row_bytes(t->type, t->shape[1]);
    if (d->kind == MNEM_OP_EXPERTS && (wholes(d) >> i & 1))
        return bytes_of(t, t->shape[0]) / expert_count(d) * experts_used(d, args->tokens);
    const bool whole = wholes(d) >> i & 1 || !by_tokens(d, t);
    return bytes_of(t, whole ? t->shape[0] : args->tokens);
}

/* Numbers beside operands: ids, positions, targets. */
static uint64_t number_bytes(const mnem_op_desc *d, const mnem_op_args *args) {
    const bool numbers = d->kind == MNEM_OP_EMBED || d->kind == MNEM_OP_EMBED_GRAD ||
                         d->kind == MNEM_OP_ROPE_TABLE || d->kind == MNEM_OP_LINEAR_LOSS ||
                         d->kind == MNEM_OP_STATE_LOSS || d->kind == MNEM_OP_STATE_LOSS_GRAD;
    return numbers ? (uint64_t)args->tokens * sizeof(int32_t) : 0;
}

/* Of pages: keys and values of one position, or its index key. */
static uint64_t position_bytes(const mnem_op_desc *d) {
    if (d->kind == MNEM_OP_INDEX || d->kind == MNEM_OP_INDEX_STORE)
        return mnem_index_page_bytes(&d->kv, (int32_t)d->in[0].shape[d->in[0].dims - 1]) /
               (uint64_t)d->kv.page_tokens;
    if (d->kind != MNEM_OP_ATTENTION && d->kind != MNEM_OP_KV_STORE) return 0;
    return mnem_kv_page_bytes(&d->kv) / (uint64_t)d->kv.page_tokens;
}

/* Rows of a matrix of a state: numbers kept for each channel of out. */
static uint64_t state_rows(const mnem_op_desc *d) {
    const mnem_tensor *by_row = &d->in[d->kind == MNEM_OP_DELTA ? 0 : 2];
    return (uint64_t)by_row->shape[by_row->dims - 1];
}

/* How many positions a row attends to at the most, where it chooses; 0: to all. */
static int64_t chosen_most(const mnem_op_desc *d) {
    return d->kind == MNEM_OP_ATTENTION && d->in[2].dims ? d->in[2].shape[1] : 0;
}

/* Positions before the end, or of these tokens. */
static uint64_t positions_touched(const mnem_op_desc *d, const mnem_kv_sequence *kv,
                                  int32_t count) {
    const bool own = d->kind == MNEM_OP_KV_STORE || d->kind == MNEM_OP_INDEX_STORE;
    const int64_t most = chosen_most(d);
    uint64_t positions = 0;
    for (int32_t i = 0; i < count; i++) {
        const mnem_kv_sequence *s = &kv[i];
        int64_t seen = own ? s->rows : (int64_t)s->first_position + s->rows;
        if (!own && d->window > 0) seen = mnem__min_i64(seen, (int64_t)d->window + s->rows - 1);
        if (most > 0) seen = mnem__min_i64(seen, most * s->rows);
        positions += (uint64_t)(s->rows ? seen : 0);
    }
    return positions;
}

/* Of the state of one sequence, which is read and written once, whatever the number of tokens. */
static uint64_t state_bytes(const mnem_op_desc *d) {
    if (d->kind == MNEM_OP_CONV_SILU)
        return mnem_conv_page_bytes(d->in[0].shape[1], (int32_t)d->in[1].shape[1]);
    return mnem__op_has_state(d->kind) ? elements(&d->out, 1) * state_rows(d) * sizeof(float) : 0;
}

static uint64_t states_touched(const mnem_kv_sequence *kv, int32_t count) {
    uint64_t states = 0;
    for (int32_t i = 0; i < count; i++) states += kv[i].rows > 0;
    return states;
}

/* ---- products ---- */

/* A x of LOW_RANK, B .. of MATMUL. */
static mnem_op_cost low_rank(const mnem_op_desc *d, const mnem_op_args *args) {
    const bool add = d->kind == MNEM_OP_MATMUL;
    mnem_op_cost cost = {0};
    if (!args->low && d->low_count) /* all rows use all */
        cost.multiply_adds = (uint64_t)(args->tokens * d->in[add ? 4 : 0].shape[1] *
                                        (add ? rows_done(args) : d->out.shape[1]));
    for (int32_t i = 0; args->low && i < d->low_count; i++) {
        const mnem_low_rank *p = &d->low[i];
        const int64_t rows = add ? rows_done(args) : p->rank;
        const int64_t k = add ? p->rank : d->in[0].shape[1];
        uint64_t used = 0;
        for (int32_t r = 0; r < args->low->count; r++)
            if (args->low->list[r].scale[p->number] != 0) used += (uint64_t)args->low->list[r].rows;
        cost.multiply_adds += used * (uint64_t)(rows * k);
        if (used)
            cost.bytes_read += add ? mnem_pack_bytes(p->b_type, rows, k)
                                   : mnem__low_rank_a_bytes(p->a_type, rows, k);
    }
    return cost;
}

/* Positions that the rows of a sequence see, all of them together. */
static uint64_t positions_seen(const mnem_op_desc *d, const mnem_kv_sequence *s) {
    uint64_t seen = 0;
    for (int32_t r = 0; r < s->rows; r++) {
        const int64_t own = (int64_t)s->first_position + (d->both_ways ? s->rows : r + 1);
        const int64_t most = d->window > 0 ? d->window : chosen_most(d);
        seen += (uint64_t)(most > 0 ? mnem__min_i64(own, most) : own);
    }
    return seen;
}

static uint64_t attention_products(const mnem_op_desc *d, const mnem_kv_sequence *kv,
                                   int32_t count) {
    uint64_t seen = 0;
    for (int32_t i = 0; i < count; i++) seen += positions_seen(d, &kv[i]);
    return seen * (elements(&d->in[0], 1) + (d->kind == MNEM_OP_INDEX ? 0 : elements(&d->out, 1)));
}

/* Scores and values of whole sequences; going back makes scores again, and four gradients. */
static uint64_t causal_products(const mnem_op_desc *d, uint64_t tokens, uint64_t products) {
    const uint64_t sequence = mnem__min_u64((uint64_t)d->sequence, tokens);
    return products * tokens * (sequence + 1) / 2 * elements(&d->in[0], 1);
}

static uint64_t loss_products(const mnem_op_desc *d, uint64_t tokens) {
    const uint64_t gradients =
        (uint64_t)!mnem__tensor_absent(&d->also[0]) + (uint64_t)!mnem__tensor_absent(&d->also[1]);
    return tokens * elements(&d->in[1], 0) * (1 + gradients);
}

static uint64_t multiply_adds(const mnem_op_desc *d, const mnem_op_args *args) {
    const uint64_t tokens = (uint64_t)args->tokens;
    switch (d->kind) {
    case MNEM_OP_MATMUL:
        return tokens * (uint64_t)rows_done(args) * (uint64_t)d->in[1].shape[1] +
               low_rank(d, args).multiply_adds;
    case MNEM_OP_LOW_RANK: return low_rank(d, args).multiply_adds;
    case MNEM_OP_LINEAR:
    case MNEM_OP_SHORT_CONV:
    case MNEM_OP_CONV_SILU:
    case MNEM_OP_LINEAR_GRAD_INPUT: return tokens * elements(&d->in[1], 0);
    case MNEM_OP_LINEAR_GRAD_WEIGHT:
        return mnem__tensor_absent(&d->out) ? 0 : tokens * elements(&d->out, 0);
    case MNEM_OP_LINEAR_LOSS: return loss_products(d, tokens);
    case MNEM_OP_PRODUCT:
        return tokens * elements(&d->out, 1) * (uint64_t)d->in[0].shape[d->in[0].dims - 1];
    case MNEM_OP_EXPERTS:
        return tokens * (uint64_t)d->route.used * (uint64_t)d->in[3].shape[1] *
               (uint64_t)(mnem__experts_readers(d) * d->in[1].shape[1] +
                          d->out.shape[1] / (d->apart ? d->route.used : 1));
    case MNEM_OP_INDEX:
    case MNEM_OP_ATTENTION: return attention_products(d, args->kv, args->kv_count);
    case MNEM_OP_DELTA: return 3 * tokens * elements(&d->out, 1) * state_rows(d);
    case MNEM_OP_SCAN: return 2 * tokens * elements(&d->out, 1) * state_rows(d);
    case MNEM_OP_CAUSAL_ATTENTION: return causal_products(d, tokens, 2);
    case MNEM_OP_CAUSAL_ATTENTION_GRAD: return causal_products(d, tokens, 5);
    default: return 0;
    }
}

mnem_op_cost mnem_op_cost_get(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    mnem_op_cost cost = {.multiply_adds = multiply_adds(d, args),
                         .bytes_read = number_bytes(d, args) + low_rank(d, args).bytes_read};
    for (int i = 0; i < MNEM__OP_OPERANDS; i++) {
        const uint64_t bytes = operand_bytes(d, i, args);
        if (i < MNEM__OP_OUT || added_to(d) >> i & 1) cost.bytes_read += bytes;
        if (i >= MNEM__OP_OUT) cost.bytes_written += bytes;
    }
    const uint64_t states = state_bytes(d) * states_touched(args->kv, args->kv_count);
    cost.bytes_read += states;
    cost.bytes_written += states;
    if (!position_bytes(d)) return cost;
    const uint64_t pages = position_bytes(d) * positions_touched(d, args->kv, args->kv_count);
    if (!mnem__op_reads_pages(d->kind))
        cost.bytes_written += pages;
    else
        cost.bytes_read += pages;
    return cost;
}

/* ---- the same, as numbers to multiply ---- */

mnem__op_rate mnem__op_rate_of(const mnem_op *op) {
    const mnem_op_desc *d = &op->desc;
    mnem_op_args args = {.tokens = 1, .row_end = d->in[1].shape[0]};
    const mnem_op_cost one = mnem_op_cost_get(op, &args);
    args.tokens = 2;
    const mnem_op_cost two = mnem_op_cost_get(op, &args);
    const uint64_t bytes = one.bytes_read + one.bytes_written;
    const uint64_t token = two.bytes_read + two.bytes_written - bytes;
    return (mnem__op_rate){.known = d->kind != MNEM_OP_EXPERTS && /* no more than there are */
                                    !d->low,                      /* by the rows that use it */
                           .bytes = bytes - token,
                           .token_bytes = token,
                           .token_products = two.multiply_adds - one.multiply_adds,
                           .position_bytes = position_bytes(d),
                           .state_bytes = 2 * state_bytes(d)};
}

void mnem__op_rate_pages(const mnem__op_rate *rate, const mnem_op *op, const mnem_kv_sequence *kv,
                         int32_t count, uint64_t *bytes, uint64_t *products) {
    if (rate->position_bytes)
        *bytes += rate->position_bytes * positions_touched(&op->desc, kv, count);
    *bytes += rate->state_bytes * states_touched(kv, count);
    if (mnem__op_reads_pages(op->desc.kind)) *products += attention_products(&op->desc, kv, count);
}
