/* hf_views.c: see hf_views.h.
 *
 *     whole           rows as they are, or each head's turned
 *     half            every other row of a source that holds two tensors' rows in turns
 *     of each expert  the same of matrices that are stored columns first
 *     of each head    the first or the last rows: what keys, and what values, are made with */
#include "model/import/hf_views.h"

#include <math.h>
#include <stdio.h>

mnem_status mnem__hf_refuse(const mnem__folder *f, const mnem__st_tensor *t, mnem_status status,
                            const char *text) {
    char name[96];
    return mnem__fail(status, "%s: tensor %s: %s", f->st.part[t->part].path,
                      mnem__gguf_printable(t->name, strlen(t->name), name, sizeof name), text);
}

enum { SERIES = 3 }; /* matrices, which one row makes one of */

typedef struct maker {
    mnem__folder *folder;
    const mnem__hf_config *c;
    const mnem__st_tensor *t;
    mnem__hf_made *made;
} maker;

static mnem_status bad(const maker *m, const char *text) {
    return mnem__hf_refuse(m->folder, m->t, MNEM_BAD_FILE, text);
}

/* ---- whole ---- */

static mnem_status turn(const maker *m, bool keys) {
    const int64_t heads = mnem__hf_heads(m->c, keys), rows = m->t->shape[0];
    if (!heads || rows % heads != 0 || rows / heads % 2 != 0)
        return bad(m, "the number of rows must be a multiple of twice the number of heads in "
                      "config.json; download the folder again");
    m->made->view.halves = rows / heads;
    return MNEM_OK;
}

static mnem_status transpose(const maker *m) {
    const mnem__st_tensor *t = m->t;
    if (t->dims > 2)
        return bad(m, "the tensor must be a matrix or a vector; download the folder again");
    if (t->dims < 2) return MNEM_OK;
    m->made->shape[0] = m->made->view.across = t->shape[1];
    m->made->shape[1] = t->shape[0];
    m->made->view.down = 1;
    return MNEM_OK;
}

/* A bias of the same name stays. */
static mnem_status squeeze(const maker *m) {
    if (m->t->dims == 1) return MNEM_OK;
    if (m->t->dims != 3 || m->t->shape[1] != 1)
        return bad(m, "the shape must be [rows, 1, columns]; download the folder again");
    m->made->dims = 2;
    m->made->shape[1] = m->t->shape[2];
    return MNEM_OK;
}

/* As files of llama.cpp have them. */
static mnem_status stand_alone(const maker *m) {
    const int64_t *s = m->t->shape, length = s[m->t->dims - 1];
    if (m->t->dims < 2 || m->t->dims > 3 || (m->t->dims == 3 && s[1] != 1))
        return bad(m, "the shape must be [rows, 1, columns] or [rows, columns]");
    m->made->dims = 4;
    m->made->shape[1] = s[0];
    m->made->shape[0] = m->made->shape[2] = 1;
    m->made->shape[3] = length;
    return MNEM_OK;
}

/* ---- halves, experts ---- */

/* [experts, 2 n]: number 2 i + odd of each. */
static mnem_status halve(const maker *m, int odd) {
    if (m->t->dims != 2 || m->t->shape[1] % 2)
        return bad(m, "the shape must be [experts, 2 * n]; download the folder again");
    m->made->view.stride = m->t->shape[1];
    m->made->view.each = m->made->shape[1] = m->t->shape[1] / 2;
    m->made->view.skip = odd;
    m->made->view.down = 2;
    return MNEM_OK;
}

/* [experts, columns, rows]: of the rows all (down 1), or every other one. */
static mnem_status transpose_each(const maker *m, int64_t down, int odd) {
    const int64_t *s = m->t->shape;
    if (m->t->dims != 3)
        return bad(m, "the shape must be [experts, columns, rows]; download the folder again");
    if (s[2] % down) return bad(m, "the last dimension must be even; download the folder again");
    m->made->shape[1] = s[2] / down;
    m->made->shape[2] = s[1];
    m->made->view.stride = s[1] * s[2];
    m->made->view.each = s[1] * s[2] / down;
    m->made->view.skip = odd;
    m->made->view.down = down;
    m->made->view.across = s[2];
    return MNEM_OK;
}

