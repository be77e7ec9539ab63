/* vocab_file.h: GGUF files of keys only, made in memory, right or wrong, for the tokenizer's
 * tests. */
#ifndef MNEM_TESTS_TEXT_TOKENIZER_VOCAB_FILE_H
#define MNEM_TESTS_TEXT_TOKENIZER_VOCAB_FILE_H

#include "mnem/tokenizer.h"

typedef struct vocab_file {
    unsigned char *bytes;
    size_t n, room;
    uint64_t keys;
} vocab_file;

void vocab_key_text(vocab_file *f, const char *key, const char *text);
void vocab_key_u32(vocab_file *f, const char *key, uint32_t number);
void vocab_key_bool(vocab_file *f, const char *key, bool flag);
void vocab_key_numbers(vocab_file *f, const char *key, mnem_value_type type, const void *numbers,
                       uint64_t count); /* i32 or f32 */
void vocab_key_bytes(vocab_file *f, const char *key, const unsigned char *bytes, uint64_t count);
void vocab_key_texts(vocab_file *f, const char *key, const char *const *texts, uint64_t count);
void vocab_key_pieces(vocab_file *f, const char *key, const mnem_text *texts, uint64_t count);
/* Opens what was written, and forgets it. */
mnem_status vocab_open(vocab_file *f, mnem_model **model);

/* The 256 byte tokens as a file writes them, then the extra ones (up to NULL); returns the
 * count. */
enum { VOCAB_BYTES = 256, VOCAB_MAX = 512 };
size_t vocab_byte_texts(const char *const *extra, const char *texts[VOCAB_MAX]);

#endif
