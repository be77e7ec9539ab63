/* hparams_tensors.c: every tensor that a transformer needs is there, with its shape and type, and
 * none is there that would change the answer.
 *
 * Cost: a binary search for each tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/architecture/hparams.h"

typedef struct checker {
    const mnem_model *model;
    const mnem__family *family;
    mnem_transformer *t;
} checker;

/* What a layer may hold, after "blk.N."; NULL ends the list. */
static const char *const layer_tensors[] = {
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_output.bias",
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "attn_rot_embd.weight", /* frequencies that some old files carry: never read */
    NULL,
};
static const char *const layer_tensors_gpt2[] = {
    "attn_norm.weight",
    "attn_norm.bias",
    "attn_qkv.weight",
    "attn_qkv.bias",
    "ffn_norm.weight",
    "ffn_norm.bias",
    "ffn_up.weight",
    "ffn_up.bias",
    "ffn_down.weight",
    "attn_output.weight",
    "attn_output.bias",
    "ffn_down.bias",
    NULL,
};

static mnem_status unknown(const checker *c, const char *name, const char *why) {
    char text[72];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: tensor %s: isn't supported%s", c->model->path,
                      mnem__gguf_printable(name, strlen(name), text, sizeof text), why);
}

/* "blk.N.rest": false when name isn't like that. */
static bool split_name(const char *name, long *layer, const char **rest) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return false;
    char *end;
    *layer = strtol(name + 4, &end, 10);
    *rest = end + 1;
    return *end == '.';
}

static mnem_status known(const checker *c, const char *name) {
    long layer;
    const char *rest;
    if (strstr(name, "_exps.") || strstr(name, "_gate_inp.") || strstr(name, "_shexp."))
        return unknown(c, name, " (mixture of experts)");
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output_norm.weight") == 0 ||
        strcmp(name, "output.weight") == 0)
        return MNEM_OK;
    if (strcmp(name, "rope_freqs.weight") == 0 && c->family->rope_factors_allowed) return MNEM_OK;
    if (c->family->gpt2 &&
        (strcmp(name, "position_embd.weight") == 0 || strcmp(name, "output_norm.bias") == 0))
        return MNEM_OK;
    if (!split_name(name, &layer, &rest)) return unknown(c, name, "");
    for (const char *const *t = c->family->gpt2 ? layer_tensors_gpt2 : layer_tensors; *t; t++) {
        if (strcmp(rest, *t) != 0) continue;
        if (layer < c->t->layers) return MNEM_OK;
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: key %s.block_count says %d layers",
                          c->model->path, name, c->family->architecture, c->t->layers);
    }
    return unknown(c, name, "");
}

/* rows 0: a vector of k. */
static mnem_status check_shape(const checker *c, const mnem_tensor_info *info, int64_t rows,
                               int64_t k) {
    int dims = rows ? 2 : 1;
    if (info->dims == dims && info->shape[dims - 1] == k && (rows == 0 || info->shape[0] == rows))
        return MNEM_OK;
    char is[96] = "", expected[48];
    for (int i = 0, at = 0; i < info->dims; i++)
        at += snprintf(is + at, sizeof is - (size_t)at, "%s%lld", i ? ", " : "",
                       (long long)info->shape[i]);
    if (rows)
        snprintf(expected, sizeof expected, "%lld, %lld", (long long)rows, (long long)k);
    else
        snprintf(expected, sizeof expected, "%lld", (long long)k);
    return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: shape [%s], expected [%s]", c->model->path,
                      info->name, is, expected);
}

static mnem_status check_type(const checker *c, const mnem_tensor_info *info, bool matrix) {
    const mnem_type_info *type = mnem_type_info_get(info->type);
    if (matrix ? type->is_weight : info->type == MNEM_TYPE_F32) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED, "%s: tensor %s: type %s isn't supported%s", c->model->path,
                      info->name, type->name, matrix ? "" : " (expected F32)");
}

/* A matrix [rows, k] of a weight's type, or (rows 0) a vector of k in F32. */
static mnem_status check(const checker *c, const char *name, int64_t rows, int64_t k) {
    mnem_tensor_info info;
    int32_t index = mnem_model_tensor_find(c->model, name);
    if (index < 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: is missing", c->model->path, name);
    mnem_model_tensor_get(c->model, (uint32_t)index, &info);
    mnem_status status = check_shape(c, &info, rows, k);
    return status == MNEM_OK ? check_type(c, &info, rows != 0) : status;
}

static bool has(const checker *c, int32_t layer, const char *rest) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, rest);
    return mnem_model_tensor_find(c->model, name) >= 0;
}

/* What the tensors of the first layer say about all of them. */
static void see_options(const checker *c) {
    mnem_transformer *t = c->t;
    t->qkv_bias = c->family->gpt2 || c->family->qkv_bias_required || has(c, 0, "attn_q.bias") ||
                  has(c, 0, "attn_k.bias") || has(c, 0, "attn_v.bias");
    t->out_bias = c->family->gpt2 || has(c, 0, "attn_output.bias");
    t->qk_norm = c->family->qk_norm;
}

typedef struct wanted_tensor {
    const char *rest;
    int64_t rows, k;
    bool wanted; /* otherwise it mustn't be there */
} wanted_tensor;