/* Of [rows, columns], or of each expert, the rows of one part of two, or of all (parts 1). Experts
 * may be stored columns first, as those of published files: the embedding's width tells. */
static mnem_status take_part(const maker *m, int64_t parts, int64_t part) {
    const int64_t *s = m->t->shape, dims = m->t->dims;
    const bool experts = dims == 3;
    int64_t embd;
    MNEM__TRY(mnem__hf_size(m->c, "hidden_size", 1 << 20, &embd));
    const int64_t rows = experts ? s[1] : s[0], columns = experts ? s[2] : s[1];
    const bool turned = experts && (parts == 2 ? columns != embd : rows != embd);
    const int64_t all = turned ? columns : rows, width = turned ? rows : columns;
    if (dims < 2 || dims > 3 || all % parts || (parts == 2 ? width : all) != embd)
        return bad(m, "the tensor must be a matrix (or one for each expert), and one dimension "
                      "must equal hidden_size in config.json; download the folder again");
    m->made->shape[experts] = all / parts;
    m->made->shape[experts + 1] = width;
    m->made->view.stride = all * width;
    m->made->view.each = all / parts * width;
    m->made->view.skip = part * (all / parts) * (turned ? 1 : width);
    m->made->view.down = turned;
    m->made->view.across = turned ? all : 0;
    return MNEM_OK;
}

static bool find_source(const maker *m, const char *name, uint32_t *index) {
    for (uint32_t i = 0; i < m->folder->st.tensors; i++) {
        if (strcmp(m->folder->st.tensor[i].name, name) != 0) continue;
        *index = i;
        return true;
    }
    return false;
}

/* "name.0.weight", and behind it 1 and 2. */
static mnem_status take_series(const maker *m, uint32_t *source) {
    char name[MNEM__GGUF_NAME_MAX + 1];
    const mnem__st_tensor *first = m->t;
    snprintf(name, sizeof name, "%s", first->name);
    char *number = strstr(name, ".0.");
    for (int i = 1; i < SERIES; i++) {
        if (number) number[1] = (char)('0' + i);
        const bool found = number && find_source(m, name, &source[i]);
        const mnem__st_tensor *t = found ? &m->folder->st.tensor[source[i]] : NULL;
        if (!t || first->dims != 2 || t->dims != 2 || t->type != first->type ||
            t->shape[0] != first->shape[0] || t->shape[1] != first->shape[1])
            return bad(m, "the tensors 1 and 2 beside this one (0) must have its shape and dtype; "
                          "download the folder again");
    }
    m->made->dims = 3;
    m->made->shape[2] = first->shape[1];
    m->made->shape[1] = first->shape[0];
    m->made->shape[0] = m->made->view.sources = SERIES;
    m->made->view.each = first->shape[0] * first->shape[1];
    return MNEM_OK;
}

static mnem_status pad_rows(const maker *m, int64_t rows) {
    const int64_t *s = m->t->shape;
    if (m->t->dims != 2) return bad(m, "the tensor must be a matrix; download the folder again");
    if (s[0] >= rows) return MNEM_OK;
    m->made->view.there = s[0] * s[1];
    m->made->shape[0] = rows;
    return MNEM_OK;
}

/* The scales stand beside the codes, under a name that says so. */
static mnem_status find_scales(const maker *m, uint32_t *index) {
    char name[MNEM__GGUF_NAME_MAX + 8];
    const int64_t *s = m->t->shape;
    snprintf(name, sizeof name, "%s", m->t->name);
    char *end = strstr(name, "_blocks");
    if (end) strcpy(end, "_scales");
    if (end && find_source(m, name, index)) {
        const mnem__st_tensor *t = &m->folder->st.tensor[*index];
        return strcmp(t->dtype, "U8") == 0 && t->dims == 3 && t->shape[0] == s[0] &&
                       t->shape[1] == s[1] && t->shape[2] == s[2]
                   ? MNEM_OK
                   : bad(m, "the tensor of scales (_scales in place of _blocks) must have the "
                            "dtype U8 and the shape of this tensor without the last dimension; "
                            "download the folder again");
    }
    return bad(m, "the tensor of scales (the same name with _scales in place of _blocks) is "
                  "missing; download the folder again");
}

