/* tokenizer_case.h: small vocabularies, and a look at the ids of a text. */
#ifndef MNEM_TESTS_TEXT_TOKENIZER_TOKENIZER_CASE_H
#define MNEM_TESTS_TEXT_TOKENIZER_TOKENIZER_CASE_H

#include <string.h>

#include "text/tokenizer/vocab_file.h"

#define FIXTURE MNEM_TEST_DATA "/model/kjv-5m-f16.gguf"

typedef struct opened {
    mnem_model *model;
    mnem_tokenizer *t;
} opened;

opened open_file(const char *path);
opened open_vocab(vocab_file *f);
void close_opened(opened *o);
void assert_ids(mnem_tokenizer *t, const char *text, size_t length, unsigned flags,
                const int32_t *expected, size_t n);
#define ASSERT_IDS(t, text, flags, ...)                                                            \
    assert_ids(t, text, strlen(text), flags, (const int32_t[]){__VA_ARGS__},                       \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Byte-level BPE of a few merges: ids as named, the bytes' before them. */
enum { BOS = 256, AB, ABC, BC, CHAT, CHATTER, USER, UNK, EXTRA };
vocab_file bpe_vocab(const char *pre);

/* SentencePiece-style; bytes: with tokens for bytes. */
#define MARK "\xE2\x96\x81"
enum { SPM_BYTES = 3, SPM_A = SPM_BYTES + 256, SPM_AB, SPM_B, SPM_SPACE, SPM_SPACE_A, SPM_PAIR };
vocab_file spm_vocab(bool bytes);

/* Gemma 4's: merges of marked text, with tokens for bytes. */
enum {
    MARKED_BYTES = 3,
    MARKED_A = MARKED_BYTES + 256,
    MARKED_B,
    MARKED_SPACE,
    MARKED_SPACE_A,
    MARKED_B_SPACE_A,
    MARKED_FEEDS
};
vocab_file marked_vocab(void);

/* A unigram model; bytes: with tokens for bytes, after the others. */
enum { UNI_SPACE = 3, UNI_A, UNI_AB, UNI_BC, UNI_C, UNI_SPACE_A, UNI_USER, UNI_BYTES };
vocab_file unigram_vocab(bool bytes);

/* WordPiece: [UNK], [CLS] and [SEP] at 100 to 102. */
enum { WP_UNK = 100, WP_CLS, WP_SEP, WP_HE, WP_HELLO, WP_LLO, WP_DOT, WP_E, WP_IDEOGRAPH };
vocab_file wordpiece_vocab(void);

#endif
