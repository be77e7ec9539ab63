/* hf_vocab.h: a folder's vocabulary while it is read: tokens by id, merges in order.
 *
 *     tokenizer.json   tokenizer_json.c   tokens and merges as events, the small rest as trees
 *     tokenizer.model  sentencepiece.c    pieces with scores, if it isn't byte-level BPE
 *     other files      special_vocab.c    special tokens, tokens added around a text
 *                      pre_definitions.c  the name of a pre-tokenizer's definition
 *     hf_vocab.c       the keys of all of this */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_VOCAB_H
#define MNEM_SRC_MODEL_IMPORT_HF_VOCAB_H

#include "model/import/hf_config.h"

enum { MNEM__HF_TOKENS_MAX = 1 << 24 };

/* Types of tokens, numbered as in files. */
enum {
    MNEM__HF_NORMAL = 1,
    MNEM__HF_UNKNOWN,
    MNEM__HF_CONTROL,
    MNEM__HF_USER,
    MNEM__HF_UNUSED,
    MNEM__HF_BYTE
};

/* Contiguous texts. */
typedef struct mnem__texts {
    char *bytes;
    size_t used, room;
} mnem__texts;
/* *at: the position of the n bytes of text, followed by a zero. */
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
    int64_t vocab_size;          /* config.json's; 0: missing */
    int64_t most;                /* ids are below */
    uint32_t *merge;             /* the position of each in merge_texts */
    uint32_t merges, merge_room;
    mnem__hf_added *added; /* in the file's order */
    uint32_t addeds, added_room;
    /* of tokenizer.json; NULL: missing */
    const mnem__node *normalizer, *pre_tokenizer, *post_processor, *decoder;
    char model_type[16]; /* "BPE", "WordPiece"; "": no tokenizer.json */
    char continuing[8];  /* the prefix of tokens that continue a word: WordPiece's "##" */
    bool byte_fallback, ignore_merges;
    const mnem__node *config; /* tokenizer_config.json */
    bool words;               /* WordPiece's tokens */
    bool pieces;              /* SentencePiece's tokens: scores are used, merges are not */
    bool with_scores;         /* scores come from tokenizer.model */
    bool space_prefix;        /* a space is put before a text */
} mnem__hf_vocab;

void mnem__hf_vocab_free(mnem__hf_vocab *vocab);
/* Sets the text and type of an id. MNEM_BAD_FILE: an id out of range. */
mnem_status mnem__hf_vocab_set(mnem__hf_vocab *vocab, int64_t id, const char *text, size_t bytes,
                               uint8_t type, float score);
/* The added token with this text; -1: none. */
int64_t mnem__hf_vocab_added(const mnem__hf_vocab *vocab, const char *text);

/* MNEM_OK without tokens: there is no such file. */
mnem_status mnem__tokenizer_json_read(const char *folder, mnem__hf_vocab *vocab);
/* *found false: there is no such file. */
mnem_status mnem__sentencepiece_read(const char *folder, mnem__hf_vocab *vocab, bool *found);

enum { MNEM__PRE_NAME = 32 };
/* The name of the definition in tokenizer.json, preferring the family's usual names;
 * MNEM_UNSUPPORTED names the unknown part. */
mnem_status mnem__pre_definition_find(const char *folder, const mnem__hf_vocab *vocab,
                                      const mnem__hf_family *family, char name[MNEM__PRE_NAME]);

/* The same for WordPiece, which has only one definition. */
mnem_status mnem__pre_words_check(const char *folder, const mnem__hf_vocab *vocab,
                                  char name[MNEM__PRE_NAME]);

/* Adds the keys of special tokens, of tokens added around a text, and of the chat template. */
mnem_status mnem__hf_put_special(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config, const mnem__hf_vocab *vocab);

/* Adds all keys of a tokenizer. pre: the name of the pre-tokenizer; NULL: by its definition.
 * *tokens: the rows of the embedding that are used. */
mnem_status mnem__hf_put_tokenizer(mnem__folder *folder, const char *path,
                                   const mnem__hf_config *config, const char *pre, int64_t *tokens);

#endif
