/* gguf_recipe.c: see gguf_recipe.h. */
#include "model/gguf_recipe.h"

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "model/gguf/gguf_writer.h"

typedef struct cook {
    const recipe *r;
    mnem_gguf_writer *writer;
    const char *prefix;
    bool data; /* the second walk writes what the first declared */
    uint32_t random;
} cook;

mnem_value recipe_u32(uint32_t number) {
    return (mnem_value){.type = MNEM_VALUE_U32, .count = 1, .u = number};
}

mnem_value recipe_f32(float number) {
    return (mnem_value){.type = MNEM_VALUE_F32, .count = 1, .f = (double)number};
}

mnem_value recipe_text(const char *text) {
    return (mnem_value){.type = MNEM_VALUE_STRING, .count = 1, .text = {text, strlen(text)}};
}

/* name: ".block_count" or "general.architecture". */
static void put_key(const cook *c, const char *name, mnem_value value) {
    char key[96];
    const recipe *r = c->r;
    if (r->omit && strcmp(r->omit, name) == 0) return;
    if (r->key && strcmp(r->key, name) == 0) value = r->value;
    snprintf(key, sizeof key, "%s%s", name[0] == '.' ? c->prefix : "", name);
    must(mnem__gguf_write_key(c->writer, key, &value));
}

static bool is_gpt2(const recipe *r) {
    return r->architecture && strcmp(r->architecture, "gpt2") == 0;
}

static void put_keys(const cook *c, uint32_t embd, uint32_t ff) {
    const char *epsilon =
        is_gpt2(c->r) ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon";
    const char *const known[] = {"general.architecture",     ".block_count",
                                 ".embedding_length",        ".feed_forward_length",
                                 ".context_length",          ".attention.head_count",
                                 ".attention.head_count_kv", epsilon};
    put_key(c, "general.architecture", recipe_text(c->prefix));
    put_key(c, ".block_count", recipe_u32(2));
    put_key(c, ".embedding_length", recipe_u32(embd));
    put_key(c, ".feed_forward_length", recipe_u32(ff));
    put_key(c, ".context_length", recipe_u32(128));
    put_key(c, ".attention.head_count", recipe_u32(4));
    put_key(c, ".attention.head_count_kv", recipe_u32(2));
    put_key(c, epsilon, recipe_f32(1e-5f));
    if (c->r->window) put_key(c, ".attention.sliding_window", recipe_u32(c->r->window));
    for (size_t i = 0; c->r->key && i < sizeof known / sizeof *known; i++)
        if (strcmp(c->r->key, known[i]) == 0) return;
    if (c->r->key) put_key(c, c->r->key, c->r->value);
}

static void put_numbers(cook *c, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        c->random = c->random * 1664525 + 1013904223;
        float x = c->r->fill != 0 ? c->r->fill : (float)(int32_t)c->random / 2147483648.f;
        must(mnem__gguf_write_data(c->writer, &x, sizeof x));
    }
}

static void put_zeros(const cook *c, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++) must(mnem__gguf_write_data(c->writer, "", 1));
}

static uint64_t type_bytes(mnem_type type, int dims, const int64_t *shape) {
    uint64_t bytes = mnem_type_row_bytes(type, shape[dims - 1]);
    for (int i = 0; i < dims - 1; i++) bytes *= (uint64_t)shape[i];
    return bytes;
}

/* b 0: a vector of a. */
static void put_tensor(cook *c, const char *name, int64_t a, int64_t b) {
    const recipe *r = c->r;
    mnem_type type = MNEM_TYPE_F32;
    int dims = b ? 2 : 1;
    int64_t shape[4] = {a, b};
    if (r->omit && strcmp(r->omit, name) == 0) return;
    if (r->tensor && strcmp(r->tensor, name) == 0) {
        type = r->type;
        dims = r->dims;
        memcpy(shape, r->shape, sizeof shape);
    }
    if (!c->data)
        must(mnem__gguf_write_tensor(c->writer, name, type, dims, shape));
    else if (type == MNEM_TYPE_F32)
        put_numbers(c, type_bytes(type, dims, shape) / 4);
    else
        put_zeros(c, type_bytes(type, dims, shape));
}

