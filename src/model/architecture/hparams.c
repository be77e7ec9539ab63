/* hparams.c: the keys that describe a transformer, each checked by name and range.
 *
 * What would change the answer and isn't done here is refused by its name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/architecture/hparams.h"

enum {
    LAYERS_MAX = MNEM_LAYERS_MAX,
    WIDTH_MAX = 1 << 20, /* embd, heads * head_dim */
    HEAD_DIM_MAX = 1024,
    CONTEXT_MAX = 1 << 26,
    PLAUSIBLE = 64, /* no model is larger than so many times a limit: the number is damaged */
    REQUIRED = MNEM__KEY_REQUIRED
};

bool mnem__key_find(mnem__key_reader *r, const char *name, mnem_value *value) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, name);
    return mnem_model_key_find(r->model, r->key, value);
}

static mnem_status missing(const mnem__key_reader *r) {
    return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is missing", r->model->path, r->key);
}

static bool is_float(mnem_value_type type) {
    return type == MNEM_VALUE_F32 || type == MNEM_VALUE_F64;
}

/* One integer; an array of them (one a layer) counts when all are equal. */
static mnem_status one_integer(const mnem__key_reader *r, const mnem_value *value,
                               int64_t *number) {
    if (value->type != MNEM_VALUE_ARRAY || value->count == 0 ||
        !mnem__value_is_integer(value->element)) {
        if (!mnem__value_is_integer(value->type))
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected an integer",
                              r->model->path, r->key, mnem__gguf_value_name(value->type));
        *number = value->i;
        return MNEM_OK;
    }
    *number = mnem_value_i64(value, 0);
    for (uint64_t i = 1; i < value->count; i++)
        if (mnem_value_i64(value, i) != *number)
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "%s: key %s: differs between layers (%lld and %lld), expected one number for all",
                r->model->path, r->key, (long long)*number, (long long)mnem_value_i64(value, i));
    return MNEM_OK;
}

/* above: the status of a number above max. */
static mnem_status take_integer(mnem__key_reader *r, const char *name, const int64_t range[2],
                                mnem_status above, int64_t standard, int32_t *out) {
    mnem_value value;
    int64_t number = standard;
    if (!mnem__key_find(r, name, &value)) {
        if (standard == REQUIRED) return missing(r);
    } else {
        MNEM__TRY(one_integer(r, &value, &number));
    }
    const bool plausible = number > range[1] && number / PLAUSIBLE <= range[1];
    if (number < range[0] || number > range[1])
        return mnem__fail(plausible ? above : MNEM_BAD_FILE,
                          "%s: key %s: is %lld, expected %lld to %lld", r->model->path, r->key,
                          (long long)number, (long long)range[0], (long long)range[1]);
    *out = (int32_t)number;
    return MNEM_OK;
}

mnem_status mnem__take_int(mnem__key_reader *r, const char *name, int64_t min, int64_t max,
                           int64_t standard, int32_t *out) {
    return take_integer(r, name, (const int64_t[]){min, max}, MNEM_BAD_FILE, standard, out);
}

mnem_status mnem__take_size(mnem__key_reader *r, const char *name, int64_t min, int64_t limit,
                            int64_t standard, int32_t *out) {
    return take_integer(r, name, (const int64_t[]){min, limit}, MNEM_UNSUPPORTED, standard, out);
}

mnem_status mnem__key_by_layer(const mnem__key_reader *r, const mnem_value *value,
                               const char *items, int32_t layers) {
    char is[64] = "is missing";
    if (value && value->type == MNEM_VALUE_ARRAY)
        snprintf(is, sizeof is, "is a list of %llu %s", (unsigned long long)value->count,
                 mnem__gguf_value_name(value->element));
    else if (value)
        snprintf(is, sizeof is, "is of type %s", mnem__gguf_value_name(value->type));
    return mnem__fail(MNEM_BAD_FILE, "%s: key %s: %s, expected a list of %d %s, one for each layer",
                      r->model->path, r->key, is, layers, items);
}

