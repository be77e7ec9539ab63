/* special_tokens.h: tokens with special texts ("<|im_end|>"), and those that end a text. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_SPECIAL_TOKENS_H
#define MNEM_SRC_TEXT_TOKENIZER_SPECIAL_TOKENS_H

#include "text/token/token_vocab.h"

typedef struct mnem__special_tokens {
    int32_t *id; /* sorted by their text, for the longest match */
    uint32_t count;
    uint32_t at[257]; /* the start of those with this first byte */
    int32_t end[MNEM__END_TOKENS_MAX];
    int ends;
    bool strips_after; /* white space after most of them is dropped */
} mnem__special_tokens;

/* The ids in a file; -1: none. */
typedef struct mnem__end_ids {
    int32_t eos, eot, eom;
} mnem__end_ids;

/* Collects them; tokens with texts that end a turn become control tokens. ids->eot is found by
 * its text if the file doesn't have it. The caller sets strips_after. */
mnem_status mnem__special_tokens_init(mnem__special_tokens *special, mnem__token_vocab *vocab,
                                      mnem__end_ids *ids);
void mnem__special_tokens_fini(mnem__special_tokens *special);
typedef enum mnem__special_kind {
    MNEM__SPECIAL_ANY,
    MNEM__SPECIAL_USER,    /* user-defined ones only */
    MNEM__SPECIAL_CONTROL, /* all others */
} mnem__special_kind;
/* The longest special token at the start of text (1 byte or more), or -1. */
int32_t mnem__special_tokens_match(const mnem__special_tokens *special,
                                   const mnem__token_vocab *vocab, mnem__special_kind kind,
                                   const char *text, size_t n, size_t *length);
/* The bytes of text after token id that are dropped. */
size_t mnem__special_tokens_skip(const mnem__special_tokens *special,
                                 const mnem__token_vocab *vocab, int32_t id, const char *text,
                                 size_t n);
bool mnem__special_tokens_is_end(const mnem__special_tokens *special, int32_t id);

#endif
