/* pretokenize.h: divides text into words across which byte-level BPE never merges. */
#ifndef MNEM_SRC_TEXT_PRETOKENIZE_H
#define MNEM_SRC_TEXT_PRETOKENIZE_H

#include "base/error.h"
#include "text/pre_schemes.h"

typedef struct mnem__pretokenizer mnem__pretokenizer;
mnem_status mnem__pretokenizer_create(const mnem__pre_scheme *scheme,
                                      mnem__pretokenizer **pretokenizer);
void mnem__pretokenizer_destroy(mnem__pretokenizer *pretokenizer);
typedef mnem_status mnem__on_word(void *context, size_t begin, size_t end);
/* Divides valid UTF-8 into contiguous words. */
mnem_status mnem__pretokenize(mnem__pretokenizer *pretokenizer, const char *text, size_t n,
                              mnem__on_word *on_word, void *context);

#endif