mnem_status mnem__take_float(mnem__key_reader *r, const char *name, double min, double max,
                             double standard, float *out) {
    mnem_value value;
    double number = standard;
    if (mnem__key_find(r, name, &value)) {
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

typedef enum scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN, SCALING_LONG } scaling;

/* Without a type, a factor means linear scaling. */
static mnem_status take_scaling(mnem__key_reader *r, scaling *kind) {
    mnem_value value;
    *kind = SCALING_LINEAR;
    if (!mnem__key_find(r, "rope.scaling.type", &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected text", r->model->path,
                          r->key, mnem__gguf_value_name(value.type));
    const char *names[] = {"none", "linear", "yarn", "longrope"};
    for (int i = 0; i < 4; i++)
        if (strcmp(value.text.bytes, names[i]) == 0) {
            *kind = (scaling)i;
            return MNEM_OK;
        }
    char text[40];
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "%s: key %s: RoPE scaling \"%s\" isn't supported (none, linear, yarn and longrope are)",
        r->model->path, r->key,
        mnem__gguf_printable(value.text.bytes, value.text.length, text, sizeof text));
}

/* 1 / factor; 0 and absence mean 1. The older key is scale_linear. */
static mnem_status take_factor(mnem__key_reader *r, mnem_rope *rope) {
    float factor = 0, older = 0;
    mnem_status status = mnem__take_float(r, "rope.scale_linear", 0, 1e6, 0, &older);
    if (status == MNEM_OK)
        status = mnem__take_float(r, "rope.scaling.factor", 0, 1e6, older, &factor);
    rope->scale = factor > 0 ? 1 / factor : 1;
    if (status == MNEM_OK && !(rope->scale <= 1e6f))
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g, expected 0 or 1e-6 to 1e6",
                          r->model->path, r->key, (double)factor);
    return status;
}

/* What YaRN multiplies all angles' sizes with, divided by the same of a multiplier of its own. */
static mnem_status take_yarn_log(mnem__key_reader *r, mnem_rope *rope) {
    float multiplier = 0;
    const mnem_status status =
        mnem__take_float(r, "rope.scaling.yarn_log_multiplier", 0, 100, 0, &multiplier);
    if (rope->scale < 1) rope->yarn_attn /= 1 - 0.1f * multiplier * logf(rope->scale);
    return status;
}

static mnem_status take_yarn(mnem__key_reader *r, const mnem_transformer *t, mnem_rope *rope) {
    mnem_status status = mnem__take_size(r, "rope.scaling.original_context_length", 1, CONTEXT_MAX,
                                         t->context, &rope->original_context);
    if (status == MNEM_OK)
        status = mnem__take_float(r, "rope.scaling.yarn_ext_factor", 0, 1, 1, &rope->yarn_ext);
    if (status == MNEM_OK)
        status = mnem__take_float(r, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32,
                                  &rope->yarn_beta_fast);
    if (status == MNEM_OK)
        status =
            mnem__take_float(r, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &rope->yarn_beta_slow);
    float attn = 1;
    if (status == MNEM_OK)
        status = mnem__take_float(r, "rope.scaling.yarn_attn_factor", 1e-6, 1e6, 1, &attn);
    rope->yarn_attn *= attn;
    return status == MNEM_OK ? take_yarn_log(r, rope) : status;
}

/* Two lists of factors: which one counts, says the context. */
static bool has_long_factors(const mnem__key_reader *r) {
    return mnem__role_tensor(r->model, MNEM__ROLE_ROPE_LONG, -1) >= 0;
}

/* Models that see turn pairs of a head by time, height and width. A text's tokens have the same
 * number in all three, so that pairs are turned as if there were no sections. */
