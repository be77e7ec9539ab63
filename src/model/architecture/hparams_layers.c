/* hparams_layers.c: the keys of what layers have of their own: windows, whether they turn heads,
 * temperatures of scores, the numbers of an activation, other heads and widths. */
#include <math.h>
#include <stdio.h>

#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

static bool is_flags(const mnem_value *value) {
    return value->type == MNEM_VALUE_ARRAY &&
           (mnem__value_is_integer(value->element) || value->element == MNEM_VALUE_BOOL);
}

/* Which layers have a window: a period as a number, the last of which has none (0: all have), or a
 * flag for each layer. */
static mnem_status take_pattern(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!mnem__key_find(r, "attention.sliding_window_pattern", &value)) return MNEM_OK;
    mnem_layer_schedule windowed = {.kind = MNEM_LAYERS_ALL};
    if (value.type != MNEM_VALUE_ARRAY) {
        MNEM__TRY(mnem__take_int(r, "attention.sliding_window_pattern", 0, MNEM_LAYERS_MAX, 0,
                                 &windowed.n));
        if (windowed.n > 0) windowed.kind = MNEM_LAYERS_BUT_EVERY;
        t->windowed = windowed;
        return MNEM_OK;
    }
    if (!is_flags(&value) || !mnem__hparams_is_by_layer(r, t, value.count))
        return mnem__key_by_layer(r, &value, "booleans", t->layers);
    windowed.kind = MNEM_LAYERS_LIST;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(&value, (uint64_t)layer) != 0)
            mnem__layer_schedule_add(&windowed, layer);
    t->windowed = mnem__layer_schedule_simple(&windowed, t->layers);
    return MNEM_OK;
}

/* Which layers turn heads: a flag for each; all do where a file doesn't say. */
static mnem_status take_turns(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!mnem__key_find(r, "attention.rope_pattern", &value)) return MNEM_OK;
    if (!is_flags(&value) || value.count != (uint64_t)t->layers)
        return mnem__key_by_layer(r, &value, "booleans", t->layers);
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(&value, (uint64_t)layer) == 0)
            mnem__layer_schedule_add(&t->unturned, layer);
    return MNEM_OK;
}

/* A window of 0 is none. */
mnem_status mnem__hparams_windows(mnem__key_reader *r, const mnem__architecture *a,
                                  mnem_transformer *t) {
    t->windowed = a->windowed;
    t->window_chunks = a->window_chunks;
    for (int32_t layer = 0; a->windows_behind && layer < t->layers; layer++)
        if (layer % a->windows_behind != 0) mnem__layer_schedule_add(&t->windowed, layer);
    if (t->windowed.kind == MNEM_LAYERS_NONE) t->windowed.kind = MNEM_LAYERS_ALL;
    mnem_status status =
        mnem__take_int(r, "attention.sliding_window", 0, INT32_MAX, a->window, &t->window);
    if (status == MNEM_OK && t->window == 0 && a->window_chunks)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is 0 (every layer attends to the whole text), but only 1 "
                          "or more is supported in this architecture",
                          r->model->path, r->key);
    if (status == MNEM_OK && t->window > 0) status = take_pattern(r, t);
    if (status == MNEM_OK && a->takes & MNEM__TAKES_TURNS) status = take_turns(r, t);
    if (status != MNEM_OK) return status;
    if (mnem_layers_count(&t->windowed, t->layers) == 0) t->window = 0;
    if (t->window == 0) return MNEM_OK;
    const float base = a->window_rope_plain ? t->rope.base : a->window_rope_base;
    if (base == 0 && !mnem__key_find(r, "rope.freq_base_swa", &(mnem_value){0})) return MNEM_OK;
    return mnem__take_float(r, "rope.freq_base_swa", 1e-3, 1e30, (double)base,
                            &t->window_rope_base);
}

/* It grows by each original context, which only YaRN has, or by a length of its own. */
mnem_status mnem__hparams_temperature(mnem__key_reader *r, const mnem__architecture *a,
                                      mnem_transformer *t) {
    MNEM__TRY(mnem__take_float(r, "attention.temperature_scale", 0, 1e6, (double)a->temperature,
                               &t->attention_temperature));
    if (t->attention_temperature == 0) return MNEM_OK;
    t->temperature_unturned = a->temperature_every > 0;
    if (t->temperature_unturned)
        return mnem__take_int(r, "attention.temperature_length", 1, INT32_MAX, a->temperature_every,
                              &t->temperature_every);
    t->temperature_every = t->rope.original_context;
    if (t->rope.original_context == 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %g, which is supported only with RoPE scaling yarn",
                          r->model->path, r->key, (double)t->attention_temperature);
    return MNEM_OK;
}

