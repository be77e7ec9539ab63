/* hparams_tensors.c: every tensor that a transformer needs is there, with its shape and type, and
 * none is there that would change the answer.
 *
 * Cost: a binary search for each tensor. */
#include <stdio.h>
#include <string.h>

#include "model/architecture/hparams.h"

typedef struct checker {
    const mnem_model *model;
    const mnem__architecture *architecture;
    const char *prefix; /* of keys */
    mnem_transformer *t;
    int32_t ahead;    /* layers behind the last, which are not read */
    uint32_t options; /* those of mnem__option that the model has */
} checker;

/* Frequencies that some old files carry in each layer; they follow from the keys. */
static const char never_read[] = "attn_rot_embd.weight";

static mnem_status unknown(const checker *c, const char *name, const char *why) {
    char text[72];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: tensor %s: isn't supported%s", c->model->path,
                      mnem__gguf_printable(name, strlen(name), text, sizeof text), why);
}

static bool is_never_read(const checker *c, const char *rest) {
    return rest && c->architecture->turn && strcmp(rest, never_read) == 0;
}

static bool is_ahead(const checker *c, const char *name) {
    int32_t layer = 0;
    return mnem__layer_name(name, &layer) && layer >= c->t->layers &&
           layer < c->t->layers + c->ahead;
}

/* What is wrong with a tensor of experts that an architecture doesn't have. */
static const char *why_no_expert(const mnem__architecture *a) {
    if (mnem__architecture_has(a, MNEM__ROLE_GATE_UP_EXPERTS))
        return ": gate and up of experts are expected in one tensor, ffn_gate_up_exps";
    return mnem__architecture_has(a, MNEM__ROLE_DOWN_EXPERTS)
               ? ": experts of this architecture have no such tensor"
               : ": this architecture has no experts";
}

static mnem_status check_name(const checker *c, const char *name) {
    int32_t layer;
    const mnem__role role = mnem__role_find(name, &layer);
    if (is_ahead(c, name)) return MNEM_OK;
    const bool of_experts =
        strstr(name, "_exps.") || strstr(name, "_gate_inp.") || strstr(name, "_shexp.");
    if (of_experts && (!role || !mnem__architecture_has(c->architecture, role)))
        return unknown(c, name, why_no_expert(c->architecture));
    if (!role && !is_never_read(c, mnem__layer_name(name, &layer)))
        return unknown(c, name, ": its name is unknown");
    if (role && !mnem__architecture_has(c->architecture, role))
        return unknown(c, name, " in this architecture");
    if (layer < c->t->layers) return MNEM_OK;
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: tensor %s: belongs to a layer that does not exist: key %s.%s says %d layers, "
        "numbered from 0",
        c->model->path, name, c->prefix, MNEM__KEY_LAYERS, c->t->layers + c->ahead);
}

static void shape_text(int dims, const int64_t *shape, char *text, size_t size) {
    for (int i = 0, at = 0; i < dims; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%lld", i ? ", " : "", (long long)shape[i]);
}

/* Whether it is a vector in some files, and a matrix of one row in others. */
static bool may_be_row(mnem__role role) {
    return role == MNEM__ROLE_SHARED_GATE || role == MNEM__ROLE_CHOICE_BIAS;
}

/* Whether dimensions of 1 may stand anywhere: KDA's convolutions and decays, by their age. */
static bool may_have_ones(const checker *c, mnem__role role) {
    return c->t->state_channels && (role == MNEM__ROLE_STATE_A || role == MNEM__ROLE_Q_CONV ||
                                    role == MNEM__ROLE_K_CONV || role == MNEM__ROLE_V_CONV);
}

static bool is_but_for_ones(const mnem_tensor_info *info, int dims, const int64_t *shape) {
    int at = 0;
    for (int i = 0; i < info->dims; i++) {
        if (at < dims && info->shape[i] == shape[at])
            at++;
        else if (info->shape[i] != 1)
            return false;
    }
    return at == dims;
}

static mnem_status check_shape(const checker *c, const mnem_tensor_info *info, mnem__role role,
                               int32_t layer) {
    char is[96] = "", expected[72] = "";
    int64_t shape[3];
    const mnem_transformer t = mnem__transformer_as_layer(c->t, layer);
    const int dims = mnem__role_shape(role, &t, shape);
    if (may_have_ones(c, role) && is_but_for_ones(info, dims, shape)) return MNEM_OK;
    const bool one_row = may_be_row(role) && info->dims == 2 && info->shape[0] == 1;
    if ((info->dims == dims || one_row) &&
        memcmp(info->shape + one_row, shape, (size_t)dims * sizeof *shape) == 0)
        return MNEM_OK;
    shape_text(info->dims, info->shape, is, sizeof is);
    shape_text(dims, shape, expected, sizeof expected);
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: tensor %s: shape [%s], expected [%s] from the keys of the model; the file "
        "was converted badly, or is of a variant that mnem does not support",
        c->model->path, info->name, is, expected);
}

