/* bpe.h: BPE with a list of merges, for a piece of text without special tokens. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_BPE_H
#define MNEM_SRC_TEXT_TOKENIZER_BPE_H

#include "text/pretokenize.h"
#include "text/tokenizer/token_source.h"
#include "text/tokenizer/token_work.h"

typedef struct mnem__bpe {
    mnem_value merges;
    mnem__id_table ranks; /* (left id, right id) → rank, over the model's merges */
    uint32_t merge_count; /* that can apply */
    const mnem__pre_scheme *scheme;
    mnem__pretokenizer *pretokenizer; /* NULL where the scheme is marked */
} mnem__bpe;

/* work->vocab must be set; its text is scratch. fini frees what it took, also after an error. */
mnem_status mnem__bpe_init(mnem__bpe *bpe, const mnem__token_source *source,
                           const mnem__pre_scheme *scheme, mnem__token_work *work);
void mnem__bpe_fini(mnem__bpe *bpe);
mnem_status mnem__bpe_encode(const mnem__bpe *bpe, mnem__token_work *work, const char *text,
                             size_t n);

#endif
