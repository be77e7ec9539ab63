/* prune_keys.c: the keys of a pruned model: those of its source, but for numbers that changed.
 *
 * Where a key has a number for each layer, those of layers that went go too. What readers derive
 * from embedding / heads where a file doesn't say it (the length of a head, and of what is turned)
 * is said: that quotient is another one now; so is the scale of scores of Gemma 27B. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "model/architecture/hparams.h"
#include "model/convert/rewrite.h"
#include "model/convert/zeros.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "model/prune/prune_private.h"

#define KEY_TYPE    "general.file_type"
#define KEY_VERSION "general.quantization_version"

typedef struct keys {
    const mnem__prune_choice *choice;
    mnem_gguf_writer *writer;
    char prefix[80]; /* "llama." */
} keys;

static bool is_less(const mnem__prune_choice *c) {
    return c->options->pattern == MNEM_PRUNE_DENSE;
}

/* Keys that say what isn't true of the result. */
static bool is_left_out(const mnem__prune_choice *c, const char *key) {
    if (mnem__rewrite_drops(key) || strcmp(key, MNEM__GGUF_PATTERN) == 0) return true;
    if (c->recipe && (strcmp(key, KEY_TYPE) == 0 || strcmp(key, KEY_VERSION) == 0)) return true;
    return is_less(c) &&
           (strcmp(key, "general.size_label") == 0 || strcmp(key, "general.parameter_count") == 0);
}

/* What a key of the architecture says now, or -1: what it said. */
static int64_t new_number(const mnem__prune_choice *c, const char *name) {
    const struct {
        const char *name;
        int32_t from, to;
    } numbers[] = {{MNEM__KEY_HEADS, c->from.heads, c->to.heads},
                   {MNEM__KEY_KV_HEADS, c->from.kv_heads, c->to.kv_heads},
                   {MNEM__KEY_FF, c->from.ff, c->to.ff},
                   {MNEM__KEY_LAYERS, c->from.layers, c->to.layers}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0 && numbers[i].from != numbers[i].to)
            return numbers[i].to;
    return -1;
}

/* A number for each layer: those of layers that stay; 0 stays 0 (a layer that has none). */
static mnem_status write_layers(const keys *k, const char *key, const mnem_value *value,
                                int64_t number) {
    const mnem__prune_choice *c = k->choice;
    const uint32_t size = mnem__gguf_value_bytes(value->element);
    const uint8_t *from = value->elements;
    uint8_t *to = mnem__calloc("prune", (size_t)c->to.layers, size);
    if (!to) return mnem__heap_status();
    for (int32_t i = 0; i < c->to.layers; i++) {
        const int32_t layer = c->layers[i];
        const bool is_new = number >= 0 && mnem_value_i64(value, (uint64_t)layer) != 0;
        const void *element = is_new ? (const void *)&number : from + (size_t)layer * size;
        memcpy(to + (size_t)i * size, element, size);
    }
    mnem_value made = *value;
    made.elements = to;
    made.count = (uint64_t)c->to.layers;
    const mnem_status status = mnem__gguf_write_key(k->writer, key, &made);
    mnem__free(to);
    return status;
}

static mnem_status write_key(const keys *k, const char *key, const mnem_value *value) {
    const mnem__prune_choice *c = k->choice;
    const size_t length = strlen(k->prefix);
    if (is_left_out(c, key)) return MNEM_OK;
    if (strncmp(key, k->prefix, length) != 0) return mnem__gguf_write_key(k->writer, key, value);
    const int64_t number = new_number(c, key + length);
    if (value->type == MNEM_VALUE_ARRAY && mnem__gguf_value_bytes(value->element) &&
        value->count == (uint64_t)c->from.layers)
        return write_layers(k, key, value, number);
    mnem_value made = *value;
    if (number >= 0) made.i = number;
    return mnem__gguf_write_key(k->writer, key, &made);
}

/* What isn't said and would follow from the number of heads. */
static mnem_status write_lengths(const keys *k) {
    const mnem__prune_choice *c = k->choice;
    const struct {
        const char *name;
        int32_t value;
    } lengths[] = {{MNEM__KEY_KEY_LENGTH, c->from.head_dim},
                   {MNEM__KEY_VALUE_LENGTH, c->from.head_dim},
                   {MNEM__KEY_ROPE_DIMS, c->architecture->turn ? c->from.rope.dims : 0}};
    mnem_status status = MNEM_OK;
    mnem_value value;
    char key[160];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && status == MNEM_OK; i++) {
        snprintf(key, sizeof key, "%s%s", k->prefix, lengths[i].name);
        if (lengths[i].value && !mnem_model_key_find(c->model, key, &value))
            status = mnem__gguf_write_key_u32(k->writer, key, (uint32_t)lengths[i].value);
    }
    return status;
}

/* Readers take another scale of scores where a model has just so many layers: what is not said and
 * would be another one now. */
static mnem_status write_scale(const keys *k) {
    const mnem__prune_choice *c = k->choice;
    const int32_t layers = c->architecture->split_scale_layers;
    mnem_value value;
    char key[160];
    snprintf(key, sizeof key, "%sattention.scale", k->prefix);
    if (layers == 0 || (c->from.layers != layers && c->to.layers != layers)) return MNEM_OK;
    if (mnem_model_key_find(c->model, key, &value)) return MNEM_OK;
    return mnem__gguf_write_key_f32(
        k->writer, key,
        c->from.attention_scale > 0 ? c->from.attention_scale : 1 / sqrtf((float)c->from.head_dim));
}

/* Whether the matrices are 2:4 now. Those of a source that is lose whole rows and heads, which
 * leaves the fours that are beside each other; but columns of channels one by one. */
static bool is_2_4(const mnem__prune_choice *c) {
    mnem__prune_cut cut;
    mnem_model_info info;
    if (!is_less(c)) return true;
    if (!mnem__gguf_says_2_4(c->model) || c->options->ffn > 0 || c->from.head_dim % 4 != 0)
        return false;
    mnem_model_info_get(c->model, &info);
    for (uint32_t i = 0; i < info.tensors; i++)
        if (mnem__prune_cut_get(c, i, &cut) != MNEM_OK ||
            (!cut.dropped && !mnem__zeros_stay(&cut.tensor, cut.to)))
            return false;
    return true;
}

mnem_status mnem__prune_keys(const mnem__prune_choice *c, mnem_gguf_writer *writer) {
    keys k = {.choice = c, .writer = writer};
    mnem_text key;
    mnem_value value;
    mnem_status status = MNEM_OK;
    mnem_model_key_find(c->model, "general.architecture", &value);
    snprintf(k.prefix, sizeof k.prefix, "%s.", value.text.bytes);
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_key_get(c->model, i, &key, &value); i++)
        status = write_key(&k, key.bytes, &value);
    if (status == MNEM_OK && c->to.heads != c->from.heads) status = write_lengths(&k);
    if (status == MNEM_OK && is_less(c)) status = write_scale(&k);
    if (status == MNEM_OK && c->recipe)
        status = mnem__gguf_write_key_u32(writer, KEY_TYPE, c->recipe->file_type);
    if (status == MNEM_OK && c->recipe) status = mnem__gguf_write_key_u32(writer, KEY_VERSION, 2);
    if (status == MNEM_OK && is_2_4(c))
        status = mnem_gguf_key_text(writer, MNEM__GGUF_PATTERN, MNEM__GGUF_PATTERN_2_4);
    if (status == MNEM_OK && c->options->compact) status = mnem__gguf_compact_key(writer);
    return status;
}
