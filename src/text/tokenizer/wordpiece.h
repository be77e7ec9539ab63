/* wordpiece.h: WordPiece tokens (BERT), for a piece of text without special tokens. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_WORDPIECE_H
#define MNEM_SRC_TEXT_TOKENIZER_WORDPIECE_H

#include "text/tokenizer/token_work.h"

typedef struct mnem__wordpiece {
    bool lower, strips_accents; /* of text, before it is looked up */
} mnem__wordpiece;

mnem_status mnem__wordpiece_encode(const mnem__wordpiece *wordpiece, mnem__token_work *work,
                                   const char *text, size_t n);

#endif
