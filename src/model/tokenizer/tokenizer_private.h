/* tokenizer_private.h: a tokenizer's parts. Each file below uses those above it only:
 *
 *     special_tokens                    named as a whole
 *     token_merger, token_work          joining              token_source
 *     bpe, spm                          a piece of text → ids
 *     tokenizer                         the file's keys, and text cut at special tokens
 *
 * Below them are characters and words (src/model/text), and tokens and their bytes
 * (src/model/token); above them src/model/vocabulary, which learns one. Scratch grows with the
 * longest word: 16 bytes for each of its bytes. */
#ifndef MNEM_SRC_MODEL_TOKENIZER_TOKENIZER_PRIVATE_H
#define MNEM_SRC_MODEL_TOKENIZER_TOKENIZER_PRIVATE_H

#include "mnem/tokenizer.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/spm.h"

struct mnem_tokenizer {
    mnem__token_source source;
    mnem_tokenizer_info info;
    char pre[32];
    mnem_chat_format chat;
    mnem__token_vocab vocab;
    mnem__special_tokens special;
    union {
        mnem__bpe bpe; /* of vocab.bpe */
        mnem__spm spm;
    };
    mnem__token_work work;
};

mnem_status mnem__tokenizer_create_of(const mnem__token_source *source, mnem_tokenizer **tokenizer);
/* Another tokenizer of the same model or vocabulary, for another thread. */
mnem_status mnem__tokenizer_clone(const mnem_tokenizer *t, mnem_tokenizer **clone);

#endif
