/* pre_schemes.h: what the names of pre-tokenizers mean. */
#ifndef MNEM_SRC_TEXT_PRE_SCHEMES_H
#define MNEM_SRC_TEXT_PRE_SCHEMES_H

#include <stdbool.h>
#include <stddef.h>

enum { MNEM__PATTERNS_MAX = 6 };

typedef struct mnem__pre_scheme {
    const char *names;                        /* a space between two */
    const char *patterns[MNEM__PATTERNS_MAX]; /* see pretokenize.c */
    bool whole_words;                         /* that are tokens aren't joined; marked: if they are
                                                 line feeds */
    bool bos;       /* text begins with BOS unless the file says otherwise */
    bool marked;    /* tokens are text with U+2581 for spaces, not bytes as characters, and words
                         end at line feeds only (no patterns) */
    bool force_bos; /* text begins with BOS although the file says otherwise */
} mnem__pre_scheme;

/* NULL: not known. */
const mnem__pre_scheme *mnem__pre_scheme_find(const char *name);
/* The names of scheme number index, NULL past the last. */
const char *mnem__pre_scheme_names(size_t index);

#endif