/* Codes [experts, rows, blocks, 16]. */
static mnem_status take_blocks(const maker *m, uint32_t *scales, int64_t down, int odd) {
    const int64_t *s = m->t->shape;
    mnem__hf_made *made = m->made;
    if (strcmp(m->t->dtype, "U8") != 0 || m->t->dims != 4 || s[3] != 16 || s[1] % down ||
        s[2] > INT32_MAX)
        return bad(m, "the dtype must be U8, and the shape [experts, rows, blocks, 16]; download "
                      "the folder again");
    MNEM__TRY(find_scales(m, scales));
    made->type = made->view.stored = MNEM_TYPE_MXFP4;
    made->dims = 3;
    made->shape[1] = s[1] / down;
    made->shape[2] = s[2] * 32;
    made->view.sources = 2;
    made->view.each = s[2];
    made->view.down = down;
    made->view.skip = odd;
    made->view.mxfp4 = true;
    return MNEM_OK;
}

/* ---- heads ---- */

/* [heads (keys + values), latent]: of each head the rows for keys, transposed, or for values. */
static mnem_status take_head_part(const maker *m, bool keys) {
    const int64_t heads = mnem__hf_heads(m->c, false), *s = m->t->shape;
    int64_t nope, value;
    mnem__hf_made *made = m->made;
    MNEM__TRY(mnem__hf_size(m->c, "qk_nope_head_dim", 65536, &nope));
    MNEM__TRY(mnem__hf_size(m->c, "v_head_dim", 65536, &value));
    if (m->t->dims != 2 || s[0] != heads * (nope + value))
        return bad(m, "the number of rows must be num_attention_heads * (qk_nope_head_dim + "
                      "v_head_dim) of config.json; download the folder again");
    made->dims = 3;
    made->shape[0] = heads;
    made->shape[1] = keys ? s[1] : value;
    made->shape[2] = keys ? nope : s[1];
    made->view.stride = (nope + value) * s[1];
    made->view.each = made->shape[1] * made->shape[2];
    made->view.skip = keys ? 0 : nope * s[1];
    made->view.down = keys;
    made->view.across = keys ? s[1] : 0;
    return MNEM_OK;
}

/* [heads + 2 kv_heads, of so many rows each]: those of queries, keys or values. */
static mnem_status take_qkv(const maker *m, int part) {
    const int64_t heads = mnem__hf_heads(m->c, false), kv_heads = mnem__hf_heads(m->c, true);
    const int64_t all = heads + 2 * kv_heads, rows = m->t->shape[0];
    const int64_t columns = m->t->dims == 2 ? m->t->shape[1] : 1;
    if (m->t->dims > 2 || !heads || !kv_heads || rows % all || rows / all % 2)
        return bad(m, "the number of rows must be a multiple of 2 * (num_attention_heads + 2 * "
                      "num_key_value_heads) of config.json; download the folder again");
    const int64_t dim = rows / all, first = part == 0 ? 0 : heads + (part - 1) * kv_heads;
    m->made->shape[0] = (part == 0 ? heads : kv_heads) * dim;
    m->made->view.each = m->made->shape[0] * columns;
    m->made->view.stride = rows * columns;
    m->made->view.skip = first * dim * columns;
    if (part < 2) m->made->view.halves = dim;
    return MNEM_OK;
}

/* ---- scans ---- */

/* [n] as [n, 1]. */
static mnem_status stand(const maker *m) {
    if (m->t->dims != 1) return bad(m, "the tensor must be a vector; download the folder again");
    m->made->dims = 2;
    m->made->shape[1] = 1;
    return MNEM_OK;
}

static mnem_status take_decays(const maker *m) {
    m->made->view.decays = true;
    return m->t->dims == 1 ? stand(m) : MNEM_OK;
}

