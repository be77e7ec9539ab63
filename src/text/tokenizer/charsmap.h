/* charsmap.h: SentencePiece's normalization of text, in the form of files
 * (precompiled_charsmap). */
#ifndef MNEM_SRC_TEXT_TOKENIZER_CHARSMAP_H
#define MNEM_SRC_TEXT_TOKENIZER_CHARSMAP_H

#include "text/tokenizer/token_source.h"

typedef struct mnem__charsmap {
    const char *units; /* of a double array, 4 bytes each */
    uint32_t count;    /* 0: none */
    const char *texts; /* replacements, each followed by a zero */
    size_t bytes;
} mnem__charsmap;

/* Allocates nothing; uses the source's bytes. */
mnem_status mnem__charsmap_init(mnem__charsmap *map, const mnem__token_source *source);
/* The longest prefix of text that is replaced: its bytes (0: none), and its replacement. */
size_t mnem__charsmap_find(const mnem__charsmap *map, const char *text, size_t n,
                           mnem_text *replaced);

#endif
