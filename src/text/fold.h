/* fold.h: the normalization of characters for BERT. */
#ifndef MNEM_SRC_TEXT_FOLD_H
#define MNEM_SRC_TEXT_FOLD_H

#include <stddef.h>
#include <stdint.h>

typedef enum mnem__fold_class {
    MNEM__FOLD_OTHER,
    MNEM__FOLD_SPACE,   /* ends a word */
    MNEM__FOLD_DROPPED, /* control characters, and replacements of invalid bytes */
    MNEM__FOLD_MARK,    /* an accent */
    MNEM__FOLD_ALONE    /* a separate word: punctuation, ideographs */
} mnem__fold_class;

mnem__fold_class mnem__fold_class_of(uint32_t code);
/* The character without accents: the first of its canonical decomposition. */
uint32_t mnem__fold_base(uint32_t code);
uint32_t mnem__fold_lower(uint32_t code);

#endif
