/* token_set.h: a vocabulary in the order of its bytes.
 *
 * This order is a trie without nodes: adjacent tokens share a prefix, whose length is a byte per
 * token. A walk goes through the list, keeps the states of the last token's prefixes, and skips
 * all tokens that share a failed prefix: each token has a link to the next one with a shorter
 * shared prefix.
 *
 * Most tokens are plain text: whole characters that JSON doesn't escape. Inside a string of any
 * text these are all allowed without a walk, so they have separate lists:
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

/* A token's bytes without those that it shares with the previous token follow the previous
 * token's. */
typedef struct mnem__token_entry {
    uint32_t id, bytes;         /* bytes: their position in text */
    uint32_t next;              /* the next one with a shorter shared prefix; count: none */
    uint8_t shared;             /* bytes of the prefix shared with the previous token */
    uint8_t length, characters; /* characters: of plain ones */
} mnem__token_entry;

typedef struct mnem__token_list {
    mnem__token_entry *entry;
    uint32_t count, characters; /* characters: most of a token, of plain ones */
    uint64_t *mask;             /* of all tokens; NULL for the last list */
} mnem__token_list;

struct mnem_token_set {
    const mnem_tokenizer *tokenizer;
    int32_t vocab, end;        /* end: besides the tokenizer's */
    uint32_t ending[64], ends; /* those that end a text */
    uint32_t count;            /* of tokens with bytes, in all lists */
    mnem__token_list list[MNEM__TOKEN_LISTS];
    mnem__token_entry *entry; /* [count] the lists' */
    uint64_t *mask;           /* theirs, mask_words each */
    uint32_t mask_words;
    uint8_t *text;
};

bool mnem__token_ends(const mnem_token_set *set, int32_t id);
/* The bytes of a token. */
mnem_text mnem__token_bytes(const mnem_token_set *set, uint32_t id);

#endif