static mnem_status check_sections(mnem__key_reader *r, const mnem__architecture *a) {
    mnem_value value;
    if (!mnem__key_find(r, "rope.dimension_sections", &value)) return MNEM_OK;
    const bool is_list = value.type == MNEM_VALUE_ARRAY && mnem__value_is_integer(value.element);
    if (!is_list || value.count < 3 || value.count > 4)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: is of type %s with %llu items, expected a list of 3 or 4 "
                          "integers",
                          r->model->path, r->key, mnem__gguf_value_name(value.type),
                          (unsigned long long)value.count);
    const bool fourth = value.count == 4 && mnem_value_i64(&value, 3) != 0;
    bool any = fourth;
    for (uint64_t i = 0; i < 3; i++) any |= mnem_value_i64(&value, i) != 0;
    if (fourth || (any && !(a->takes & MNEM__TAKES_SECTIONS)))
        return mnem__fail(MNEM_UNSUPPORTED,
                          fourth ? "%s: key %s: RoPE in four sections isn't supported"
                                 : "%s: key %s: RoPE in sections isn't supported in this "
                                   "architecture",
                          r->model->path, r->key);
    return MNEM_OK;
}

static mnem_status take_rope(mnem__key_reader *r, const mnem__architecture *a,
                             mnem_transformer *t) {
    mnem_rope *rope = &t->rope;
    scaling kind;
    mnem_status status = check_sections(r, a);
    if (status == MNEM_OK)
        status = mnem__take_int(r, MNEM__KEY_ROPE_DIMS, 2, t->head_dim, t->head_dim, &rope->dims);
    if (status == MNEM_OK && rope->dims % 2 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected an even number",
                          r->model->path, r->key, rope->dims);
    if (status == MNEM_OK)
        status = mnem__take_float(r, MNEM__KEY_ROPE_BASE, 1e-3, 1e30, 1e4, &rope->base);
    if (status == MNEM_OK) status = take_scaling(r, &kind);
    if (status == MNEM_OK) status = take_factor(r, rope);
    if (status == MNEM_OK)
        status = mnem__take_float(r, "rope.scaling.attn_factor", 1e-6, 1e6, 1, &rope->yarn_attn);
    if (status != MNEM_OK) return status;
    if (kind == SCALING_YARN) return take_yarn(r, t, rope);
    if (kind == SCALING_NONE || kind == SCALING_LONG) rope->scale = 1;
    if (has_long_factors(r))
        return mnem__take_size(r, "rope.scaling.original_context_length", 1, CONTEXT_MAX, REQUIRED,
                               &rope->original_context);
    if (kind == SCALING_LONG)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s.%s: is longrope, but its tensor %s is missing",
                          r->model->path, r->prefix, "rope.scaling.type",
                          mnem__role_get(MNEM__ROLE_ROPE_LONG)->name);
    if (rope->yarn_attn != 1)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %g, which is supported only with RoPE scaling yarn",
                          r->model->path, r->key, (double)rope->yarn_attn);
    return MNEM_OK;
}

/* ---- attention ---- */

static mnem_status take_heads(mnem__key_reader *r, const mnem__architecture *a,
                              mnem_transformer *t) {
    mnem_status status =
        a->takes & MNEM__TAKES_HEAD_KINDS
            ? mnem__hparams_heads(r, t)
            : mnem__take_size(r, MNEM__KEY_HEADS, 1, MNEM__HEADS_MAX, REQUIRED, &t->heads);
    if (status == MNEM_OK)
        status = a->takes & (MNEM__TAKES_CONV | MNEM__TAKES_LAYER_HEADS)
                     ? mnem__hparams_layer_heads(r, a, t)
                 : a->takes & MNEM__TAKES_KINDS
                     ? mnem__hparams_kv_heads(r, t)
                     : mnem__take_int(r, MNEM__KEY_KV_HEADS, 1, t->heads, t->heads, &t->kv_heads);
    if (status == MNEM_OK && t->heads % t->kv_heads != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: is %d, expected a divisor of %d, the number of query heads",
                          r->model->path, r->key, t->kv_heads, t->heads);
    int32_t value_dim = 0;
    if (status == MNEM_OK)
        status = mnem__take_size(r, MNEM__KEY_KEY_LENGTH, 2, HEAD_DIM_MAX, t->embd / t->heads,
                                 &t->head_dim);
    if (status == MNEM_OK && t->head_dim % 2 != 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %d, expected an even number",
                          r->model->path, r->key, t->head_dim);
    if (status == MNEM_OK)
        status = mnem__take_size(r, MNEM__KEY_VALUE_LENGTH, 2, HEAD_DIM_MAX, t->embd / t->heads,
                                 &value_dim);
    const bool narrow = a->takes & MNEM__TAKES_NARROW_VALUES && value_dim < t->head_dim;
    if (narrow) t->value_dim = value_dim;
    if (status == MNEM_OK && value_dim != t->head_dim && !narrow &&
        !(a->takes & MNEM__TAKES_LATENT))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, but only the head size of attention keys, %d, is "
                          "supported for this architecture",
                          r->model->path, r->key, value_dim, t->head_dim);
    if (status == MNEM_OK && (int64_t)t->heads * t->head_dim > WIDTH_MAX)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: key %s: %d heads of %d numbers are too wide, expected at most %d numbers in all",
            r->model->path, r->key, t->heads, t->head_dim, WIDTH_MAX);
    return status;
}

