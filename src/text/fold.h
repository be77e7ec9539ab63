/* fold.h: what BERT's normalization makes of characters. */
#ifndef MNEM_SRC_TEXT_FOLD_H
#define MNEM_SRC_TEXT_FOLD_H

#include <stddef.h>
#include <stdint.h>

typedef enum mnem__fold_class {
    MNEM__FOLD_OTHER,
    MNEM__FOLD_SPACE,   /* ends a word */
    MNEM__FOLD_DROPPED, /* control characters, and what stands for bytes that are none */
    MNEM__FOLD_MARK,    /* an accent */
    MNEM__FOLD_ALONE    /* a word of its own: punctuation, ideographs */
} mnem__fold_class;

mnem__fold_class mnem__fold_class_of(uint32_t code);
/* Without accents: the first character of its canonical decomposition. */
uint32_t mnem__fold_base(uint32_t code);
uint32_t mnem__fold_lower(uint32_t code);

#endif
