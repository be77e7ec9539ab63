/* adapter_match.c: which tensor of an adapter belongs to which of a model.
 *
 * Invariant: after a match every tensor of the adapter is one half of a whole pair, whose shapes
 * are those of the model's tensor. Cost: a search by name for each tensor. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/architecture/adapter_match.h"
#include "model/architecture/roles.h"
#include "model/gguf/gguf.h"

static const char *path_of(const mnem_model *model) {
    return mnem_model_file_path(model, 0);
}

static bool key_is(const mnem_model *adapter, const char *key, const char *text) {
    mnem_value value;
    return mnem_model_key_find(adapter, key, &value) && value.type == MNEM_VALUE_STRING &&
           strcmp(value.text.bytes, text) == 0;
}

static mnem_status check_kind(const mnem_model *model, const mnem_model *adapter) {
    mnem_model_info ours, theirs;
    mnem_value value;
    mnem_model_info_get(model, &ours);
    mnem_model_info_get(adapter, &theirs);
    if (!key_is(adapter, "general.type", "adapter") || !key_is(adapter, "adapter.type", "lora"))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: not a low-rank adapter (expected general.type \"adapter\" and "
                          "adapter.type \"lora\"); give the GGUF file of a LoRA adapter",
                          path_of(adapter));
    if (mnem_model_key_find(adapter, "adapter.alora.invocation_tokens", &value))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key adapter.alora.invocation_tokens: adapters that are active only "
                          "after given tokens (aLoRA) are not supported; use a LoRA adapter",
                          path_of(adapter));
    if (strcmp(ours.architecture, theirs.architecture) != 0) {
        char is[40], wanted[40];
        return mnem__fail(
            MNEM_INVALID,
            "%s: this adapter is for architecture \"%s\", but the model's is \"%s\"; use it with "
            "the model that it was trained on",
            path_of(adapter),
            mnem__gguf_printable(theirs.architecture, strlen(theirs.architecture), is, sizeof is),
            mnem__gguf_printable(ours.architecture, strlen(ours.architecture), wanted,
                                 sizeof wanted));
    }
    return MNEM_OK;
}

static mnem_status take_alpha(const mnem_model *adapter, double *alpha) {
    mnem_value value;
    *alpha = 0;
    if (!mnem_model_key_find(adapter, "adapter.lora.alpha", &value)) return MNEM_OK;
    if ((value.type != MNEM_VALUE_F32 && value.type != MNEM_VALUE_F64) || !isfinite(value.f))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key adapter.lora.alpha: is not a finite float; download or convert "
                          "the adapter again",
                          path_of(adapter));
    *alpha = value.f;
    return MNEM_OK;
}

/* ---- one tensor ---- */

static mnem_status wrong_name(const mnem_model *adapter, const char *name, const char *why) {
    char text[72];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: tensor %s: %s", path_of(adapter),
                      mnem__gguf_printable(name, strlen(name), text, sizeof text), why);
}

/* "NAME.lora_a": which half, and the length of NAME; 0: neither. */
static size_t split_name(const char *name, bool *is_b) {
    const size_t n = strlen(name);
    if (n <= 7 || (strcmp(name + n - 7, ".lora_a") && strcmp(name + n - 7, ".lora_b"))) return 0;
    *is_b = name[n - 1] == 'b';
    return n - 7;
}

