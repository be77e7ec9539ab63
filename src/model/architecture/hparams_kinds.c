/* hparams_kinds.c: keys of transformers whose layers with a window have other heads than those
 * without, whose feed-forwards have two widths, whose last layers share keys and values, or that
 * have embeddings of layers (Gemma 4). Files say numbers by layer as lists; what lists can say
 * beyond that is refused. */
#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

enum { WIDTH_MAX = 1 << 22, HEAD_DIM_MAX = 4096 };

/* A list of numbers by layer, which may go on behind the trunk. */
static bool is_list(mnem__key_reader *r, const mnem_transformer *t, const char *name,
                    mnem_value *value) {
    return mnem__key_find(r, name, value) && value->type == MNEM_VALUE_ARRAY &&
           value->element <= MNEM_VALUE_I32 && mnem__hparams_is_by_layer(r, t, value->count);
}

static mnem_status wrong(const mnem__key_reader *r, int32_t layer, int64_t is,
                         const char *expected) {
    return mnem__fail(MNEM_UNSUPPORTED, "%s: key %s: the number for layer %d is %lld, expected %s",
                      r->model->path, r->key, layer, (long long)is, expected);
}

mnem_status mnem__hparams_kv_heads(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!is_list(r, t, MNEM__KEY_KV_HEADS, &value))
        return mnem__take_int(r, MNEM__KEY_KV_HEADS, 1, t->heads, t->heads, &t->kv_heads);
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&value, (uint64_t)layer);
        if (n < 1 || n > t->heads || t->heads % n)
            return wrong(r, layer, n, "a divisor of the number of heads");
    }
    t->kv_heads = (int32_t)mnem_value_i64(&value, 0);
    return MNEM_OK;
}

/* One number for layers with a window, and one for the others. */
static mnem_status take_kv_heads(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    int32_t heads[2] = {0, 0};
    if (!is_list(r, t, MNEM__KEY_KV_HEADS, &value)) return MNEM_OK;
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int32_t n = (int32_t)mnem_value_i64(&value, (uint64_t)layer);
        int32_t *of = &heads[mnem__layer_has_window(t, layer)];
        if (*of && *of != n)
            return wrong(r, layer, n, "that of other layers of its kind (with a window, without)");
        *of = n;
    }
    t->kv_heads = heads[0] ? heads[0] : heads[1];
    if (heads[1] != t->kv_heads) t->window_kv_heads = heads[1];
    return MNEM_OK;
}

static mnem_status take_head_dims(mnem__key_reader *r, mnem_transformer *t) {
    int32_t key = 0, value = 0, dims = 0;
    MNEM__TRY(mnem__take_int(r, "attention.key_length_swa", 2, HEAD_DIM_MAX, t->head_dim, &key));
    MNEM__TRY(mnem__take_int(r, "attention.value_length_swa", 2, HEAD_DIM_MAX, key, &value));
    if (key % 2 != 0 || value != key || (int64_t)t->heads * key > WIDTH_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, expected %d, the length of keys, an even number",
                          r->model->path, r->key, value, key);
    MNEM__TRY(mnem__take_int(r, "rope.dimension_count_swa", 2, key,
                             t->rope.dims < key ? t->rope.dims : key, &dims));
    if (dims % 2 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected an even number",
                          r->model->path, r->key, dims);
    if (key != t->head_dim) t->window_head_dim = key;
    if (dims != t->rope.dims) t->window_rope_dims = dims;
    return MNEM_OK;
}

/* mnem__hparams_ff has read the first of a list. */
static mnem_status take_ff(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!is_list(r, t, MNEM__KEY_FF, &value)) return MNEM_OK;
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&value, (uint64_t)layer);
        if (n == t->ff) continue;
        if (n < 1 || n > WIDTH_MAX || (t->ff_wide && n != t->ff_wide))
            return wrong(r, layer, n, "at most two widths, of 1 to 4194304");
        t->ff_wide = (int32_t)n;
        mnem__layer_schedule_add(&t->wide, layer);
    }
    return MNEM_OK;
}

/* Each kind of layer among them needs one before them. */
static mnem_status take_shared(mnem__key_reader *r, mnem_transformer *t) {
    MNEM__TRY(
        mnem__take_int(r, "attention.shared_kv_layers", 0, t->layers - 1, 0, &t->kv_shared_layers));
    for (int32_t layer = t->layers - t->kv_shared_layers; layer < t->layers; layer++) {
        const bool window = mnem__layer_has_window(t, layer);
        if (mnem__layer_has_window(t, mnem__layer_keys(t, layer)) != window)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: key %s: is %d, but no layer before has keys for layer %d",
                              r->model->path, r->key, t->kv_shared_layers, layer);
    }
    return MNEM_OK;
}

mnem_status mnem__hparams_kinds(mnem__key_reader *r, mnem_transformer *t) {
    MNEM__TRY(take_kv_heads(r, t));
    if (t->window > 0) MNEM__TRY(take_head_dims(r, t));
    MNEM__TRY(take_ff(r, t));
    MNEM__TRY(take_shared(r, t));
    return mnem__take_int(r, "embedding_length_per_layer_input", 0, WIDTH_MAX / t->layers, 0,
                          &t->layer_embd);
}