static mnem_status check_wanted(const checker *c, int32_t layer, const wanted_tensor *wanted,
                                size_t count) {
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s", layer, wanted[i].rest);
        if (!wanted[i].wanted) {
            if (has(c, layer, wanted[i].rest)) return unknown(c, name, " in this architecture");
            continue;
        }
        mnem_status status = check(c, name, wanted[i].rows, wanted[i].k);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

static mnem_status check_layer_gpt2(const checker *c, int32_t layer) {
    const mnem_transformer *t = c->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const wanted_tensor wanted[] = {
        {"attn_norm.weight", 0, t->embd, true},         {"attn_norm.bias", 0, t->embd, true},
        {"attn_qkv.weight", q + 2 * kv, t->embd, true}, {"attn_qkv.bias", 0, q + 2 * kv, true},
        {"attn_output.weight", t->embd, q, true},       {"attn_output.bias", 0, t->embd, true},
        {"ffn_norm.weight", 0, t->embd, true},          {"ffn_norm.bias", 0, t->embd, true},
        {"ffn_up.weight", t->ff, t->embd, true},        {"ffn_up.bias", 0, t->ff, true},
        {"ffn_down.weight", t->embd, t->ff, true},      {"ffn_down.bias", 0, t->embd, true},
    };
    return check_wanted(c, layer, wanted, sizeof wanted / sizeof *wanted);
}

static mnem_status check_layer(const checker *c, int32_t layer) {
    const mnem_transformer *t = c->t;
    int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const wanted_tensor wanted[] = {
        {"attn_norm.weight", 0, t->embd, true},
        {"attn_q.weight", q, t->embd, true},
        {"attn_k.weight", kv, t->embd, true},
        {"attn_v.weight", kv, t->embd, true},
        {"attn_output.weight", t->embd, q, true},
        {"ffn_norm.weight", 0, t->embd, true},
        {"ffn_gate.weight", t->ff, t->embd, true},
        {"ffn_up.weight", t->ff, t->embd, true},
        {"ffn_down.weight", t->embd, t->ff, true},
        {"attn_q.bias", 0, q, t->qkv_bias},
        {"attn_k.bias", 0, kv, t->qkv_bias},
        {"attn_v.bias", 0, kv, t->qkv_bias},
        {"attn_output.bias", 0, t->embd, t->out_bias},
        {"attn_q_norm.weight", 0, t->head_dim, t->qk_norm},
        {"attn_k_norm.weight", 0, t->head_dim, t->qk_norm},
    };
    return check_wanted(c, layer, wanted, sizeof wanted / sizeof *wanted);
}

/* The vocabulary is as large as the embedding, and so say all who say it. */
static mnem_status take_vocab(const checker *c) {
    mnem_tensor_info info;
    int32_t index = mnem_model_tensor_find(c->model, "token_embd.weight");
    if (index < 0)
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor token_embd.weight: is missing",
                          c->model->path);
    mnem_model_tensor_get(c->model, (uint32_t)index, &info);
    int64_t vocab = info.shape[0];
    if (info.dims == 2 && vocab > INT32_MAX)
        return mnem__fail(MNEM_BAD_FILE, "%s: tensor token_embd.weight: %lld rows", c->model->path,
                          (long long)vocab);
    c->t->vocab = (int32_t)vocab;
    char key[64];
    mnem_value value;
    snprintf(key, sizeof key, "%s.vocab_size", c->family->architecture);
    const char *names[] = {"tokenizer.ggml.tokens", key};
    for (int i = 0; i < 2; i++) {
        if (!mnem_model_key_find(c->model, names[i], &value)) continue;
        uint64_t says = i == 0 ? value.count : value.u;
        if (says != (uint64_t)vocab)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: key %s: %llu tokens, but token_embd.weight has %lld rows",
                              c->model->path, names[i], (unsigned long long)says, (long long)vocab);
    }
    return check(c, "token_embd.weight", vocab, c->t->embd);
}

static mnem_status check_whole(const checker *c) {
    mnem_transformer *t = c->t;
    mnem_status status = take_vocab(c);
    if (status == MNEM_OK) status = check(c, "output_norm.weight", 0, t->embd);
    t->tied = mnem_model_tensor_find(c->model, "output.weight") < 0;
    if (status == MNEM_OK && !t->tied) status = check(c, "output.weight", t->vocab, t->embd);
    if (status == MNEM_OK && c->family->gpt2) status = check(c, "output_norm.bias", 0, t->embd);
    if (status == MNEM_OK && c->family->gpt2)
        status = check(c, "position_embd.weight", t->context, t->embd);
    t->rope_factors = mnem_model_tensor_find(c->model, "rope_freqs.weight");
    if (status == MNEM_OK && t->rope_factors >= 0)
        status = check(c, "rope_freqs.weight", 0, t->rope.dims / 2);
    return status;
}

mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__family *family,
                                  mnem_transformer *t) {
    const checker c = {.model = model, .family = family, .t = t};
    mnem_tensor_info info;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_tensor_get(model, i, &info); i++)
        status = known(&c, info.name);
    if (status == MNEM_OK) status = check_whole(&c);
    see_options(&c);
    for (int32_t i = 0; status == MNEM_OK && i < t->layers; i++)
        status = family->gpt2 ? check_layer_gpt2(&c, i) : check_layer(&c, i);
    return status;
}
