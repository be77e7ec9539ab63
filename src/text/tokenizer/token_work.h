/* token_work.h: the scratch of encoding, and its resulting ids. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_TOKEN_WORK_H
#define MNEM_SRC_TEXT_TOKENIZER_TOKEN_WORK_H

#include "text/tokenizer/token_merger.h"

/* Start with zeros, and vocab and unknown set. */
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
/* Appends the ids of bytes; the unknown one for bytes without an id. */
mnem_status mnem__token_work_add_bytes(mnem__token_work *work, const char *bytes, uint32_t n);
/* Appends the ids of the merger's symbols; for symbols without an id, those of their bytes. */
mnem_status mnem__token_work_add_merged(mnem__token_work *work);
/* Makes room for n bytes of text; its content is lost. */
mnem_status mnem__token_work_text(mnem__token_work *work, size_t n);
/* Empties ids, and frees their memory beyond a few pages. */
void mnem__token_work_ids_trim(mnem__token_work *work);
/* The same for the scratch. */
void mnem__token_work_trim(mnem__token_work *work);
void mnem__token_work_fini(mnem__token_work *work);

#endif