/* Factors and caps. 1 is written as 0, so that nothing is done. */
static mnem_status take_scales(mnem__key_reader *r, const mnem__architecture *a,
                               mnem_transformer *t) {
    float logits = 0;
    const struct {
        const char *name;
        unsigned bit;
        float *out;
    } keys[] = {
        {"embedding_scale", MNEM__TAKES_SCALES, &t->embedding_scale},
        {"residual_scale", MNEM__TAKES_SCALES, &t->residual_scale},
        {"attention.scale", MNEM__TAKES_SCALES | MNEM__TAKES_SCORE_SCALE, &t->attention_scale},
        {"logit_scale", MNEM__TAKES_SCALES | MNEM__TAKES_LOGIT_FACTOR, &logits},
        {"attn_logit_softcapping", MNEM__TAKES_ATTENTION_CAP, &t->attention_cap},
        {"final_logit_softcapping", MNEM__TAKES_LOGIT_CAP, &t->logit_cap}};
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == MNEM_OK; i++)
        if (a->takes & keys[i].bit)
            status = mnem__take_float(r, keys[i].name, 0, 1e5, 0, keys[i].out);
    const bool divides = a->takes & MNEM__TAKES_SCALES;
    if (logits > 1e-5f && logits != 1) t->logit_scale = divides ? 1 / logits : logits;
    if (t->embedding_scale == 1) t->embedding_scale = 0;
    if (t->residual_scale == 1) t->residual_scale = 0;
    if (a->root_scale) t->embedding_scale = sqrtf((float)t->embd);
    if (t->attention_scale == 0) t->attention_scale = a->score_scale;
    if (t->attention_scale == 0 && t->layers == a->split_scale_layers)
        t->attention_scale = 1 / sqrtf((float)(t->embd / t->heads));
    if (status == MNEM_OK && a->takes & MNEM__TAKES_TEMPERATURE)
        status = mnem__hparams_temperature(r, a, t);
    return status;
}

