/* chat_format.h: recognizes the known chat formats of templates and vocabularies. */
#ifndef MNEM_SRC_TEXT_TOKENIZER_CHAT_FORMAT_H
#define MNEM_SRC_TEXT_TOKENIZER_CHAT_FORMAT_H

#include "mnem/tokenizer.h"
#include "text/tokenizer/special_tokens.h"

mnem_chat_format mnem__chat_recognise(mnem_text chat_template);
/* For a file without a template. */
mnem_chat_format mnem__chat_of_tokens(const mnem__special_tokens *special,
                                      const mnem__token_vocab *vocab);

#endif
