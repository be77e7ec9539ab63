/* tokenizer_private.h: the parts of a tokenizer. Each file uses only those above it:
 *
 *     special_tokens                    tokens with special texts
 *     token_merger, token_work          merging              token_source
 *     bpe, spm, unigram, wordpiece      a piece of text → ids          charsmap
 *     tokenizer                         the file's keys, and the division of text at special tokens
 *
 * Below them are characters and words (src/text), and tokens and their bytes
 * (src/text/token); above them src/text/vocabulary, which learns one. Scratch grows with the
 * longest word: 16 bytes for each of its bytes. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_TOKENIZER_PRIVATE_H
#define MNEM_SRC_TEXT_TOKENIZER_TOKENIZER_PRIVATE_H

#include "mnem/tokenizer.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/wordpiece.h"

/* tokenizer.ggml.model */
typedef enum mnem__token_model {
    MNEM__MODEL_BPE,
    MNEM__MODEL_SPM,
    MNEM__MODEL_UNIGRAM,
    MNEM__MODEL_WORDPIECE
} mnem__token_model;

struct mnem_tokenizer {
    mnem__token_source source;
    mnem_tokenizer_info info;
    char pre[32];
    const mnem__pre_scheme *scheme; /* of BPE */
    mnem__token_model model;
    int32_t last; /* added after a text; -1: none */
    mnem_chat_format chat;
    mnem__token_vocab vocab;
    mnem__special_tokens special;
    union {
        mnem__bpe bpe;
        mnem__spm spm;
        mnem__unigram unigram;
        mnem__wordpiece wordpiece;
    };
    mnem__token_work work;
};

mnem_status mnem__tokenizer_create_of(const mnem__token_source *source, mnem_tokenizer **tokenizer);
/* Makes another tokenizer of the same model or vocabulary, for another thread. */
mnem_status mnem__tokenizer_clone(const mnem_tokenizer *t, mnem_tokenizer **clone);
/* The bytes of the longest control token at the start of text (1 byte or more); 0: none. */
size_t mnem__tokenizer_control(const mnem_tokenizer *t, const char *text, size_t n);

#endif
