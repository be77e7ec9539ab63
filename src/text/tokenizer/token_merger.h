/* token_merger.h: merges adjacent symbols of a word, the best pair first. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_TOKEN_MERGER_H
#define MNEM_SRC_TEXT_TOKENIZER_TOKEN_MERGER_H

#include "text/token/token_vocab.h"

typedef struct mnem__merger {
    uint32_t n, room; /* units (bytes) of the word; the room of the arrays */
    const char *text;
    int32_t *id;    /* of the symbol that starts here; -1: not a token */
    uint32_t *span; /* bytes of a symbol, at its first and its last byte */
    uint32_t *tree; /* [2 n] tournament over the keys of neighbouring pairs; the smallest wins */
} mnem__merger;

#define MNEM__NO_PAIR UINT32_MAX
/* The key of the adjacent symbols at left and right: the pair with the smallest key is merged
 * first, the leftmost of equals; MNEM__NO_PAIR: never. */
typedef uint32_t mnem__pair_key(const void *context, const mnem__merger *m, uint32_t left,
                                uint32_t right);
typedef struct mnem__merge_rule {
    mnem__pair_key *key;
    const void *context;
    const mnem__token_vocab *vocab; /* the tokens of symbols */
} mnem__merge_rule;

mnem_status mnem__merger_room(mnem__merger *m, size_t n);
void mnem__merger_fini(mnem__merger *m);
/* Makes the first symbols the characters; an invalid byte is a symbol too. The caller has set
 * text and n. */
void mnem__merger_characters(mnem__merger *m, const mnem__token_vocab *vocab);
/* Merges until no pair has a key. The caller has set text, n, and id and span of the first
 * symbols. */
void mnem__merger_run(mnem__merger *m, const mnem__merge_rule *rule);

#endif