/* ---- xIELU ---- */

/* Files have what was trained (Huang and Schlag 2025): a is softplus(alpha_p), b is beta +
 * softplus(alpha_n). Their keys stand without an architecture's name, and are a number for each
 * layer, or one for all. */
enum { NUMBERS = 4 };
static const char *const keys[NUMBERS] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta",
                                          "xielu.eps"};

static bool is_float(mnem_value_type type) {
    return type == MNEM_VALUE_F32 || type == MNEM_VALUE_F64;
}

static double number_of(const mnem_value *value, int32_t layer) {
    return value->type == MNEM_VALUE_ARRAY ? mnem_value_f64(value, (uint64_t)layer) : value->f;
}

static mnem_status check_key(const mnem_model *model, const char *key, int32_t layers) {
    mnem__key_reader r = {.model = model};
    mnem_value value;
    snprintf(r.key, sizeof r.key, "%s", key);
    if (!mnem_model_key_find(model, key, &value))
        return mnem__key_by_layer(&r, NULL, "f32", layers);
    const bool is_list = value.type == MNEM_VALUE_ARRAY;
    if (!is_float(is_list ? value.element : value.type) ||
        (is_list && value.count != (uint64_t)layers))
        return mnem__key_by_layer(&r, &value, "f32", layers);
    for (int32_t layer = 0; layer < layers; layer++) {
        const double number = number_of(&value, layer);
        if (!(fabs(number) <= 1e6))
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g in layer %d, expected -1e6 to 1e6",
                              model->path, key, number, layer);
    }
    return MNEM_OK;
}

mnem_status mnem__hparams_check_xielu(const mnem_model *model, const mnem_transformer *t) {
    for (int i = 0; i < NUMBERS; i++) MNEM__TRY(check_key(model, keys[i], t->layers));
    return MNEM_OK;
}

static double softplus(double x) {
    return x > 30 ? x : log1p(exp(x));
}

mnem_xielu mnem__hparams_xielu(const mnem_model *model, int32_t layer) {
    double numbers[NUMBERS] = {0};
    for (int i = 0; i < NUMBERS; i++) {
        mnem_value value;
        if (mnem_model_key_find(model, keys[i], &value)) numbers[i] = number_of(&value, layer);
    }
    return (mnem_xielu){.a = (float)softplus(numbers[0]),
                        .b = (float)(numbers[2] + softplus(numbers[1])),
                        .c = (float)numbers[2],
                        .e = (float)numbers[3]};
}

/* ---- limits of activations ---- */

static const char limits_of_experts[] = "swiglu_clamp_exp",
                  limits_of_others[] = "swiglu_clamp_shexp";

/* A number for each layer, which may go on behind the trunk, or one for all. */
mnem_status mnem__hparams_check_limits(mnem__key_reader *r, const mnem_transformer *t) {
    for (int i = 0; i < 2; i++) {
        mnem_value value;
        if (!mnem__key_find(r, i ? limits_of_others : limits_of_experts, &value)) continue;
        const bool list = value.type == MNEM_VALUE_ARRAY;
        if (!is_float(list ? value.element : value.type) ||
            (list && !mnem__hparams_is_by_layer(r, t, value.count)))
            return mnem__key_by_layer(r, &value, "f32", t->layers);
        for (int32_t layer = 0; layer < t->layers; layer++) {
            const double limit = number_of(&value, layer);
            if (!(limit >= 0 && limit <= 1e6))
                return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g in layer %d, expected 0 to 1e6",
                                  r->model->path, r->key, limit, layer);
        }
    }
    return MNEM_OK;
}

/* Up to 1e-6 it is none. */
float mnem__hparams_limit(const mnem_model *model, const mnem__architecture *a, int32_t layer,
                          bool experts) {
    mnem__key_reader r = {.model = model, .prefix = a->names[0]};
    mnem_value value;
    if (!mnem__key_find(&r, experts ? limits_of_experts : limits_of_others, &value)) return 0;
    const double limit = number_of(&value, layer);
    return limit > 1e-6 ? (float)limit : 0;
}

/* ---- layers of two kinds ---- */

/* Layers with a window have other heads than those without, feed-forwards have two widths, the last
 * layers share keys and values, or layers have embeddings of their own (Gemma 4). Files say numbers
 * by layer as lists; what lists can say beyond that is refused. */
