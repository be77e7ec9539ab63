/* hparams.c: the keys that describe a transformer, each checked by name and range.
 *
 * What would change the answer and isn't done here is refused by its name. A sliding window smaller
 * than the context is handled by a smaller context: inside one window the answer is the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/architecture/hparams.h"

enum {
    LAYERS_MAX = 1024,
    WIDTH_MAX = 1 << 20, /* embd, heads * head_dim */
    FF_MAX = 1 << 22,
    HEADS_MAX = 4096,
    HEAD_DIM_MAX = 1024,
    CONTEXT_MAX = 1 << 26,
    REQUIRED = -1 /* as the default of an integer */
};

typedef struct reader {
    const mnem_model *model;
    const char *prefix;
    char key[128]; /* the last one looked for */
} reader;

/* The value of PREFIX.NAME. */
static bool find(reader *r, const char *name, mnem_value *value) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, name);
    return mnem_model_key_find(r->model, r->key, value);
}

static mnem_status missing(const reader *r) {
    return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is missing", r->model->path, r->key);
}

static bool is_integer(mnem_value_type type) {
    return type <= MNEM_VALUE_I32 || type == MNEM_VALUE_U64 || type == MNEM_VALUE_I64;
}

static bool is_float(mnem_value_type type) {
    return type == MNEM_VALUE_F32 || type == MNEM_VALUE_F64;
}

/* One integer; an array of them (one a layer) counts when all are equal. */
static mnem_status one_integer(const reader *r, const mnem_value *value, int64_t *number) {
    if (value->type != MNEM_VALUE_ARRAY || value->count == 0 || !is_integer(value->element)) {
        if (!is_integer(value->type))
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected an integer",
                              r->model->path, r->key, mnem__gguf_value_name(value->type));
        *number = value->i;
        return MNEM_OK;
    }
    *number = mnem_value_i64(value, 0);
    for (uint64_t i = 1; i < value->count; i++)
        if (mnem_value_i64(value, i) != *number)
            return mnem__fail(
                MNEM_UNSUPPORTED, "%s: key %s: layers that differ (%lld and %lld) aren't supported",
                r->model->path, r->key, (long long)*number, (long long)mnem_value_i64(value, i));
    return MNEM_OK;
}

static mnem_status take_int(reader *r, const char *name, int64_t min, int64_t max, int64_t standard,
                            int32_t *out) {
    mnem_value value;
    int64_t number = standard;
    if (!find(r, name, &value)) {
        if (standard == REQUIRED) return missing(r);
    } else {
        MNEM__TRY(one_integer(r, &value, &number));
    }
    if (number < min || number > max)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %lld, expected %lld to %lld",
                          r->model->path, r->key, (long long)number, (long long)min,
                          (long long)max);
    *out = (int32_t)number;
    return MNEM_OK;
}

/* standard NAN: required. */
static mnem_status take_float(reader *r, const char *name, double min, double max, double standard,
                              float *out) {
    mnem_value value;
    double number = standard;
    if (find(r, name, &value)) {
        if (!is_float(value.type))
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected f32",
                              r->model->path, r->key, mnem__gguf_value_name(value.type));
        number = value.f;
    } else if (isnan(standard)) {
        return missing(r);
    }
    if (!(number >= min && number <= max))
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g, expected %g to %g", r->model->path,
                          r->key, number, min, max);
    *out = (float)number;
    return MNEM_OK;
}

/* ---- RoPE ---- */

typedef enum scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN } scaling;

/* Without a type, a factor means linear scaling. */
static mnem_status take_scaling(reader *r, scaling *kind) {
    mnem_value value;
    *kind = SCALING_LINEAR;
    if (!find(r, "rope.scaling.type", &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected a text",
                          r->model->path, r->key, mnem__gguf_value_name(value.type));
    const char *names[] = {"none", "linear", "yarn"};
    for (int i = 0; i < 3; i++)
        if (strcmp(value.text.bytes, names[i]) == 0) {
            *kind = (scaling)i;
            return MNEM_OK;
        }
    char text[40];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: key %s: RoPE scaling \"%s\" isn't supported",
                      r->model->path, r->key,
                      mnem__gguf_printable(value.text.bytes, value.text.length, text, sizeof text));
}