/* Value heads of a delta net: from row `first` on, or of columns. */
static mnem_status tile(const maker *m, bool behind_keys, bool columns) {
    int64_t groups, heads, key, first = 0;
    MNEM__TRY(mnem__hf_size(m->c, "linear_num_key_heads", 65536, &groups));
    MNEM__TRY(mnem__hf_size(m->c, "linear_num_value_heads", 65536, &heads));
    MNEM__TRY(mnem__hf_size(m->c, "linear_key_head_dim", 65536, &key));
    if (behind_keys) first = 2 * groups * key;
    const int64_t all = m->made->shape[columns] - first;
    if (heads % groups || all <= 0 || all % heads || (columns && m->made->dims < 2))
        return bad(m, "the number of rows or columns must be a multiple of linear_num_value_heads "
                      "in config.json; download the folder again");
    m->made->view.tile.first = first;
    m->made->view.tile.groups = groups;
    m->made->view.tile.each = heads / groups;
    m->made->view.tile.size = all / heads;
    m->made->view.tile.columns = columns;
    return MNEM_OK;
}

static mnem_status tile_decays(const maker *m) {
    m->made->view.decays = true;
    return tile(m, false, false);
}

static mnem_status tile_behind_keys(const maker *m) {
    if (m->t->dims == 3) MNEM__TRY(squeeze(m));
    return tile(m, true, false);
}

/* Rows of each group: queries, keys, values, gates, the last two of as many value heads as there
 * are for one of keys. */
static mnem_status take_group_part(const maker *m, bool gates) {
    int64_t groups, heads, key, value;
    const int64_t *s = m->t->shape;
    MNEM__TRY(mnem__hf_size(m->c, "linear_num_key_heads", 65536, &groups));
    MNEM__TRY(mnem__hf_size(m->c, "linear_num_value_heads", 65536, &heads));
    MNEM__TRY(mnem__hf_size(m->c, "linear_key_head_dim", 65536, &key));
    MNEM__TRY(mnem__hf_size(m->c, "linear_value_head_dim", 65536, &value));
    const int64_t values = heads / groups * value, rows = 2 * (key + values);
    if (m->t->dims != 2 || heads % groups || s[0] != groups * rows)
        return bad(m, "the shape does not fit linear_num_key_heads, linear_num_value_heads and the "
                      "linear_..._head_dim of config.json; download the folder again");
    m->made->shape[0] = groups * (gates ? values : rows - values);
    if (gates) {
        m->made->view.each = values * s[1];
        m->made->view.stride = rows * s[1];
        m->made->view.skip = (rows - values) * s[1];
        return MNEM_OK;
    }
    m->made->view.part.groups = groups;
    m->made->view.part.rows = rows;
    m->made->view.part.size[0] = m->made->view.part.size[1] = key;
    m->made->view.part.size[2] = values;
    return MNEM_OK;
}

static mnem_status take_groups(const maker *m) {
    int64_t groups;
    MNEM__TRY(mnem__hf_size(m->c, "n_groups mamba_n_groups", 65536, &groups));
    if (m->t->dims != 1 || m->t->shape[0] % groups)
        return bad(m, "the tensor must be a vector, with a multiple of n_groups (in config.json) "
                      "numbers; download the folder again");
    m->made->dims = 2;
    m->made->shape[0] = groups;
    m->made->shape[1] = m->t->shape[0] / groups;
    return MNEM_OK;
}

/* ---- one ---- */

mnem_status mnem__hf_check_type(const mnem__folder *f, const mnem__st_tensor *t) {
    if (t->type != (mnem_type)MNEM__ST_OTHER) return MNEM_OK;
    char text[160];
    snprintf(text, sizeof text,
             "its data type %s is not supported; weights must be F32, F16 or BF16: get the "
             "original model, or save it with transformers as one of these",
             t->dtype);
    return mnem__hf_refuse(f, t, MNEM_UNSUPPORTED, text);
}

