/* token_set.h: a vocabulary in the order of its bytes.
 *
 * A trie needs no nodes: neighbours in that order share their beginnings, and how long they do is a
 * byte for each token. A walk goes through the list, keeps what it knows about the last token's
 * beginnings, and passes over all that share one that failed. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_TOKEN_SET_H
#define MNEM_SRC_ENGINE_GRAMMAR_TOKEN_SET_H

#include "mnem/grammar.h"
#include "model/tokenizer/tokenizer_private.h"

struct mnem_token_set {
    const mnem_tokenizer *tokenizer;
    int32_t vocab, end;        /* end: beside the tokenizer's */
    uint32_t ending[64], ends; /* those that end a text */
    uint32_t count;            /* of those that print something */
    uint32_t *order;           /* [count] ids */
    uint8_t *shared; /* [count] bytes that a token begins with as the one before it does */
};

bool mnem__token_ends(const mnem_token_set *set, int32_t id);
/* What a token prints; for those of order, which all print something, without asking again. */
mnem_text mnem__token_bytes(const mnem_token_set *set, uint32_t id);
static inline mnem_text mnem__token_ordered(const mnem_token_set *set, uint32_t i) {
    return mnem__token_vocab_piece(&set->tokenizer->vocab, (int32_t)set->order[i]);
}

#endif