/* Keys that change the computation, and the only value at which they don't. */
static mnem_status check_neutral(mnem__key_reader *r, const mnem__architecture *architecture) {
    static const struct {
        const char *name;
        double neutral;
        unsigned taken; /* by architectures with this bit: not checked */
    } keys[] = {
        {"expert_count", 0, MNEM__TAKES_EXPERTS},
        {"expert_used_count", 0, MNEM__TAKES_EXPERTS},
        {"attention.clamp_kqv", 0, 0},
        {"attention.scale", 0, MNEM__TAKES_SCALES | MNEM__TAKES_SCORE_SCALE},
        {"attention.max_alibi_bias", 0, 0},
        {"attn_logit_softcapping", 0, MNEM__TAKES_ATTENTION_CAP},
        {"final_logit_softcapping", 0, MNEM__TAKES_LOGIT_CAP},
        {"logit_scale", 1, MNEM__TAKES_SCALES | MNEM__TAKES_LOGIT_FACTOR},
        {"residual_scale", 1, MNEM__TAKES_SCALES},
        {"embedding_scale", 1, MNEM__TAKES_SCALES},
        {"attention.temperature_scale", 0, MNEM__TAKES_TEMPERATURE},
        {"use_parallel_residual", 0, 0},
        {"interleave_moe_layer_step", 1, MNEM__TAKES_INTERLEAVED},
        {"rope.scaling.yarn_log_multiplier", 0, MNEM__TAKES_TEMPERATURE | MNEM__TAKES_LATENT},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        mnem_value value;
        if (architecture->takes & keys[i].taken || !mnem__key_find(r, keys[i].name, &value))
            continue;
        double number = is_float(value.type) ? value.f : (double)value.i;
        if (value.type == MNEM_VALUE_STRING || value.type == MNEM_VALUE_ARRAY)
            return mnem__fail(value.type == MNEM_VALUE_ARRAY ? MNEM_UNSUPPORTED : MNEM_BAD_FILE,
                              "%s: key %s: is of type %s, expected the number %g", r->model->path,
                              r->key, mnem__gguf_value_name(value.type), keys[i].neutral);
        if (number != keys[i].neutral)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: key %s: is %g, but in this architecture only %g is supported",
                              r->model->path, r->key, number, keys[i].neutral);
    }
    return MNEM_OK;
}

/* What an encoder says of itself, and what of its rows is an embedding; decoders may, too. */
static mnem_status take_embedding(mnem__key_reader *r, const mnem__architecture *a,
                                  mnem_transformer *t) {
    mnem_value value;
    int32_t pooling = 0;
    t->encoder = a->encoder;
    if (mnem__key_find(r, "attention.causal", &value) && (value.i != 0) == a->encoder)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: key %s: is %d, expected %d: this architecture is supported only as %s",
            r->model->path, r->key, value.i != 0, !a->encoder,
            a->encoder ? "an encoder" : "a decoder");
    MNEM__TRY(mnem__take_size(r, "pooling_type", 0, 4, 0, &pooling));
    if (pooling > MNEM_POOLING_LAST)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is 4 (a reranker, which scores two texts), which isn't "
                          "supported; use an embedding model",
                          r->model->path, r->key);
    t->pooling = (mnem_pooling)pooling;
    if (mnem_model_key_find(r->model, "tokenizer.ggml.token_type_count", &value) && value.i > 0 &&
        value.i <= WIDTH_MAX)
        t->token_types = (int32_t)value.i;
    return MNEM_OK;
}

/* Embeddings of layers only where programs read them. */
static mnem_status take_kinds(mnem__key_reader *r, const mnem__architecture *a,
                              mnem_transformer *t) {
    MNEM__TRY(mnem__hparams_kinds(r, a, t));
    if (t->layer_embd == 0 || mnem__architecture_has(a, MNEM__ROLE_LAYER_PROJ)) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: key %s: is %d, but embeddings of layers are not supported in this "
                      "architecture",
                      r->model->path, r->key, t->layer_embd);
}