static mnem_status apply(const maker *m, mnem__hf_how how, int64_t vocabulary, uint32_t *source) {
    uint32_t *scales = &source[1];
    switch (how) {
    case MNEM__HF_TURN_Q: return turn(m, false);
    case MNEM__HF_TURN_K: return turn(m, true);
    case MNEM__HF_TRANSPOSE: return transpose(m);
    case MNEM__HF_CUT_VOCAB:
        if (m->made->shape[0] > vocabulary && vocabulary > 0) m->made->shape[0] = vocabulary;
        return MNEM_OK;
    case MNEM__HF_SQUEEZE: return squeeze(m);
    case MNEM__HF_KDA_CONV: return stand_alone(m);
    case MNEM__HF_EVEN: return halve(m, 0);
    case MNEM__HF_ODD: return halve(m, 1);
    case MNEM__HF_EACH_TRANSPOSED: return transpose_each(m, 1, 0);
    case MNEM__HF_EVEN_TRANSPOSED: return transpose_each(m, 2, 0);
    case MNEM__HF_ODD_TRANSPOSED: return transpose_each(m, 2, 1);
    case MNEM__HF_BLOCKS_ALL: return take_blocks(m, scales, 1, 0);
    case MNEM__HF_BLOCKS_EVEN: return take_blocks(m, scales, 2, 0);
    case MNEM__HF_BLOCKS_ODD: return take_blocks(m, scales, 2, 1);
    case MNEM__HF_HALF_1: return take_part(m, 2, 0);
    case MNEM__HF_HALF_2: return take_part(m, 2, 1);
    case MNEM__HF_HALVES: return take_part(m, 1, 0);
    case MNEM__HF_HEAD_KEYS: return take_head_part(m, true);
    case MNEM__HF_HEAD_VALUES: return take_head_part(m, false);
    case MNEM__HF_DECAY: return take_decays(m);
    case MNEM__HF_COLUMN: return stand(m);
    case MNEM__HF_GROUPS: return take_groups(m);
    case MNEM__HF_TILE: return tile(m, false, false);
    case MNEM__HF_TILE_BEHIND_KEYS: return tile_behind_keys(m);
    case MNEM__HF_TILE_COLUMNS: return tile(m, false, true);
    case MNEM__HF_TILE_DECAY: return tile_decays(m);
    case MNEM__HF_GROUP_QKV: return take_group_part(m, false);
    case MNEM__HF_GROUP_GATES: return take_group_part(m, true);
    case MNEM__HF_GROUP_DECAY: m->made->view.decays = true; return MNEM_OK;
    case MNEM__HF_QKV_Q: return take_qkv(m, 0);
    case MNEM__HF_QKV_K: return take_qkv(m, 1);
    case MNEM__HF_QKV_V: return take_qkv(m, 2);
    case MNEM__HF_SERIES: return take_series(m, source);
    case MNEM__HF_PAD_VOCAB: return pad_rows(m, vocabulary);
    case MNEM__HF_AS_IS:
    case MNEM__HF_STACK:
    case MNEM__HF_BARE:
    case MNEM__HF_TIED_OUTPUT:
    case MNEM__HF_DROP: break;
    }
    return MNEM_OK;
}

mnem_status mnem__hf_view_make(mnem__folder *folder, const mnem__hf_config *c, uint32_t index,
                               mnem__hf_how how, int64_t vocabulary, mnem__hf_made *made) {
    const mnem__st_tensor *t = &folder->st.tensor[index];
    const maker m = {folder, c, t, made};
    uint32_t *source = mnem__folder_alloc(folder, SERIES * sizeof *source);
    if (!source) return folder->status;
    if (t->dims > 4)
        return mnem__hf_refuse(folder, t, MNEM_UNSUPPORTED,
                               "the shape has more than 4 dimensions, the most that this version "
                               "supports");
    *source = index;
    *made =
        (mnem__hf_made){.type = t->type,
                        .dims = t->dims ? t->dims : 1,
                        .shape = {t->dims ? t->shape[0] : 1, t->shape[1], t->shape[2], t->shape[3]},
                        .view = {.source = source, .sources = 1, .stored = t->type}};
    for (int d = 0; d < t->dims; d++)
        if (t->shape[d] == 0)
            return bad(&m, "the shape has a dimension of 0; download the folder again");
    MNEM__TRY(apply(&m, how, vocabulary, source));
    if (!made->view.mxfp4) MNEM__TRY(mnem__hf_check_type(folder, t));
    if (made->view.each) return MNEM_OK;
    made->view.each = 1;
    for (int d = 0; d < made->dims; d++) made->view.each *= made->shape[d];
    return MNEM_OK;
}

