/* prune_cut.c: what is left of each tensor: rows and columns, under which name, in which type.
 *
 * A tensor's role says what its rows and columns are (roles.h): heads' numbers, channels, or what
 * pruning doesn't touch. So one rule serves q, k and v apart or in one matrix, their biases, and
 * gates beside or below what they gate. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/convert/zeros.h"
#include "model/gguf/gguf.h"
#include "model/prune/prune_private.h"

/* ---- lists ---- */

/* Every member of the pieces at first + piece * size, for pieces in the list. */
static int32_t *put_pieces(int32_t *out, const int32_t *pieces, int32_t n, int32_t size,
                           int32_t first) {
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < size; k++) *out++ = first + pieces[i] * size + k;
    return out;
}

static bool put_heads(const mnem__prune_choice *c, mnem__width width, int32_t layer,
                      int32_t *list) {
    const int32_t n = c->to.kv_heads, each = c->from.heads / c->from.kv_heads;
    const int32_t kv = c->from.head_dim, q = each * kv, after_q = c->from.kv_heads * q;
    if (!c->groups) return false;
    const int32_t *groups = c->groups + (int64_t)layer * n;
    switch (width) {
    case MNEM__WIDTH_Q:
    case MNEM__WIDTH_OUT: put_pieces(list, groups, n, q, 0); return true;
    case MNEM__WIDTH_KV:
    case MNEM__WIDTH_VALUES: put_pieces(list, groups, n, kv, 0); return true;
    case MNEM__WIDTH_HEADS: put_pieces(list, groups, n, each, 0); return true;
    case MNEM__WIDTH_QKV:
        list = put_pieces(list, groups, n, q, 0);
        list = put_pieces(list, groups, n, kv, after_q);
        put_pieces(list, groups, n, kv, after_q + c->from.kv_heads * kv);
        return true;
    default: return false;
    }
}

bool mnem__prune_list(const mnem__prune_choice *c, mnem__width width, int32_t layer,
                      int32_t *list) {
    if (layer < 0) return false;
    if (put_heads(c, width, layer, list)) return true;
    if (!c->channels || (width != MNEM__WIDTH_FF && width != MNEM__WIDTH_UP)) return false;
    const int32_t *channels = c->channels + (int64_t)layer * c->to.ff;
    list = put_pieces(list, channels, c->to.ff, 1, 0);
    if (width == MNEM__WIDTH_UP && c->from.gate_in_up)
        put_pieces(list, channels, c->to.ff, 1, c->from.ff);
    return true;
}

static int64_t scaled(int64_t n, int32_t from, int32_t to) {
    return to == from ? n : n / from * to;
}

int64_t mnem__prune_kept(const mnem__prune_choice *c, mnem__width width, int64_t n) {
    switch (width) {
    case MNEM__WIDTH_Q:
    case MNEM__WIDTH_OUT:
    case MNEM__WIDTH_VALUES:
    case MNEM__WIDTH_KV:
    case MNEM__WIDTH_HEADS:
    case MNEM__WIDTH_QKV: return scaled(n, c->from.kv_heads, c->to.kv_heads);
    case MNEM__WIDTH_FF:
    case MNEM__WIDTH_UP: return scaled(n, c->from.ff, c->to.ff);
    default: return n;
    }
}

/* ---- types ---- */

static mnem_status check_type(const mnem__prune_cut *cut) {
    const char *type = mnem_type_get(cut->to)->name;
    if (!mnem_type_row_bytes(cut->to, cut->k_to))
        return mnem__fail(
            MNEM_INVALID,
            "prune: tensor %s: its rows of %lld numbers wouldn't be whole blocks of %s: "
            "choose another type for the result",
            cut->name, (long long)cut->k_to, type);
    if (cut->masked && !mnem__zeros_fit(cut->to))
        return mnem__fail(MNEM_INVALID,
                          "prune: tensor %s would be of type %s, which has no exact zero: choose "
                          "Q4_0, Q8_0 or F16 "
                          "for the result",
                          cut->name, type);
    if (cut->to != cut->tensor.type && !mnem_type_get(cut->tensor.type)->is_weight)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "prune: tensor %s: type %s can't be read as weights; use a file of the "
                          "model in F32, F16, BF16, or a type such as Q8_0, Q4_K or IQ4_XS",
                          cut->name, mnem_type_get(cut->tensor.type)->name);
    return MNEM_OK;
}

