/* charsmap.h: SentencePiece's normalization of text, as files hold it (precompiled_charsmap). */
#ifndef MNEM_SRC_TEXT_TOKENIZER_CHARSMAP_H
#define MNEM_SRC_TEXT_TOKENIZER_CHARSMAP_H

#include "text/tokenizer/token_source.h"

typedef struct mnem__charsmap {
    const char *units; /* of a double array, 4 bytes each */
    uint32_t count;    /* 0: there is none */
    const char *texts; /* what characters become, a zero after each */
    size_t bytes;
} mnem__charsmap;

/* Takes nothing; the source's bytes stay. */
mnem_status mnem__charsmap_init(mnem__charsmap *map, const mnem__token_source *source);
/* The longest beginning of text that becomes something else: its bytes (0: none), and what. */
size_t mnem__charsmap_find(const mnem__charsmap *map, const char *text, size_t n,
                           mnem_text *replaced);

#endif
