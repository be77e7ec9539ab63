/* chat_format.h: which of the known ways to write a chat a template is. */
#ifndef MNEM_SRC_MODEL_TOKENIZER_CHAT_FORMAT_H
#define MNEM_SRC_MODEL_TOKENIZER_CHAT_FORMAT_H

#include "mnem/tokenizer.h"

mnem_chat_format mnem__chat_recognise(mnem_text chat_template);

#endif