static mnem_status take_half(const mnem_model *model, const mnem_model *adapter, uint32_t index,
                             mnem__adapter_pair *pairs) {
    mnem_tensor_info info;
    char name[128], text[72], wanted[72];
    int32_t layer;
    bool is_b;
    mnem_model_tensor_get(adapter, index, &info);
    const size_t length = split_name(info.name, &is_b);
    if (length == 0 || length >= sizeof name)
        return wrong_name(adapter, info.name,
                          "the name must end in .lora_a or .lora_b; convert the adapter with "
                          "llama.cpp's convert_lora_to_gguf.py");
    snprintf(name, sizeof name, "%.*s", (int)length, info.name);
    const mnem__role role = mnem__role_find(name, &layer);
    if (role == MNEM__ROLE_EMBEDDING || role == MNEM__ROLE_LAYER_TABLE ||
        role == MNEM__ROLE_STREAM_ROUTER)
        return wrong_name(
            adapter, info.name,
            role == MNEM__ROLE_STREAM_ROUTER
                ? "adapters of this tensor aren't supported; use an adapter without it"
                : "adapters of embeddings aren't supported; use an adapter without "
                  "them");
    const mnem_type_info *type = mnem_type_get(info.type);
    if (info.dims != 2 || !type || !type->is_weight)
        return wrong_name(adapter, info.name,
                          "expected a matrix (2 dimensions) of a supported type; convert the "
                          "adapter again");
    const int32_t to = mnem_model_tensor_find(model, name);
    if (to < 0)
        return mnem__fail(
            MNEM_INVALID,
            "%s: tensor %s: the model %s has no tensor %s; use the adapter with its own model",
            path_of(adapter), mnem__gguf_printable(info.name, strlen(info.name), text, sizeof text),
            path_of(model), mnem__gguf_printable(name, length, wanted, sizeof wanted));
    *(is_b ? &pairs[to].b : &pairs[to].a) = (int32_t)index;
    return MNEM_OK;
}

/* ---- pairs ---- */

static mnem_status wrong_shapes(const mnem_model *adapter, const mnem_tensor_info *w,
                                const mnem_tensor_info *a, const mnem_tensor_info *b) {
    return mnem__fail(MNEM_INVALID,
                      "%s: tensor %s is [%lld, %lld] in the model, but the adapter's A is [%lld, "
                      "%lld] and B [%lld, %lld]; use the adapter with its own model",
                      path_of(adapter), w->name, (long long)w->shape[0],
                      (long long)(w->dims > 1 ? w->shape[1] : 1), (long long)a->shape[0],
                      (long long)a->shape[1], (long long)b->shape[0], (long long)b->shape[1]);
}

static mnem_status check_pair(const mnem_model *model, const mnem_model *adapter, uint32_t index,
                              mnem__adapter_pair *pair) {
    mnem_tensor_info w, a, b;
    if (pair->a < 0 && pair->b < 0) return MNEM_OK;
    mnem_model_tensor_get(model, index, &w);
    if (pair->a < 0 || pair->b < 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: tensor %s has a .lora_%c, but no .lora_%c: the file is incomplete; "
                          "download it again",
                          path_of(adapter), w.name, pair->a < 0 ? 'b' : 'a',
                          pair->a < 0 ? 'a' : 'b');
    mnem_model_tensor_get(adapter, (uint32_t)pair->a, &a);
    mnem_model_tensor_get(adapter, (uint32_t)pair->b, &b);
    if (w.dims != 2 || a.shape[1] != w.shape[1] || b.shape[0] != w.shape[0] ||
        a.shape[0] != b.shape[1])
        return wrong_shapes(adapter, &w, &a, &b);
    const mnem_type_info *type = mnem_type_get(w.type);
    if (!type || !type->is_weight)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: tensor %s: adapters of a matrix of type %s are not supported; use a file of "
            "the model of another type, such as Q4_K or Q8_0",
            path_of(model), w.name, type ? type->name : "unknown");
    pair->rank = a.shape[0];
    return MNEM_OK;
}

mnem_status mnem__adapter_match(const mnem_model *model, const mnem_model *adapter, float scale,
                                mnem__adapter_pair *pairs) {
    mnem_model_info ours, theirs;
    double alpha;
    mnem_model_info_get(model, &ours);
    mnem_model_info_get(adapter, &theirs);
    for (uint32_t i = 0; i < ours.tensors; i++) pairs[i] = (mnem__adapter_pair){.a = -1, .b = -1};
    mnem_status status = check_kind(model, adapter);
    if (status == MNEM_OK) status = take_alpha(adapter, &alpha);
    for (uint32_t i = 0; i < theirs.tensors && status == MNEM_OK; i++)
        status = take_half(model, adapter, i, pairs);
    for (uint32_t i = 0; i < ours.tensors && status == MNEM_OK; i++) {
        status = check_pair(model, adapter, i, &pairs[i]);
        if (status == MNEM_OK && pairs[i].a >= 0)
            pairs[i].scale =
                (float)((double)scale * (alpha != 0 ? alpha / (double)pairs[i].rank : 1));
    }
    return status;
}
