/* token_text.h: the texts and types of tokens in files. */
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

/* Special tokens with longer texts are never found in text. */
enum { MNEM__SPECIAL_BYTES_MAX = 256 };

/* Decodes a byte-level token's text; out has room for n bytes. Returns the number of bytes. */
size_t mnem__bpe_decode(const char *text, size_t n, char *out);
/* Whether a text has only characters of the byte-level alphabet. */
bool mnem__bpe_is_spelled(mnem_text text);
/* Encodes any bytes; out has room for 2 n bytes. Returns the number of bytes. */
size_t mnem__bpe_spell(const char *bytes, size_t n, char *out);
/* The character of a byte: at most 0x143. */
unsigned mnem__bpe_character(unsigned char byte);
/* Decodes the text of a SentencePiece-style token; out has room for n bytes. */
size_t mnem__spm_decode(const char *text, size_t n, char *out);
/* The byte of a text such as "<0xE2>", or -1. */
int mnem__byte_named(mnem_text text);

#endif
