/* token_vocab.h: tables between ids and their bytes.
 *
 * Texts of tokens stay in the model; the tables add
 *
 *     piece_at [count + 1], piece_bytes   the bytes of each token (decoded once)
 *     table    4-byte slots               bytes → id, for tokens that text can become
 */
#ifndef MNEM_SRC_TEXT_TOKEN_TOKEN_VOCAB_H
#define MNEM_SRC_TEXT_TOKEN_TOKEN_VOCAB_H

#include "base/text/id_table.h"
#include "text/token/token_text.h"

enum { MNEM__END_TOKENS_MAX = 48 };

typedef struct mnem__token_vocab {
    mnem_value tokens, types; /* types.count 0: all normal */
    bool spelled;             /* bytes as characters; else text with U+2581 for spaces */
    bool words;               /* no token has a space after something else: spm.c */
    char *piece_bytes;
    uint32_t *piece_at;
    mnem__id_table table;
    int32_t byte_id[256]; /* -1: no token for this byte */
    uint32_t longest;     /* bytes of the longest piece in the table */
    int32_t forced
        [MNEM__END_TOKENS_MAX]; /* control tokens by their text, although the file says normal */
    int forceds;
} mnem__token_vocab;

/* The caller has set tokens, types and spelled. fini frees what it took, also after an error. */
mnem_status mnem__token_vocab_init(mnem__token_vocab *vocab);
void mnem__token_vocab_fini(mnem__token_vocab *vocab);
mnem_text mnem__token_vocab_piece(const mnem__token_vocab *vocab, int32_t id);
/* The text as in the file. */
mnem_text mnem__token_vocab_text(const mnem__token_vocab *vocab, int32_t id);
mnem__token_type mnem__token_vocab_type(const mnem__token_vocab *vocab, int32_t id);
/* The token with exactly these bytes that text can become, or -1. */
int32_t mnem__token_vocab_find(const mnem__token_vocab *vocab, const char *bytes, size_t n);
/* Makes it a control token from now on. */
void mnem__token_vocab_force(mnem__token_vocab *vocab, int32_t id);

#endif