enum { WIDTH_MAX = 1 << 22, HEAD_DIM_MAX = 4096 };

/* A list of numbers by layer, which may go on behind the trunk. */
static bool is_list(mnem__key_reader *r, const mnem_transformer *t, const char *name,
                    mnem_value *value) {
    return mnem__key_find(r, name, value) && value->type == MNEM_VALUE_ARRAY &&
           value->element <= MNEM_VALUE_I32 && mnem__hparams_is_by_layer(r, t, value->count);
}

static mnem_status wrong(const mnem__key_reader *r, mnem_status status, int32_t layer, int64_t is,
                         const char *expected) {
    return mnem__fail(status, "%s: key %s: the number for layer %d is %lld, expected %s",
                      r->model->path, r->key, layer, (long long)is, expected);
}

static mnem_status wrong_divisor(const mnem__key_reader *r, int32_t layer, int64_t is,
                                 int64_t heads) {
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: key %s: the number for layer %d is %lld, expected a divisor of %lld, its "
        "number of query heads",
        r->model->path, r->key, layer, (long long)is, (long long)heads);
}

mnem_status mnem__hparams_heads(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!is_list(r, t, MNEM__KEY_HEADS, &value))
        return mnem__take_size(r, MNEM__KEY_HEADS, 1, MNEM__HEADS_MAX, MNEM__KEY_REQUIRED,
                               &t->heads);
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&value, (uint64_t)layer);
        if (n < 1 || n > MNEM__HEADS_MAX)
            return wrong(r, n < 1 ? MNEM_BAD_FILE : MNEM_UNSUPPORTED, layer, n,
                         "1 to 4096 query heads");
    }
    t->heads = (int32_t)mnem_value_i64(&value, 0);
    return MNEM_OK;
}

mnem_status mnem__hparams_kv_heads(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value, all;
    const bool listed = is_list(r, t, MNEM__KEY_HEADS, &all);
    if (!is_list(r, t, MNEM__KEY_KV_HEADS, &value))
        return mnem__take_int(r, MNEM__KEY_KV_HEADS, 1, t->heads, t->heads, &t->kv_heads);
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&value, (uint64_t)layer);
        const int64_t heads = listed ? mnem_value_i64(&all, (uint64_t)layer) : t->heads;
        if (n < 1 || n > heads || heads % n) return wrong_divisor(r, layer, n, heads);
    }
    t->kv_heads = (int32_t)mnem_value_i64(&value, 0);
    return MNEM_OK;
}

/* One number for layers with a window, and one for the others. */
static mnem_status take_number(mnem__key_reader *r, mnem_transformer *t, const char *name,
                               int32_t *number, int32_t *of_windows) {
    mnem_value value;
    int32_t heads[2] = {0, 0};
    if (!is_list(r, t, name, &value)) return MNEM_OK;
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int32_t n = (int32_t)mnem_value_i64(&value, (uint64_t)layer);
        int32_t *of = &heads[mnem__layer_has_window(t, layer)];
        if (*of && *of != n)
            return wrong(r, MNEM_UNSUPPORTED, layer, n,
                         "the number for earlier layers of its kind (with or without a window)");
        *of = n;
    }
    *number = heads[0] ? heads[0] : heads[1];
    if (heads[1] != *number) *of_windows = heads[1];
    return MNEM_OK;
}

static mnem_status take_heads(mnem__key_reader *r, mnem_transformer *t) {
    MNEM__TRY(take_number(r, t, MNEM__KEY_HEADS, &t->heads, &t->window_heads));
    MNEM__TRY(take_number(r, t, MNEM__KEY_KV_HEADS, &t->kv_heads, &t->window_kv_heads));
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int32_t heads = mnem__layer_heads(t, layer), n = mnem__layer_kv_heads(t, layer);
        if (n > heads || heads % n) return wrong_divisor(r, layer, n, heads);
        if ((int64_t)heads * t->head_dim > WIDTH_MAX)
            return wrong(r, MNEM_UNSUPPORTED, layer, n, "heads of at most 4194304 numbers in all");
    }
    return MNEM_OK;
}

