/* hf_vocab.h: a folder's vocabulary while it is read: tokens by id, merges in their order.
 *
 *     tokenizer.json   tokenizer_json.c   tokens and merges as events, the small rest as trees
 *     tokenizer.model  sentencepiece.c    pieces with their scores, when that isn't BPE of bytes
 *     the rest         special_vocab.c    which tokens are special, what is put around a text
 *                      pre_definitions.c  the name for a pre-tokenizer's definition
 *     hf_vocab.c       puts it together, as keys */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_VOCAB_H
#define MNEM_SRC_MODEL_IMPORT_HF_VOCAB_H

#include "model/import/hf_config.h"

enum { MNEM__HF_TOKENS_MAX = 1 << 24 };

/* Types of tokens, as files number them. */
enum {
    MNEM__HF_NORMAL = 1,
    MNEM__HF_UNKNOWN,
    MNEM__HF_CONTROL,
    MNEM__HF_USER,
    MNEM__HF_UNUSED,
    MNEM__HF_BYTE
};

/* Texts one behind another. */
typedef struct mnem__texts {
    char *bytes;
    size_t used, room;
} mnem__texts;
/* *at: where n bytes of text begin, a zero behind them. */
mnem_status mnem__texts_add(mnem__texts *texts, const char *text, size_t n, uint32_t *at);

typedef struct mnem__hf_token {
    uint32_t at, bytes; /* in texts */
    float score;
    uint8_t type; /* 0: no token has this id */
} mnem__hf_token;

typedef struct mnem__hf_added {
    uint32_t at, bytes, id;
    bool special;
} mnem__hf_added;

typedef struct mnem__hf_vocab {
    mnem__arena arena; /* trees */
    mnem__texts texts, merge_texts;
    mnem__hf_token *token;
    uint32_t tokens, token_room; /* the highest id + 1 */
    int64_t vocab_size;          /* config.json's, 0: it doesn't say */
    int64_t most;                /* ids are below */
    uint32_t *merge;             /* where each begins in merge_texts */
    uint32_t merges, merge_room;
    mnem__hf_added *added; /* in the file's order */
    uint32_t addeds, added_room;
    /* of tokenizer.json; NULL: it hasn't it */
    const mnem__node *normalizer, *pre_tokenizer, *post_processor, *decoder;
    char model_type[16]; /* "BPE", "WordPiece"; "": there is no tokenizer.json */
    char continuing[8];  /* what a token that begins no word begins with: WordPiece's "##" */
    bool byte_fallback, ignore_merges;
    const mnem__node *config; /* tokenizer_config.json */
    bool words;               /* WordPiece's tokens */
    bool pieces;              /* SentencePiece's tokens: scores count, merges don't */
    bool with_scores;         /* what tokenizer.model said */
    bool space_prefix;        /* a space is put before a text */
} mnem__hf_vocab;

void mnem__hf_vocab_free(mnem__hf_vocab *vocab);
/* The token of this id with a text and a type, in place of what it was. MNEM_BAD_FILE: an id that
 * no file has. */
mnem_status mnem__hf_vocab_set(mnem__hf_vocab *vocab, int64_t id, const char *text, size_t bytes,
                               uint8_t type, float score);
/* The added token with this text, -1. */
int64_t mnem__hf_vocab_added(const mnem__hf_vocab *vocab, const char *text);

/* MNEM_OK without tokens when there is no such file. */
mnem_status mnem__tokenizer_json_read(const char *folder, mnem__hf_vocab *vocab);
/* *found false: there is no such file. */
mnem_status mnem__sentencepiece_read(const char *folder, mnem__hf_vocab *vocab, bool *found);

enum { MNEM__PRE_NAME = 32 };
/* The name that files give the definition in tokenizer.json, for a family that is usually one of
 * its names; MNEM_UNSUPPORTED names what isn't known. */
mnem_status mnem__pre_definition_find(const char *folder, const mnem__hf_vocab *vocab,
                                      const mnem__hf_family *family, char name[MNEM__PRE_NAME]);

/* The same of WordPiece, which is cut in one way only. */
mnem_status mnem__pre_words_check(const char *folder, const mnem__hf_vocab *vocab,
                                  char name[MNEM__PRE_NAME]);

/* Keys of special tokens, of what is put around a text, and of the chat's template. */
mnem_status mnem__hf_put_special(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config, const mnem__hf_vocab *vocab);

/* All keys of a tokenizer. pre: the name of the pre-tokenizer, NULL by its definition.
 * *tokens: how many rows the embedding has use for. */
mnem_status mnem__hf_put_tokenizer(mnem__folder *folder, const char *path,
                                   const mnem__hf_config *config, const char *pre, int64_t *tokens);

#endif
