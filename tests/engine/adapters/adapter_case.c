/* adapter_case.c: see adapter_case.h. */
#include "engine/adapters/adapter_case.h"

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "model/gguf/gguf_writer.h"

/* F32 where a row has no whole blocks of the recipe's type. */
static mnem_type type_of(const adapter_recipe *r, int64_t k) {
    return mnem_type_row_bytes(r->type, k) ? r->type : MNEM_TYPE_F32;
}

static void put_matrix(mnem_gguf_writer *w, const adapter_recipe *r, uint32_t *state, int64_t rows,
                       int64_t k) {
    static float row[1024];
    static uint8_t bytes[4096];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < k; j++) {
            *state = *state * 1664525u + 1013904223u;
            row[j] = (float)((double)(*state >> 8) / 16777216.0 - 0.5) * 0.25f;
        }
        must(mnem_quantize_row(type_of(r, k), k, row, bytes));
        must(mnem__gguf_write_data(w, bytes, mnem_type_row_bytes(type_of(r, k), k)));
    }
}

/* Matrices that a product reads: no tables, no weights of a convolution, nothing of each expert. */
static bool is_wanted(const adapter_recipe *r, const mnem_tensor_info *info) {
    static const char *const others[] = {"_embd", ".conv.", "_exps.",   "_conv1d",
                                         "ssm_a", "ssm_d",  "ssm_norm", "altup_router"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(info->name, others[i])) return false;
    return info->dims == 2 && (!r->only || strstr(info->name, r->only));
}

static void put_name(const adapter_recipe *r, const char *name, int32_t first, char half,
                     char *out) {
    snprintf(out, 120, "%s.lora_%c", r->rename && first ? r->rename : name, half);
}

/* Names first, then numbers, of every matrix that the recipe wants. */
static void put_tensors(mnem_gguf_writer *w, const mnem_model *model, const adapter_recipe *r) {
    mnem_tensor_info info;
    uint32_t state = r->seed;
    for (int numbers = 0; numbers < 2; numbers++) {
        int32_t first = 1;
        for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
            if (!is_wanted(r, &info)) continue;
            const int64_t a[2] = {r->rank, info.shape[1]};
            const int64_t b[2] = {info.shape[0] + r->more_rows, r->rank};
            char name[120];
            if (numbers) {
                put_matrix(w, r, &state, a[0], a[1]);
                put_matrix(w, r, &state, b[0], b[1]);
                continue;
            }
            put_name(r, info.name, first, 'a', name);
            must(mnem__gguf_write_tensor(w, name, type_of(r, a[1]), 2, a));
            put_name(r, info.name, first, 'b', name);
            must(mnem__gguf_write_tensor(w, name, type_of(r, b[1]), 2, b));
            first = 0;
        }
    }
}

static void put_text(mnem_gguf_writer *w, const char *key, const char *text) {
    const mnem_value value = {.type = MNEM_VALUE_STRING, .count = 1, .text = {text, strlen(text)}};
    must(mnem__gguf_write_key(w, key, &value));
}

void adapter_make(const char *path, const char *to, const adapter_recipe *r) {
    mnem_model *model;
    mnem_model_info info;
    mnem_gguf_writer *w;
    must(mnem_model_open(path, &model));
    mnem_model_info_get(model, &info);
    must(mnem_gguf_create(to, &w));
    put_text(w, "general.architecture", info.architecture);
    put_text(w, "general.type", r->kind ? r->kind : "adapter");
    put_text(w, "adapter.type", "lora");
    must(mnem__gguf_write_key_f32(w, "adapter.lora.alpha", 3));
    put_tensors(w, model, r);
    must(mnem_gguf_finish(w));
    mnem_model_close(model);
}

/* Convolutions, latents, routers, shared experts, windows, sinks, fused and normed products. */
const char *const adapter_families[ADAPTER_FAMILIES] = {
    "lfm2",           "deepseek2",      "deepseek2-large", "qwen2moe",
    "qwen3moe",       "qwen3vlmoe",     "granitemoe",      "granite-shared",
    "lfm2moe",        "glm4moe",        "minimax-m2",      "qwen2vl",
    "qwen3vl",        "gpt-oss",        "mixtral",         "olmoe",
    "olmo2",          "gemma2",         "gemma3",          "phi3",
    "glm4",           "granite",        "smollm3",         "mistral3",
    "starcoder2",     "ernie4_5",       "seed_oss",        "gemma",
    "dots1",          "ernie4_5-moe",   "ernie4_5-shared", "hunyuan-dense",
    "exaone4",        "command-r",      "cohere2",         "arcee",
    "nemotron",       "hunyuan-moe",    "deepseek32",      "glm-dsa",
    "qwen35",         "qwen35moe",      "qwen3next",       "mamba",
    "mamba2",         "granitehybrid",  "granite-h-moe",   "falcon-h1",
    "gemma4",         "nemotron_h",     "bailingmoe",      "bailingmoe2",
    "exaone-moe",     "hy_v3",          "afmoe",           "cohere2moe",
    "cohere2-shared", "gemma4-moe",     "jamba",           "mimo2",
    "kimi-linear",    "nemotron_h_moe", "nemotron-latent", "mistral4",
    "llama4",         "phimoe",         "apertus",         "granite_swa",
    "smallthinker",   "step35",         "laguna",          "gemma3n",
    "qwen3next-qkvz", "mimo2-qkv",      "granswa-moe",     "granswa-shared",
    "bamba"};

void adapter_family(const char *to, const char *family, const char *type) {
    char arguments[160];
    snprintf(arguments, sizeof arguments,
             "--arch %s --heads 4 --kv-heads 2 --layers 3 --experts 8 --experts-used 3 "
             "--ff-expert 32 --ff-shared 32 --type %s",
             family, type);
    make_model(to, arguments);
}