/* 1 / factor; 0 and absence mean 1. The older key is scale_linear. */
static mnem_status take_factor(reader *r, mnem_rope *rope) {
    float factor = 0, older = 0;
    mnem_status status = take_float(r, "rope.scale_linear", 0, 1e6, 0, &older);
    if (status == MNEM_OK) status = take_float(r, "rope.scaling.factor", 0, 1e6, older, &factor);
    rope->scale = factor > 0 ? 1 / factor : 1;
    if (status == MNEM_OK && !(rope->scale <= 1e6f))
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g, expected 0 or 1e-6 to 1e6",
                          r->model->path, r->key, (double)factor);
    return status;
}

static mnem_status take_yarn(reader *r, const mnem_transformer *t, mnem_rope *rope) {
    mnem_status status = take_int(r, "rope.scaling.original_context_length", 1, CONTEXT_MAX,
                                  t->context, &rope->original_context);
    if (status == MNEM_OK)
        status = take_float(r, "rope.scaling.yarn_ext_factor", 0, 1, 1, &rope->yarn_ext);
    if (status == MNEM_OK)
        status = take_float(r, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32, &rope->yarn_beta_fast);
    if (status == MNEM_OK)
        status = take_float(r, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &rope->yarn_beta_slow);
    float attn = 1;
    if (status == MNEM_OK)
        status = take_float(r, "rope.scaling.yarn_attn_factor", 1e-6, 1e6, 1, &attn);
    rope->yarn_attn *= attn;
    return status;
}

static mnem_status take_rope(reader *r, mnem_transformer *t) {
    mnem_rope *rope = &t->rope;
    scaling kind;
    mnem_status status = take_int(r, MNEM__KEY_ROPE_DIMS, 2, t->head_dim, t->head_dim, &rope->dims);
    if (status == MNEM_OK && rope->dims % 2 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected an even number",
                          r->model->path, r->key, rope->dims);
    if (status == MNEM_OK)
        status = take_float(r, MNEM__KEY_ROPE_BASE, 1e-3, 1e30, 1e4, &rope->base);
    if (status == MNEM_OK) status = take_scaling(r, &kind);
    if (status == MNEM_OK) status = take_factor(r, rope);
    if (status == MNEM_OK)
        status = take_float(r, "rope.scaling.attn_factor", 1e-6, 1e6, 1, &rope->yarn_attn);
    if (status != MNEM_OK) return status;
    if (kind == SCALING_YARN) return take_yarn(r, t, rope);
    if (kind == SCALING_NONE) rope->scale = 1;
    if (rope->yarn_attn != 1)
        return mnem__fail(MNEM_UNSUPPORTED, "%s: key %s: %g is supported with YaRN only",
                          r->model->path, r->key, (double)rope->yarn_attn);
    return MNEM_OK;
}

/* ---- attention ---- */

static mnem_status take_heads(reader *r, mnem_transformer *t) {
    mnem_status status = take_int(r, MNEM__KEY_HEADS, 1, HEADS_MAX, REQUIRED, &t->heads);
    if (status == MNEM_OK)
        status = take_int(r, MNEM__KEY_KV_HEADS, 1, t->heads, t->heads, &t->kv_heads);
    if (status == MNEM_OK && t->heads % t->kv_heads != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected a divisor of %d heads",
                          r->model->path, r->key, t->kv_heads, t->heads);
    int32_t value_dim = 0;
    if (status == MNEM_OK)
        status =
            take_int(r, "attention.key_length", 2, HEAD_DIM_MAX, t->embd / t->heads, &t->head_dim);
    if (status == MNEM_OK && t->head_dim % 2 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected an even number",
                          r->model->path, r->key, t->head_dim);
    if (status == MNEM_OK)
        status =
            take_int(r, "attention.value_length", 2, HEAD_DIM_MAX, t->embd / t->heads, &value_dim);
    if (status == MNEM_OK && value_dim != t->head_dim)
        return mnem__fail(MNEM_UNSUPPORTED, "%s: key %s: is %d, expected that of the keys, %d",
                          r->model->path, r->key, value_dim, t->head_dim);
    if (status == MNEM_OK && (int64_t)t->heads * t->head_dim > WIDTH_MAX)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: %d heads of %d, expected at most %d in all",
                          r->model->path, r->key, t->heads, t->head_dim, WIDTH_MAX);
    return status;
}