static void find_type(const mnem__prune_choice *c, mnem__prune_cut *cut) {
    mnem_tensor_info made = cut->tensor;
    cut->to = made.type;
    if (!c->recipe) return;
    made.name = cut->name;
    memcpy(made.shape, cut->shape, sizeof made.shape);
    cut->to = mnem__recipe_type(c->recipe, &c->to, &made);
}

mnem_status mnem__prune_squares(const mnem__prune_choice *c, const mnem_tensor_info *t,
                                const float **squares) {
    const mnem_imatrix *imatrix = c->options->imatrix;
    const int64_t k = t->shape[t->dims - 1], matrices = t->dims == 3 ? t->shape[0] : 1;
    mnem_imatrix_entry entry;
    *squares = NULL;
    if (!imatrix) return MNEM_OK;
    if (!mnem_imatrix_find(imatrix, t->name, &entry))
        return mnem__fail(MNEM_INVALID,
                          "prune: the importance matrix has no tensor %s: it is incomplete, or "
                          "was made for another model",
                          t->name);
    if (entry.columns != k || entry.matrices != matrices)
        return mnem__fail(MNEM_INVALID,
                          "prune: %s: the importance matrix has %lld matrices of %lld columns, but "
                          "the model %lld of %lld: it was made for another model",
                          t->name, (long long)entry.matrices, (long long)entry.columns,
                          (long long)matrices, (long long)k);
    *squares = entry.sums;
    return MNEM_OK;
}

/* ---- one tensor ---- */

uint64_t mnem__prune_cut_bytes(const mnem__prune_cut *cut) {
    if (cut->compact) return mnem_sparse_bytes(cut->to, cut->rows_to, cut->k_to);
    return (uint64_t)cut->rows_to * mnem_type_row_bytes(cut->to, cut->k_to);
}

static void find_shape(const mnem__prune_choice *c, mnem__prune_cut *cut) {
    const mnem_tensor_info *t = &cut->tensor;
    const int last = t->dims - 1;
    memcpy(cut->shape, t->shape, sizeof cut->shape);
    cut->k = t->shape[last];
    cut->rows = 1;
    for (int i = 0; i < last; i++) cut->rows *= t->shape[i];
    cut->k_to = cut->shape[last] = mnem__prune_kept(c, cut->column_width, cut->k);
    cut->rows_to = mnem__prune_kept(c, cut->row_width, cut->rows);
    if (t->dims == 2) cut->shape[0] = cut->rows_to;
}

mnem_status mnem__prune_cut_get(const mnem__prune_choice *c, uint32_t index, mnem__prune_cut *cut) {
    int32_t layer, to;
    mnem_model_tensor_get(c->model, index, &cut->tensor);
    const char *name = cut->tensor.name, *rest = mnem__layer_name(name, &layer);
    const mnem__role role = mnem__role_find(name, &cut->layer);
    cut->dropped = rest && !mnem__prune_layer(c, layer, &to);
    if (cut->dropped) return MNEM_OK;
    if (rest)
        snprintf(cut->name, sizeof cut->name, "blk.%d.%s", to, rest);
    else
        snprintf(cut->name, sizeof cut->name, "%s", name);
    const mnem__role_info *info = role ? mnem__role_get(role) : NULL;
    cut->row_width = info && cut->layer >= 0 ? info->rows : MNEM__WIDTH_NONE;
    cut->column_width = info && cut->layer >= 0 ? info->columns : MNEM__WIDTH_NONE;
    find_shape(c, cut);
    find_type(c, cut);
    cut->masked = c->options->pattern == MNEM_PRUNE_2_4 && mnem__zeros_are_of(&cut->tensor);
    cut->compact = c->options->compact && cut->masked && cut->tensor.dims == 2 &&
                   mnem__gguf_compact_tensor(cut->to, cut->rows_to, cut->k_to, cut->compact_shape);
    return check_type(cut);
}
