/* spm.h: SentencePiece-style tokens, for a piece of text without special tokens. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_SPM_H
#define MNEM_SRC_TEXT_TOKENIZER_SPM_H

#include "text/tokenizer/token_source.h"
#include "text/tokenizer/token_work.h"

typedef struct mnem__spm {
    mnem_value scores;
} mnem__spm;

/* Allocates nothing. work->vocab must be set. */
mnem_status mnem__spm_init(mnem__spm *spm, const mnem__token_source *source,
                           const mnem__token_work *work);
/* space: adds one before the text. */
mnem_status mnem__spm_encode(const mnem__spm *spm, mnem__token_work *work, const char *text,
                             size_t n, bool space);
/* The end of the word that starts at begin: before the next space that follows another
 * character. */
size_t mnem__spm_word_end(const char *text, size_t n, size_t begin);

#endif