static mnem_status check_type(const checker *c, const mnem_tensor_info *info, bool matrix) {
    const mnem_type_info *type = mnem_type_get(info->type);
    if (matrix ? type->is_weight : info->type == MNEM_TYPE_F32) return MNEM_OK;
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "%s: tensor %s: type %s isn't supported here; use a file of the model in which "
        "this tensor is %s",
        c->model->path, info->name, type->name,
        matrix ? "of another type, such as Q4_K, Q8_0 or F16" : "F32");
}

/* A matrix is of a weight's type, a vector F32. */
static mnem_status check_tensor(const checker *c, mnem__role role, int32_t layer) {
    mnem_tensor_info info;
    const int32_t index = mnem__role_tensor(c->model, role, layer);
    if (index < 0) {
        char name[MNEM__ROLE_NAME];
        mnem__role_name(role, layer, name);
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: is missing", c->model->path, name);
    }
    mnem_model_tensor_get(c->model, (uint32_t)index, &info);
    mnem_status status = check_shape(c, &info, role, layer);
    return status == MNEM_OK ? check_type(c, &info, mnem__role_is_matrix(role)) : status;
}

/* The first layer that may have the tensor. */
static int32_t first_layer(const checker *c, const mnem__tensor_use *use) {
    int32_t layer = 0;
    while (layer < c->t->layers && !mnem__layer_is(c->t, layer, use->layers)) layer++;
    return layer;
}

/* What the model has beside what it must. */
static void see_options(checker *c) {
    const mnem__tensor_use *uses = c->architecture->tensors;
    for (const mnem__tensor_use *use = uses; use->role; use++)
        if (use->option && mnem__role_tensor(c->model, use->role, first_layer(c, use)) >= 0)
            c->options |= 1u << use->option;
}

static bool wanted(const checker *c, const mnem__tensor_use *use) {
    return !use->option || c->options & 1u << use->option;
}

/* Whether the model has tensors of any of the roles. */
static bool has_one(const checker *c, const mnem__role roles[2]) {
    for (const mnem__tensor_use *use = c->architecture->tensors; use->role; use++)
        if ((use->role == roles[0] || use->role == roles[1]) && wanted(c, use)) return true;
    return false;
}

/* Files don't say it: the first layer without a window that has keys has no values. */
static bool values_are_keys(const checker *c) {
    int32_t layer = 0;
    while (layer < c->t->layers && mnem__layer_has_window(c->t, layer)) layer++;
    return c->architecture->takes & MNEM__TAKES_KINDS && layer < c->t->layers &&
           mnem__role_tensor(c->model, MNEM__ROLE_V, layer) < 0;
}

static mnem_status check_use(const checker *c, const mnem__tensor_use *use, int32_t layer) {
    const bool here = mnem__layer_is(c->t, layer, use->layers);
    if (here && wanted(c, use)) return check_tensor(c, use->role, layer);
    if (mnem__role_tensor(c->model, use->role, layer) < 0) return MNEM_OK;
    /* Some files have keys and values, or indexers, in layers that share those of others. */
    const bool keys = use->layers == MNEM__LAYERS_KEYED || use->layers == MNEM__LAYERS_VALUED;
    if (keys && mnem__layer_keys(c->t, layer) != layer) return MNEM_OK;
    if (use->layers == MNEM__LAYERS_INDEXED) return MNEM_OK;
    char name[MNEM__ROLE_NAME];
    mnem__role_name(use->role, layer, name);
    return unknown(c, name, here ? " in this architecture" : " in this layer");
}