static void put_layer(cook *c, int layer, int64_t embd, int64_t ff) {
    char name[64];
    int64_t kv = embd / 2;
#define NAME(rest) (snprintf(name, sizeof name, "blk.%d." rest, layer), name)
    put_tensor(c, NAME("attn_norm.weight"), embd, 0);
    put_tensor(c, NAME("attn_q.weight"), embd, embd);
    put_tensor(c, NAME("attn_k.weight"), kv, embd);
    put_tensor(c, NAME("attn_v.weight"), kv, embd);
    put_tensor(c, NAME("attn_output.weight"), embd, embd);
    put_tensor(c, NAME("ffn_norm.weight"), embd, 0);
    put_tensor(c, NAME("ffn_gate.weight"), ff, embd);
    put_tensor(c, NAME("ffn_up.weight"), ff, embd);
    put_tensor(c, NAME("ffn_down.weight"), embd, ff);
    if (c->r->biases) {
        put_tensor(c, NAME("attn_q.bias"), embd, 0);
        put_tensor(c, NAME("attn_k.bias"), kv, 0);
        put_tensor(c, NAME("attn_v.bias"), kv, 0);
    }
    if (c->r->out_bias) put_tensor(c, NAME("attn_output.bias"), embd, 0);
    if (c->r->qk_norm) {
        put_tensor(c, NAME("attn_q_norm.weight"), embd / 4, 0);
        put_tensor(c, NAME("attn_k_norm.weight"), embd / 4, 0);
    }
#undef NAME
}

static void put_layer_gpt2(cook *c, int layer, int64_t embd, int64_t ff) {
    char name[64];
#define NAME(rest) (snprintf(name, sizeof name, "blk.%d." rest, layer), name)
    put_tensor(c, NAME("attn_norm.weight"), embd, 0);
    put_tensor(c, NAME("attn_norm.bias"), embd, 0);
    put_tensor(c, NAME("attn_qkv.weight"), 2 * embd, embd);
    put_tensor(c, NAME("attn_qkv.bias"), 2 * embd, 0);
    put_tensor(c, NAME("attn_output.weight"), embd, embd);
    put_tensor(c, NAME("attn_output.bias"), embd, 0);
    put_tensor(c, NAME("ffn_norm.weight"), embd, 0);
    put_tensor(c, NAME("ffn_norm.bias"), embd, 0);
    put_tensor(c, NAME("ffn_up.weight"), ff, embd);
    put_tensor(c, NAME("ffn_up.bias"), ff, 0);
    put_tensor(c, NAME("ffn_down.weight"), embd, ff);
    put_tensor(c, NAME("ffn_down.bias"), embd, 0);
#undef NAME
}

/* Is the recipe's tensor one that the model has anyway? */
static bool is_extra(const recipe *r) {
    if (!r->tensor) return false;
    if (is_gpt2(r)) return strstr(r->tensor, "ffn_gate") || strstr(r->tensor, "rope_freqs");
    return strncmp(r->tensor, "blk.", 4) == 0
               ? !(r->tensor[4] < '2' && strstr("attn_norm.weight attn_q.weight attn_k.weight "
                                                "attn_v.weight attn_output.weight "
                                                "ffn_norm.weight ffn_gate.weight ffn_up.weight "
                                                "ffn_down.weight",
                                                r->tensor + 6))
               : strcmp(r->tensor, "token_embd.weight") != 0 &&
                     strcmp(r->tensor, "output_norm.weight") != 0 &&
                     strcmp(r->tensor, "output.weight") != 0;
}

static void put_tensors(cook *c, int64_t embd, int64_t ff) {
    put_tensor(c, "token_embd.weight", 40, embd);
    if (is_gpt2(c->r)) put_tensor(c, "position_embd.weight", 128, embd);
    for (int layer = 0; layer < 2; layer++)
        (is_gpt2(c->r) ? put_layer_gpt2 : put_layer)(c, layer, embd, ff);
    put_tensor(c, "output_norm.weight", embd, 0);
    if (is_gpt2(c->r)) put_tensor(c, "output_norm.bias", embd, 0);
    if (!c->r->tied) put_tensor(c, "output.weight", 40, embd);
    if (is_extra(c->r)) put_tensor(c, c->r->tensor, 1, 0);
}

void recipe_write(const recipe *r, const char *path) {
    cook c = {.r = r, .prefix = r->architecture ? r->architecture : "llama"};
    int32_t embd = r->embd ? r->embd : 64, ff = r->ff ? r->ff : 96;
    must(mnem_gguf_create(path, &c.writer));
    put_keys(&c, (uint32_t)embd, (uint32_t)ff);
    put_tensors(&c, embd, ff);
    c.data = true;
    put_tensors(&c, embd, ff);
    must(mnem_gguf_finish(c.writer));
}
