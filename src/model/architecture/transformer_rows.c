/* transformer_rows.c: which rows of its matrices a part of a transformer has.
 *
 *     q      rows of its heads of queries      gate, up   some rows, of one column each between
 *     k, v   rows of their keys and values     down       of its hidden rows' columns
 *     o      of its hidden rows' columns       output     some words
 *
 * Where q, k and v, or gate and up, are one matrix below each other, a part has rows of each. Of a
 * mixture it has whole experts, by their numbers, and all of the router and of the expert that
 * every token uses.
 *
 * A part computes whole numbers of what each matrix gives, never sums of parts of them: before o,
 * down and whatever reads hidden rows, columns of all parts are gathered. So every number is made
 * as by one program, whoever makes it. */
#include "model/architecture/transformer_rows.h"

#include "base/error.h"
#include "base/minmax.h"
#include "mnem/supports.h"

static bool is_within(mnem_row_range span, int32_t n) {
    return span.begin >= 0 && span.begin < span.end && span.end <= n;
}

/* Whole groups with their keys and values, or a part of one group with a copy of them. */
static bool heads_fit(const mnem_transformer *t, const mnem_row_part *p) {
    const int32_t group = t->heads / t->kv_heads;
    if (!is_within(p->heads, t->heads) || !is_within(p->kv_heads, t->kv_heads)) return false;
    const int32_t begin = p->kv_heads.begin * group, end = p->kv_heads.end * group;
    const bool whole = p->heads.begin == begin && p->heads.end == end;
    return whole || (p->kv_heads.end - p->kv_heads.begin == 1 && p->heads.begin >= begin &&
                     p->heads.end <= end);
}

mnem_status mnem__transformer_cut(mnem_transformer *t, const mnem_row_part *p) {
    MNEM__TRY(mnem_transformer_supports(t, MNEM_FEATURE_RANKS_ROWS));
    if (!heads_fit(t, p) || !is_within(p->ff, t->ff) || !is_within(p->embd, t->embd) ||
        !is_within(p->vocab, t->vocab) || (t->experts > 0 && !is_within(p->experts, t->experts)))
        return mnem__fail(MNEM_INVALID,
                          "model: the ranges of a rank are outside of the model, or split a group "
                          "of heads: heads %d to %d, feed-forward columns %d to %d, hidden columns "
                          "%d to %d, tokens %d to %d, experts %d to %d",
                          p->heads.begin, p->heads.end - 1, p->ff.begin, p->ff.end - 1,
                          p->embd.begin, p->embd.end - 1, p->vocab.begin, p->vocab.end - 1,
                          p->experts.begin, p->experts.end - 1);
    t->rows = *p;
    t->heads = p->heads.end - p->heads.begin;
    t->kv_heads = p->kv_heads.end - p->kv_heads.begin;
    t->ff = p->ff.end - p->ff.begin;
    return MNEM_OK;
}

static mnem_row_range times(mnem_row_range span, int32_t n) {
    return (mnem_row_range){span.begin * n, span.end * n};
}

/* So many rows farther down. */
static mnem_row_range below(mnem_row_range span, int32_t rows) {
    return (mnem_row_range){span.begin + rows, span.end + rows};
}

mnem__row_spans mnem__transformer_rows_of(const mnem__transformer_map *map, mnem__role role) {
    const mnem_transformer *t = &map->shape;
    const mnem_row_range q = times(t->rows.heads, t->head_dim), ff = t->rows.ff;
    const mnem_row_range kv = times(t->rows.kv_heads, t->head_dim);
    const int32_t k_at = map->whole.heads.end * t->head_dim;
    const int32_t v_at = k_at + map->whole.kv_heads.end * t->head_dim;
    switch (role) {
    case MNEM__ROLE_Q:
    case MNEM__ROLE_STATE_GATE: return (mnem__row_spans){{q}};
    case MNEM__ROLE_K:
    case MNEM__ROLE_V: return (mnem__row_spans){{kv}};
    case MNEM__ROLE_QKV: return (mnem__row_spans){{q, below(kv, k_at), below(kv, v_at)}};
    case MNEM__ROLE_GATE: return (mnem__row_spans){{ff}};
    case MNEM__ROLE_UP:
        if (t->gate_in_up) return (mnem__row_spans){{ff, below(ff, map->whole.ff.end)}};
        return (mnem__row_spans){{ff}};
    case MNEM__ROLE_GATE_EXPERTS:
    case MNEM__ROLE_UP_EXPERTS: return (mnem__row_spans){{times(t->rows.experts, t->ff_expert)}};
    case MNEM__ROLE_GATE_UP_EXPERTS:
        return (mnem__row_spans){{times(t->rows.experts, 2 * t->ff_expert)}};
    case MNEM__ROLE_DOWN_EXPERTS: return (mnem__row_spans){{times(t->rows.experts, t->embd)}};
    case MNEM__ROLE_SINKS: return (mnem__row_spans){{t->rows.heads}}; /* a number for each */
    case MNEM__ROLE_O:
    case MNEM__ROLE_DOWN: return (mnem__row_spans){{t->rows.embd}};
    default: return (mnem__row_spans){0}; /* all: router, what every token uses */
    }
}

mnem_row_range mnem__transformer_gathered(const mnem_transformer *t, const mnem_row_part *p,
                                          mnem__gathers what) {
    switch (what) {
    case MNEM__GATHERS_HEADS: return times(p->heads, t->head_dim);
    case MNEM__GATHERS_KEYS: return times(p->kv_heads, t->head_dim);
    case MNEM__GATHERS_FF: return p->ff;
    case MNEM__GATHERS_LOGITS: return p->vocab;
    case MNEM__GATHERS_EXPERTS: return p->experts;
    default: return p->embd;
    }
}

void mnem__transformer_matrix(const mnem__transformer_map *map, int32_t handle,
                              mnem_tensor_info *info) {
    *info = (mnem_tensor_info){.name = ""};
    if (!mnem_model_tensor_get(map->model, (uint32_t)map->matrices[handle], info) || !map->rows ||
        handle >= map->body_count + map->head_count)
        return;
    const int64_t each = info->dims == 3 ? info->shape[1] : 1; /* rows of an expert */
    const int64_t rows = info->shape[0] * each, here = mnem__row_spans_rows(&map->rows[handle]);
    if (here == 0) return; /* all */
    info->bytes = info->bytes / (uint64_t)rows * (uint64_t)here;
    info->file_bytes = info->file_bytes / (uint64_t)rows * (uint64_t)here;
    info->shape[0] = here / each;
}

uint64_t mnem__transformer_gather_bytes(const mnem__transformer_map *map) {
    const mnem_transformer *t = &map->shape;
    int64_t widest = t->experts > 0 ? (int64_t)t->route.used * t->embd : t->embd;
    for (int32_t i = 0; i < map->body_count; i++) {
        mnem_tensor_info info;
        mnem__transformer_matrix(map, i, &info);
        widest = mnem__max_i64(widest, info.shape[info.dims - 1]);
    }
    return (uint64_t)widest * sizeof(float);
}
