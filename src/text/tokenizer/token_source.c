/* token_source.c: see token_source.h. */
#include "text/tokenizer/token_source.h"

#include <string.h>

#include "base/file/checksum.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"

static const char pre_key[] = "tokenizer.ggml.pre", template_key[] = "tokenizer.chat_template";

static bool key_get(const mnem__token_source *s, uint32_t index, const char **name,
                    mnem_value *value) {
    if (index >= s->key_count) return false;
    *name = s->keys[index].name;
    *value = s->keys[index].value;
    return true;
}

/* Texts in place of what the keys say. */
enum { REPLACED = 2 };
static const char *replaced_get(const mnem__token_source *s, uint32_t i, const char **key) {
    *key = i ? template_key : pre_key;
    return i ? s->chat_template : s->pre;
}

static bool find_replaced(const mnem__token_source *s, const char *name, mnem_value *value) {
    for (uint32_t i = 0; i < REPLACED; i++) {
        const char *key, *text = replaced_get(s, i, &key);
        if (!text || strcmp(name, key) != 0) continue;
        *value = (mnem_value){.type = MNEM_VALUE_STRING, .count = 1, .text = {text, strlen(text)}};
        return true;
    }
    return false;
}

bool mnem__token_source_find(const mnem__token_source *s, const char *key, mnem_value *value) {
    if (find_replaced(s, key, value)) return true;
    if (s->model) return mnem_model_key_find(s->model, key, value);
    const char *name;
    for (uint32_t i = 0; key_get(s, i, &name, value); i++)
        if (strcmp(name, key) == 0) return true;
    return false;
}

static bool stored_key(const mnem__token_source *s, uint32_t *index, const char **name,
                       mnem_value *value) {
    static const char prefix[] = "tokenizer.";
    mnem_text text;
    if (!s->model) return key_get(s, (*index)++, name, value);
    while (mnem_model_key_get(s->model, (*index)++, &text, value)) {
        *name = text.bytes; /* a zero follows */
        if (strncmp(text.bytes, prefix, sizeof prefix - 1) == 0) return true;
    }
    return false;
}

/* The next key, *index is 0 at first: false past the last. What is replaced comes last. */
static bool next_key(const mnem__token_source *s, uint32_t *index, const char **name,
                     mnem_value *value) {
    mnem_value other;
    const uint32_t last = UINT32_MAX - REPLACED; /* from there on: what is replaced */
    while (*index < last && stored_key(s, index, name, value))
        if (!find_replaced(s, *name, &other)) return true;
    if (*index < last) *index = last;
    while (*index < UINT32_MAX) {
        const uint32_t i = (*index)++ - last;
        if (replaced_get(s, i, name)) return find_replaced(s, *name, value);
    }
    return false;
}

mnem_status mnem__token_source_write(const mnem__token_source *source, mnem_gguf_writer *writer) {
    const char *name;
    mnem_value value;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && next_key(source, &i, &name, &value);)
        status = mnem__gguf_write_key(writer, name, &value);
    return status;
}

static void add_text(mnem__checksum *sum, mnem_text text) {
    const uint64_t length = text.length;
    mnem__checksum_add(sum, &length, sizeof length);
    mnem__checksum_add(sum, text.bytes, text.length);
}

static void add_value(mnem__checksum *sum, const mnem_value *value) {
    const uint64_t head[] = {value->type, value->type == MNEM_VALUE_ARRAY ? value->element : 0,
                             value->count};
    mnem__checksum_add(sum, head, sizeof head);
    if (value->type == MNEM_VALUE_STRING)
        add_text(sum, value->text);
    else if (value->type != MNEM_VALUE_ARRAY)
        mnem__checksum_add(sum, &value->u, sizeof value->u);
    else if (value->element == MNEM_VALUE_STRING)
        for (uint64_t i = 0; i < value->count; i++) add_text(sum, mnem_value_text(value, i));
    else
        mnem__checksum_add(sum, value->elements,
                           value->count * mnem__gguf_value_bytes(value->element));
}

uint64_t mnem__token_source_checksum(const mnem__token_source *source) {
    const char *name;
    mnem_value value;
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (uint32_t i = 0; next_key(source, &i, &name, &value);) {
        add_text(&sum, (mnem_text){name, strlen(name)});
        add_value(&sum, &value);
    }
    return mnem__checksum_get(&sum);
}
