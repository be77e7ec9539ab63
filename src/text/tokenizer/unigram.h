/* unigram.h: tokens of a unigram model (T5, XLM-R), for a piece of text without special tokens. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_UNIGRAM_H
#define MNEM_SRC_TEXT_TOKENIZER_UNIGRAM_H

#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/token_work.h"

typedef struct mnem__unigram_cell mnem__unigram_cell;

typedef struct mnem__unigram {
    mnem_value scores;
    mnem__charsmap charsmap;
    bool space_prefix, merges_spaces; /* of the text, before its division into words */
    float unknown_score;
    uint32_t *begins; /* bits: hashes of tokens' prefixes */
    uint32_t begins_mask;
    mnem__unigram_cell *cells; /* one per end position in a word */
    size_t room;
} mnem__unigram;

/* work->vocab must be set, and the caller sets the flags. fini frees what it took, also after an
 * error. */
mnem_status mnem__unigram_init(mnem__unigram *unigram, const mnem__token_source *source,
                               const mnem__token_work *work);
void mnem__unigram_fini(mnem__unigram *unigram);
mnem_status mnem__unigram_encode(mnem__unigram *unigram, mnem__token_work *work, const char *text,
                                 size_t n);

#endif