/* ---- factors ----
 *
 * Classes that multiply what goes into a matrix, or comes out of it, by numbers of config.json
 * (Falcon-H1) have those numbers in the weights of files: what a program computes is the same. Each
 * product is rounded to a float, as llama.cpp's converter does it. */

/* 1 where config.json is silent. */
static mnem_status take_factor(const mnem__hf_config *c, const char *name, const mnem__node *node,
                               float *out) {
    const bool silent = !node || node->kind == MNEM__JSON_NULL;
    const double number = silent ? 1 : mnem__node_number(node, NAN);
    if (!(number >= -1e6 && number <= 1e6))
        return mnem__hf_bad_number(c, name, number, "numbers of -1e6 to 1e6");
    *out = (float)number;
    return MNEM_OK;
}

/* A list that the file has is as long as the class's. */
static mnem_status check_list(const mnem__hf_config *c, const char *name, const mnem__node *list,
                              uint32_t count) {
    if (!list) return MNEM_OK;
    return mnem__hf_check_list(c, name, list, count, "numbers");
}

/* Of the rows of gates, x, B, C and steps. */
static mnem_status take_bands(mnem__folder *folder, const mnem__hf_config *c, const char *name,
                              uint32_t index, mnem__factors *f) {
    int64_t inner, state, groups;
    const mnem__st_tensor *t = &folder->st.tensor[index];
    const mnem__node *list = mnem__hf_find(c, name);
    MNEM__TRY(check_list(c, name, list, MNEM__BANDS));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_ssm", 1 << 20, &inner));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_state", 1 << 20, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_groups", 1 << 20, &groups));
    const int64_t rows[MNEM__BANDS] = {inner, inner, groups * state, groups * state, INT32_MAX};
    const int64_t columns = t->dims == 2 ? t->shape[1] : 1;
    int64_t end = 0;
    f->bands = MNEM__BANDS;
    for (uint32_t i = 0; i < MNEM__BANDS; i++) {
        end += rows[i] * columns;
        f->end[i] = end;
        MNEM__TRY(take_factor(c, name, mnem__node_at(list, i), &f->band[i]));
    }
    return MNEM_OK;
}

static mnem_status take_factors(mnem__folder *folder, const mnem__hf_config *c,
                                const mnem__hf_factor *row, uint32_t index, mnem__factors *f) {
    const mnem__node *first = mnem__hf_find(c, row->first);
    if (row->at >= 0) {
        MNEM__TRY(check_list(c, row->first, first, 2));
        first = mnem__node_at(first, (uint32_t)row->at);
    }
    MNEM__TRY(take_factor(c, row->first, first, &f->all));
    if (!row->second) return MNEM_OK;
    if (strcmp(row->second, "ssm_multipliers") == 0)
        return take_bands(folder, c, row->second, index, f);
    f->bands = 1;
    return take_factor(c, row->second, mnem__hf_find(c, row->second), &f->band[0]);
}

static bool is_one(const mnem__factors *f) {
    bool one = f->all == 1;
    for (int32_t i = 0; i < f->bands; i++) one = one && f->band[i] == 1;
    return one;
}

mnem_status mnem__hf_factors_make(mnem__folder *folder, const mnem__hf_config *c, const char *to,
                                  uint32_t index, const mnem__factors **factors) {
    const mnem__hf_factor *row = c->family->factors;
    *factors = NULL;
    while (row && row->to && strcmp(row->to, to) != 0) row++;
    if (!row || !row->to) return MNEM_OK;
    mnem__factors *f = mnem__folder_alloc(folder, sizeof *f);
    if (!f) return folder->status;
    *f = (mnem__factors){0};
    MNEM__TRY(take_factors(folder, c, row, index, f));
    if (!is_one(f)) *factors = f;
    return MNEM_OK;
}