static mnem_status take_head_dims(mnem__key_reader *r, mnem_transformer *t) {
    int32_t key = 0, value = 0, dims = 0;
    MNEM__TRY(mnem__take_size(r, "attention.key_length_swa", 2, HEAD_DIM_MAX, t->head_dim, &key));
    if (key % 2 != 0 || (int64_t)t->heads * key > WIDTH_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, expected an even number, and at most %d for all %d "
                          "heads together",
                          r->model->path, r->key, key, WIDTH_MAX, t->heads);
    MNEM__TRY(mnem__take_size(r, "attention.value_length_swa", 2, HEAD_DIM_MAX, key, &value));
    if (value != key)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, but only the head size of attention keys, %d, is "
                          "supported",
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

/* What is turned in layers without a window. */
static mnem_status halve_turned(mnem__key_reader *r, mnem_transformer *t) {
    const int32_t all = t->rope.dims;
    if (all % 4 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s.%s: is %d, expected a multiple of 4",
                          r->model->path, r->prefix, MNEM__KEY_ROPE_DIMS, all);
    t->rope.dims = all / 2;
    if (t->window > 0 && t->window_rope_dims == 0) t->window_rope_dims = all;
    if (t->window_rope_dims == t->rope.dims) t->window_rope_dims = 0;
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
            return wrong(r, n < 1 ? MNEM_BAD_FILE : MNEM_UNSUPPORTED, layer, n,
                         "1 to 4194304, and at most two different numbers in the list");
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
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: key %s: the last %d layers reuse keys and values of earlier layers of their "
                "kind (with or without a window), but there is none for layer %d",
                r->model->path, r->key, t->kv_shared_layers, layer);
    }
    return MNEM_OK;
}

mnem_status mnem__hparams_kinds(mnem__key_reader *r, const mnem__architecture *a,
                                mnem_transformer *t) {
    MNEM__TRY(take_heads(r, t));
    if (t->window > 0) MNEM__TRY(take_head_dims(r, t));
    if (a->half_turned) MNEM__TRY(halve_turned(r, t));
    MNEM__TRY(take_ff(r, t));
    MNEM__TRY(take_shared(r, t));
    return mnem__take_size(r, "embedding_length_per_layer_input", 0, WIDTH_MAX / t->layers, 0,
                           &t->layer_embd);
}

/* ---- streams ---- */

static const char cut_key[] = "activation_sparsity_scale";

static bool find_cuts(const mnem_model *model, const mnem_transformer *t, mnem_value *value) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", t->architecture, cut_key);
    return mnem_model_key_find(model, key, value);
}

float mnem__hparams_cut(const mnem_model *model, const mnem_transformer *t, int32_t layer) {
    mnem_value value;
    if (!find_cuts(model, t, &value)) return -INFINITY;
    return (float)mnem_value_f64(&value, (uint64_t)layer);
}

static mnem_status check_cuts(mnem__key_reader *r, const mnem_transformer *t) {
    mnem_value value;
    snprintf(r->key, sizeof r->key, "%s.%s", t->architecture, cut_key);
    if (!find_cuts(r->model, t, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_ARRAY || !is_float(value.element) ||
        value.count != (uint64_t)t->layers)
        return mnem__key_by_layer(r, &value, "f32", t->layers);
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const double cut = mnem_value_f64(&value, (uint64_t)layer);
        if (!(cut <= 1e6) || (isfinite(cut) && cut < -1e6))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: key %s: is %g in layer %d, expected -1e6 to 1e6, or -inf",
                              r->model->path, r->key, cut, layer);
    }
    return MNEM_OK;
}

/* Files don't say the rank of LAuReL: its matrix does. */
mnem_status mnem__hparams_streams(mnem__key_reader *r, mnem_transformer *t) {
    int32_t active = 0;
    mnem_tensor_info info;
    MNEM__TRY(mnem__take_size(r, "altup.num_inputs", 2, 16, 4, &t->streams));
    MNEM__TRY(mnem__take_int(r, "altup.active_idx", 0, t->streams - 1, 0, &active));
    if (active != 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, but only 0 (the first stream) is supported",
                          r->model->path, r->key, active);
    if (t->layer_embd == 0)
        MNEM__TRY(mnem__take_size(r, "embedding_length_per_layer_input", 1, WIDTH_MAX / t->layers,
                                  256, &t->layer_embd));
    const int32_t tensor = mnem__role_tensor(r->model, MNEM__ROLE_LAUREL_IN, 0);
    if (tensor >= 0 && mnem_model_tensor_get(r->model, (uint32_t)tensor, &info) &&
        info.shape[0] >= 1 && info.shape[0] <= WIDTH_MAX)
        t->laurel = (int32_t)info.shape[0];
    else
        t->laurel = 64;
    return check_cuts(r, t);
}