/* A window of 0 is none. Positions within the first window attend to the same keys either way. */
static mnem_status take_window(reader *r, mnem_transformer *t) {
    int32_t window;
    mnem_status status = take_int(r, "attention.sliding_window", 0, INT32_MAX, 0, &window);
    if (status == MNEM_OK && window > 0 && window < t->context) t->context = window;
    return status;
}

/* Keys that change the computation, and the only value at which they don't. */
static mnem_status check_neutral(reader *r) {
    static const struct {
        const char *name;
        double neutral;
    } keys[] = {
        {"expert_count", 0},
        {"expert_used_count", 0},
        {"attention.causal", 1},
        {"attention.clamp_kqv", 0},
        {"attention.scale", 0},
        {"attention.max_alibi_bias", 0},
        {"attn_logit_softcapping", 0},
        {"final_logit_softcapping", 0},
        {"logit_scale", 1},
        {"residual_scale", 1},
        {"embedding_scale", 1},
        {"attention.temperature_scale", 0},
        {"use_parallel_residual", 0},
        {"rope.scaling.yarn_log_multiplier", 0},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        mnem_value value;
        if (!find(r, keys[i].name, &value)) continue;
        double number = is_float(value.type) ? value.f : (double)value.i;
        if (value.type == MNEM_VALUE_STRING || value.type == MNEM_VALUE_ARRAY)
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected a number",
                              r->model->path, r->key, mnem__gguf_value_name(value.type));
        if (number != keys[i].neutral)
            return mnem__fail(
                MNEM_UNSUPPORTED, "%s: key %s: %g isn't supported%s", r->model->path, r->key,
                number, strncmp(keys[i].name, "expert", 6) == 0 ? " (mixture of experts)" : "");
    }
    return MNEM_OK;
}

static mnem_status take_keys(const mnem_model *model, const mnem__architecture *architecture,
                             const char *prefix, mnem_transformer *t) {
    reader r = {.model = model, .prefix = prefix};
    t->rope.neox = architecture->turn == MNEM__TURN_HALVES;
    mnem_status status = check_neutral(&r);
    if (status == MNEM_OK)
        status = take_int(&r, MNEM__KEY_LAYERS, 1, LAYERS_MAX, REQUIRED, &t->layers);
    if (status == MNEM_OK) status = take_int(&r, MNEM__KEY_EMBD, 1, WIDTH_MAX, REQUIRED, &t->embd);
    if (status == MNEM_OK) status = take_int(&r, MNEM__KEY_FF, 1, FF_MAX, REQUIRED, &t->ff);
    if (status == MNEM_OK)
        status = take_int(&r, MNEM__KEY_CONTEXT, 1, CONTEXT_MAX, REQUIRED, &t->context);
    if (status == MNEM_OK)
        status = take_float(&r, architecture->epsilon_key, 1e-30, 1, NAN, &t->epsilon);
    if (status == MNEM_OK) status = take_heads(&r, t);
    if (status == MNEM_OK && architecture->turn) status = take_rope(&r, t);
    if (status == MNEM_OK) status = take_window(&r, t);
    return status;
}

static mnem_status refuse_architecture(const mnem_model *model, const mnem_value *value) {
    char text[40], names[256];
    mnem__architecture_names(false, names, sizeof names);
    return mnem__fail(
        MNEM_UNSUPPORTED, "%s: key general.architecture: \"%s\" isn't supported (%s are)",
        model->path, mnem__gguf_printable(value->text.bytes, value->text.length, text, sizeof text),
        names);
}

mnem_status mnem_model_transformer(const mnem_model *model, mnem_transformer *t) {
    memset(t, 0, sizeof *t);
    t->rope_factors = -1;
    mnem_value value;
    if (!mnem_model_key_find(model, "general.architecture", &value))
        return mnem__fail(MNEM_BAD_FILE, "%s: key general.architecture: is missing", model->path);
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key general.architecture: is of type %s, expected a "
                          "text",
                          model->path, mnem__gguf_value_name(value.type));
    MNEM__TRY(mnem__gguf_check_model(model));
    const mnem__architecture *architecture = mnem__architecture_find(value.text.bytes);
    if (!architecture) return refuse_architecture(model, &value);
    snprintf(t->architecture, sizeof t->architecture, "%s", architecture->names[0]);
    mnem_status status = take_keys(model, architecture, value.text.bytes, t);
    return status == MNEM_OK ? mnem__hparams_tensors(model, architecture, value.text.bytes, t)
                             : status;
}
