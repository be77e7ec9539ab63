/* token_set.h: a vocabulary in the order of its bytes.
 *
 * A trie needs no nodes: neighbours in that order share their beginnings, and how long they do is a
 * byte for each token. A walk goes through the list, keeps what it knows about the last token's
 * beginnings, and passes over all that share one that failed: each has a link to the next that
 * shares less.
 *
 * Most tokens are plain text: whole characters that JSON writes as they are. Inside a string that
 * admits any text these are all allowed, without a walk, so they are lists of their own:
 *
 *     MNEM__TOKENS_SHORT   plain, up to MNEM__SHORT_CHARACTERS
 *     MNEM__TOKENS_LONG    plain, up to MNEM__LONG_CHARACTERS
 *     MNEM__TOKENS_OTHER   longer, or with quotes, backslashes, controls or parts of characters */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_TOKEN_SET_H
#define MNEM_SRC_SAMPLING_GRAMMAR_TOKEN_SET_H

#include "mnem/grammar.h"
#include "text/tokenizer/tokenizer_private.h"

enum { MNEM__TOKENS_SHORT, MNEM__TOKENS_LONG, MNEM__TOKENS_OTHER, MNEM__TOKEN_LISTS };
enum { MNEM__SHORT_CHARACTERS = 12, MNEM__LONG_CHARACTERS = 32 };

/* What a token has more than it shares with the one before it lies behind that one's. */
typedef struct mnem__token_entry {
    uint32_t id, bytes;         /* bytes: where they begin in text */
    uint32_t next;              /* the first behind this one that shares less; count: none */
    uint8_t shared;             /* bytes that it begins with as the one before it does */
    uint8_t length, characters; /* characters: of plain ones */
} mnem__token_entry;

typedef struct mnem__token_list {
    mnem__token_entry *entry;
    uint32_t count, characters; /* characters: most of a token, of plain ones */
    uint64_t *mask;             /* of all; NULL of the last list */
} mnem__token_list;

struct mnem_token_set {
    const mnem_tokenizer *tokenizer;
    int32_t vocab, end;        /* end: beside the tokenizer's */
    uint32_t ending[64], ends; /* those that end a text */
    uint32_t count;            /* of those that print something, in all lists */
    mnem__token_list list[MNEM__TOKEN_LISTS];
    mnem__token_entry *entry; /* [count] the lists' */
    uint64_t *mask;           /* theirs, mask_words each */
    uint32_t mask_words;
    uint8_t *text;
};

bool mnem__token_ends(const mnem_token_set *set, int32_t id);
/* What a token prints. */
mnem_text mnem__token_bytes(const mnem_token_set *set, uint32_t id);

#endif
