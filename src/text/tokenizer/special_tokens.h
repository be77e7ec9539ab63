/* special_tokens.h: tokens that text names as a whole ("<|im_end|>"), and those that end it. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_SPECIAL_TOKENS_H
#define MNEM_SRC_TEXT_TOKENIZER_SPECIAL_TOKENS_H

#include "text/token/token_vocab.h"

typedef struct mnem__special_tokens {
    int32_t *id; /* sorted by their text, for the longest match */
    uint32_t count;
    uint32_t at[257]; /* where those with this first byte start */
    int32_t end[MNEM__END_TOKENS_MAX];
    int ends;
    bool strips_after; /* white space after most of them is left out */
} mnem__special_tokens;

/* What a file says of its ids; -1: nothing. */
typedef struct mnem__end_ids {
    int32_t eos, eot, eom;
} mnem__end_ids;

/* Collects them; tokens with texts that end a turn become control tokens. ids->eot is found by its
 * text where the file doesn't say it. strips_after is the caller's. */
mnem_status mnem__special_tokens_init(mnem__special_tokens *special, mnem__token_vocab *vocab,
                                      mnem__end_ids *ids);
void mnem__special_tokens_fini(mnem__special_tokens *special);
typedef enum mnem__special_kind {
    MNEM__SPECIAL_ANY,
    MNEM__SPECIAL_USER,    /* user-defined ones only */
    MNEM__SPECIAL_CONTROL, /* all but those */
} mnem__special_kind;
/* The longest special token that text (of 1 byte or more) starts with, or -1. */
int32_t mnem__special_tokens_match(const mnem__special_tokens *special,
                                   const mnem__token_vocab *vocab, mnem__special_kind kind,
                                   const char *text, size_t n, size_t *length);
/* Bytes of text after token id that aren't encoded. */
size_t mnem__special_tokens_skip(const mnem__special_tokens *special,
                                 const mnem__token_vocab *vocab, int32_t id, const char *text,
                                 size_t n);
bool mnem__special_tokens_is_end(const mnem__special_tokens *special, int32_t id);

#endif
