/* pre_schemes.h: the pre-tokenizers by name. */
#ifndef MNEM_SRC_TEXT_PRE_SCHEMES_H
#define MNEM_SRC_TEXT_PRE_SCHEMES_H

#include <stdbool.h>
#include <stddef.h>

enum { MNEM__PATTERNS_MAX = 6 };

typedef struct mnem__pre_scheme {
    const char *names;                        /* separated by spaces */
    const char *patterns[MNEM__PATTERNS_MAX]; /* see pretokenize.c */
    bool whole_words;                         /* that are tokens aren't joined; marked: if they are
                                                 line feeds */
    bool bos;                                 /* text begins with BOS by default */
    bool marked;    /* tokens are text with U+2581 for spaces, not bytes as characters, and words
                         end at line feeds only (no patterns) */
    bool force_bos; /* text always begins with BOS, whatever the file says */
} mnem__pre_scheme;

/* NULL: unknown. */
const mnem__pre_scheme *mnem__pre_scheme_find(const char *name);
/* The names of scheme number index, NULL past the last. */
const char *mnem__pre_scheme_names(size_t index);

#endif
