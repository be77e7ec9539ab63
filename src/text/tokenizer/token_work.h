/* token_work.h: what encoding works with, and the ids that it gives. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_TOKEN_WORK_H
#define MNEM_SRC_TEXT_TOKENIZER_TOKEN_WORK_H

#include "text/tokenizer/token_merger.h"

/* Zeros, and vocab and unknown, at first. */
typedef struct mnem__token_work {
    const mnem__token_vocab *vocab;
    int32_t unknown; /* for bytes without a token; -1: none */
    mnem__merger merger;
    char *text;
    size_t text_room;
    int32_t *ids;
    size_t count, room;
} mnem__token_work;

mnem_status mnem__token_work_add(mnem__token_work *work, int32_t id);
/* Adds the ids of bytes, the unknown one for those without. */
mnem_status mnem__token_work_add_bytes(mnem__token_work *work, const char *bytes, uint32_t n);
/* Adds the ids of the merger's symbols, and of those without one the ids of their bytes. */
mnem_status mnem__token_work_add_merged(mnem__token_work *work);
/* text holds at least n bytes afterwards; its content is lost. */
mnem_status mnem__token_work_text(mnem__token_work *work, size_t n);
/* Empties ids, and gives back what is over a few pages of them. */
void mnem__token_work_ids_trim(mnem__token_work *work);
/* The same of what isn't the caller's. */
void mnem__token_work_trim(mnem__token_work *work);
void mnem__token_work_fini(mnem__token_work *work);

#endif