/* The vocabulary is as large as the embedding, and so say all who say it. */
static mnem_status take_vocab(const checker *c) {
    mnem_tensor_info info;
    char name[MNEM__ROLE_NAME], key[64];
    mnem__role_name(MNEM__ROLE_EMBEDDING, -1, name);
    const int32_t index = mnem_model_tensor_find(c->model, name);
    if (index < 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: is missing", c->model->path, name);
    mnem_model_tensor_get(c->model, (uint32_t)index, &info);
    const int64_t vocab = info.shape[0];
    if (info.dims == 2 && vocab > INT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: tensor %s: has %lld rows, expected fewer than 2^31", c->model->path,
                          name, (long long)vocab);
    c->t->vocab = (int32_t)vocab;
    mnem_value value;
    snprintf(key, sizeof key, "%s.%s", c->prefix, MNEM__KEY_VOCAB);
    const char *keys[] = {"tokenizer.ggml.tokens", key};
    for (int i = 0; i < 2; i++) {
        if (!mnem_model_key_find(c->model, keys[i], &value)) continue;
        uint64_t says = i == 0 ? value.count : value.u;
        if (says != (uint64_t)vocab)
            return mnem__fail(
                MNEM_BAD_FILE, "%s: key %s: says %llu tokens, but tensor %s has %lld rows",
                c->model->path, keys[i], (unsigned long long)says, name, (long long)vocab);
    }
    return MNEM_OK;
}

/* The ends first: what they say of the sizes explains what is wrong in the layers. */
static mnem_status check_tensors(const checker *c) {
    mnem_status status = MNEM_OK;
    const mnem__tensor_use *uses = c->architecture->tensors;
    for (const mnem__tensor_use *use = uses; use->role && status == MNEM_OK; use++)
        if (!mnem__role_in_layer(use->role)) status = check_use(c, use, -1);
    for (int32_t layer = 0; layer < c->t->layers && status == MNEM_OK; layer++)
        for (const mnem__tensor_use *use = uses; use->role && status == MNEM_OK; use++)
            if (mnem__role_in_layer(use->role)) status = check_use(c, use, layer);
    return status;
}

/* Some files have the layers that predict further tokens alone. */
static mnem_status check_trunk(const checker *c) {
    int32_t layer;
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(c->model, i, &info); i++)
        if (mnem__layer_name(info.name, &layer) && layer < c->t->layers) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: has only the layers for multi-token prediction (key %s.%s), not the "
                      "other layers of the model; use the file of the whole model",
                      c->model->path, c->prefix, MNEM__KEY_AHEAD);
}

/* Of a gate for what heads give: one number for each head, or one for each that they give. Only
 * softplus gates are of both kinds. */
static bool has_head_gates(const checker *c) {
    const mnem__architecture *a = c->architecture;
    mnem_tensor_info info;
    if (!(a->takes & MNEM__TAKES_HEAD_KINDS)) return false;
    const int32_t gate = mnem__role_tensor(c->model, MNEM__ROLE_STATE_GATE, 0);
    if (!a->softplus_gates || gate < 0) return true;
    mnem_model_tensor_get(c->model, (uint32_t)gate, &info);
    return info.shape[0] == mnem__layer_heads(c->t, 0);
}

mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__architecture *architecture,
                                  const char *prefix, mnem_transformer *t) {
    checker c = {.model = model,
                 .architecture = architecture,
                 .prefix = prefix,
                 .t = t,
                 .ahead = mnem__hparams_ahead(model, prefix)};
    mnem_tensor_info info;
    mnem_status status = MNEM_OK;
    if (c.ahead > 0) status = check_trunk(&c);
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_tensor_get(model, i, &info); i++)
        status = check_name(&c, info.name);
    if (status == MNEM_OK) status = take_vocab(&c);
    if (status != MNEM_OK) return status;
    see_options(&c);
    t->qkv_bias = has_one(&c, (const mnem__role[]){MNEM__ROLE_Q_BIAS, MNEM__ROLE_QKV_BIAS});
    t->out_bias = has_one(&c, (const mnem__role[]){MNEM__ROLE_O_BIAS, MNEM__ROLE_O_BIAS});
    t->qk_norm = has_one(&c, (const mnem__role[]){MNEM__ROLE_Q_NORM, MNEM__ROLE_Q_NORM});
    t->tied = mnem__role_tensor(model, MNEM__ROLE_OUTPUT, -1) < 0;
    t->rope_factors = mnem__role_tensor(model, MNEM__ROLE_ROPE_FACTORS, -1);
    t->values_are_keys = values_are_keys(&c);
    t->head_gates = has_head_gates(&c);
    return check_tensors(&c);
}
