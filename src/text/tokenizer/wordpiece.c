/* wordpiece.c: WordPiece tokens ("bert"): the longest token that a word begins with, and so on.
 *
 * The idea (Schuster and Nakajima, 2012; Devlin et al., 2019): text is normalized (accents taken
 * away, lower case, control characters dropped) and cut at white space; punctuation and ideographs
 * are words of their own. Files write the begin of a word as U+2581, here a space. A word that
 * tokens don't cover becomes the unknown token as a whole, so that text doesn't come back.
 * Cost: for each token of a word as many look-ups as the longest token has bytes, at most
 * PIECE_BYTES_MAX; no scratch but twice the text. */
#include "text/tokenizer/wordpiece.h"

#include "base/text/utf8.h"
#include "text/fold.h"

enum { PIECE_BYTES_MAX = 512 }; /* longer tokens aren't found */

/* The longest token that text (n > 0) starts with, or -1. */
static int32_t longest_match(const mnem__token_vocab *v, const char *text, size_t n,
                             size_t *length) {
    size_t most = v->longest < PIECE_BYTES_MAX ? v->longest : PIECE_BYTES_MAX;
    for (*length = n < most ? n : most; *length > 0; (*length)--) {
        const int32_t id = mnem__token_vocab_find(v, text, *length);
        if (id >= 0) return id;
    }
    return -1;
}

/* A word with the space before it; without any character it is none. */
static mnem_status add_word(mnem__token_work *w, const char *word, size_t n) {
    const size_t before = w->count;
    mnem_status status = MNEM_OK;
    if (n == 1) return MNEM_OK;
    for (size_t at = 0, length; at < n && status == MNEM_OK; at += length) {
        const int32_t id = longest_match(w->vocab, word + at, n - at, &length);
        if (id < 0) {
            w->count = before;
            return w->unknown >= 0 ? mnem__token_work_add(w, w->unknown) : MNEM_OK;
        }
        status = mnem__token_work_add(w, id);
    }
    return status;
}

/* The next character, or U+FFFD for a byte that is part of none. */
static uint32_t next_character(const char *text, size_t n, size_t *at) {
    const size_t length = mnem__utf8_length(text + *at, n - *at);
    const uint32_t code = length ? mnem__utf8_code(text + *at, length) : 0xFFFD;
    *at += length ? length : 1;
    return code;
}

/* As the tokens' bytes have it. */
static size_t put_character(const mnem__wordpiece *wp, uint32_t code, char *out) {
    if (wp->lower) code = mnem__fold_lower(code);
    return mnem__utf8_put(code == 0x2581 ? ' ' : code, out);
}

mnem_status mnem__wordpiece_encode(const mnem__wordpiece *wp, mnem__token_work *w, const char *text,
                                   size_t n) {
    mnem_status status = mnem__token_work_text(w, 2 * n + 1); /* none grows by more than half */
    if (status != MNEM_OK) return status;
    w->text[0] = ' ';
    size_t word = 1;
    for (size_t at = 0; at < n && status == MNEM_OK;) {
        uint32_t code = next_character(text, n, &at);
        if (wp->strips_accents) code = mnem__fold_base(code);
        const mnem__fold_class class = mnem__fold_class_of(code);
        const bool kept = class != MNEM__FOLD_DROPPED && class != MNEM__FOLD_SPACE &&
                          (class != MNEM__FOLD_MARK || !wp->strips_accents);
        const bool alone = class == MNEM__FOLD_ALONE;
        if (class == MNEM__FOLD_SPACE || alone) {
            status = add_word(w, w->text, word);
            word = 1;
        }
        if (kept) word += put_character(wp, code, w->text + word);
        if (!alone || status != MNEM_OK) continue;
        status = add_word(w, w->text, word);
        word = 1;
    }
    return status == MNEM_OK ? add_word(w, w->text, word) : status;
}
