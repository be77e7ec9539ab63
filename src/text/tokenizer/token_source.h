/* token_source.h: the keys of a tokenizer: of a model's file, or learned. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_TOKEN_SOURCE_H
#define MNEM_SRC_TEXT_TOKENIZER_TOKEN_SOURCE_H

#include "base/error.h"
#include "mnem/model.h"

typedef struct mnem__token_key {
    const char *name;
    mnem_value value;
} mnem__token_key;

typedef struct mnem__token_source {
    const mnem_model *model; /* NULL: these keys */
    const mnem__token_key *keys;
    uint32_t key_count;
    const char *pre;           /* instead of tokenizer.ggml.pre; NULL: that key */
    const char *chat_template; /* likewise of tokenizer.chat_template */
} mnem__token_source;

/* false: none. */
bool mnem__token_source_find(const mnem__token_source *source, const char *key, mnem_value *value);
/* Writes the keys; gives a checksum of their names and values. */
mnem_status mnem__token_source_write(const mnem__token_source *source, mnem_gguf_writer *writer);
uint64_t mnem__token_source_checksum(const mnem__token_source *source);

#endif