static mnem_status take_keys(const mnem_model *model, const mnem__architecture *architecture,
                             const char *prefix, mnem_transformer *t) {
    mnem__key_reader r = {.model = model, .prefix = prefix};
    t->rope.yarn_unrounded = architecture->yarn_unrounded;
    t->rope.neox = architecture->turn == MNEM__TURN_HALVES;
    t->wide_qk_norm = architecture->wide_qk_norm;
    t->unturned = architecture->unturned;
    t->output_gate = architecture->output_gate;
    for (const mnem__layer_part *part = architecture->parts; part->out; part++)
        t->gate_in_up |= mnem__part_joins_gate(part);
    mnem_status status = check_neutral(&r, architecture);
    if (status == MNEM_OK) status = mnem__hparams_trunk(&r, architecture, t);
    if (status == MNEM_OK)
        status = mnem__take_size(&r, MNEM__KEY_EMBD, 1, WIDTH_MAX, REQUIRED, &t->embd);
    if (status == MNEM_OK && mnem__architecture_feeds(architecture))
        status = mnem__hparams_ff(&r, architecture, t);
    if (status == MNEM_OK)
        status = mnem__take_size(&r, MNEM__KEY_CONTEXT, 1, CONTEXT_MAX, REQUIRED, &t->context);
    if (status == MNEM_OK) status = mnem__hparams_norm(&r, architecture, t);
    const bool attends = mnem__architecture_attends(architecture);
    if (status == MNEM_OK && attends) status = take_heads(&r, architecture, t);
    if (status == MNEM_OK && architecture->turn) status = take_rope(&r, architecture, t);
    if (status == MNEM_OK && attends) status = mnem__hparams_windows(&r, architecture, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_NARROW_VALUES)
        status = mnem__take_float(&r, "attention.value_scale", 1e-5, 1e5, 1, &t->value_scale);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_KINDS)
        status = take_kinds(&r, architecture, t);
    if (status == MNEM_OK) mnem__hparams_turn_windows(architecture, t);
    if (status == MNEM_OK) status = take_scales(&r, architecture, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_LATENT)
        status = mnem__hparams_latent(&r, architecture, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_STATES)
        status = mnem__hparams_states(&r, architecture, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_EXPERTS)
        status = mnem__hparams_experts(&r, architecture, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_XIELU)
        status = mnem__hparams_check_xielu(model, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_LIMITS)
        status = mnem__hparams_check_limits(&r, t);
    if (status == MNEM_OK && architecture->takes & MNEM__TAKES_STREAMS)
        status = mnem__hparams_streams(&r, t);
    if (status == MNEM_OK) status = take_embedding(&r, architecture, t);
    return status;
}

static mnem_status refuse_architecture(const mnem_model *model, const mnem_value *value) {
    char text[40];
    return mnem__fail(
        MNEM_UNSUPPORTED, "%s: key general.architecture: \"%s\" isn't supported", model->path,
        mnem__gguf_printable(value->text.bytes, value->text.length, text, sizeof text));
}

static bool has_role(const mnem_model *model, mnem__role role) {
    int32_t layer;
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        if (mnem__role_find(info.name, &layer) == role) return true;
    return false;
}

/* Some files of one name need another table; NULL: not this one. */
static const mnem__architecture *find_other(const mnem_model *model, const mnem__architecture *a,
                                            const char *prefix) {
    mnem__key_reader r = {.model = model, .prefix = prefix};
    for (int i = 0; i < MNEM__OTHERS_MAX && a->others[i].name; i++) {
        const mnem__other *other = &a->others[i];
        mnem_value value;
        if (other->key ? mnem__key_find(&r, other->key, &value) && value.u > 0
                       : has_role(model, other->role))
            return mnem__architecture_find(other->name);
    }
    return NULL;
}

static mnem_status take_model(const mnem_model *model, mnem_transformer *t) {
    memset(t, 0, sizeof *t);
    t->rope_factors = -1;
    mnem_value value;
    if (!mnem_model_key_find(model, "general.architecture", &value))
        return mnem__fail(MNEM_BAD_FILE, "%s: key general.architecture: is missing", model->path);
    if (value.type != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key general.architecture: is of type %s, expected text", model->path,
                          mnem__gguf_value_name(value.type));
    MNEM__TRY(mnem__gguf_check_model(model));
    const mnem__architecture *architecture = mnem__architecture_find(value.text.bytes);
    if (!architecture) return refuse_architecture(model, &value);
    for (const mnem__architecture *a = architecture; a;)
        if ((a = find_other(model, architecture, value.text.bytes))) architecture = a;
    snprintf(t->architecture, sizeof t->architecture, "%s", architecture->names[0]);
    mnem_status status = take_keys(model, architecture, value.text.bytes, t);
    return status == MNEM_OK ? mnem__hparams_tensors(model, architecture, value.text.bytes, t)
                             : status;
}

mnem_status mnem_model_transformer(const mnem_model *model, mnem_transformer *t) {
    return mnem__model_refused(take_model(model, t), model->source != NULL);
}
