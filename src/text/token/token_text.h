/* token_text.h: how files write what tokens stand for, and of which kind they are. */
#ifndef MNEM_SRC_TEXT_TOKEN_TOKEN_TEXT_H
#define MNEM_SRC_TEXT_TOKEN_TOKEN_TEXT_H

#include "mnem/model.h"

/* tokenizer.ggml.token_type's numbers. */
typedef enum mnem__token_type {
    MNEM__TOKEN_NORMAL = 1,
    MNEM__TOKEN_UNKNOWN,
    MNEM__TOKEN_CONTROL,
    MNEM__TOKEN_USER,
    MNEM__TOKEN_UNUSED,
    MNEM__TOKEN_BYTE
} mnem__token_type;

/* Special tokens whose text is longer are never found in text. */
enum { MNEM__SPECIAL_BYTES_MAX = 256 };

/* What a byte-level token's text stands for; out has room for n bytes. Returns the bytes. */
size_t mnem__bpe_decode(const char *text, size_t n, char *out);
/* Whether a text is made of such characters only. */
bool mnem__bpe_is_spelled(mnem_text text);
/* The other way round, for any bytes: out has room for 2 n bytes. Returns the bytes. */
size_t mnem__bpe_spell(const char *bytes, size_t n, char *out);
/* The character that stands for a byte: at most 0x143. */
unsigned mnem__bpe_character(unsigned char byte);
/* What the text of a SentencePiece-style token stands for; out has room for n bytes. */
size_t mnem__spm_decode(const char *text, size_t n, char *out);
/* The byte that "<0xE2>" names, or -1. */
int mnem__byte_named(mnem_text text);

#endif
