/* model_copy.h: the model that ships, with a chat template and another context. */
#ifndef MNEM_TESTS_TOOLS_CHAT_MODEL_COPY_H
#define MNEM_TESTS_TOOLS_CHAT_MODEL_COPY_H

#include <stdint.h>

/* The path of the copy, which the next one overwrites. */
const char *model_copy(const char *template, uint32_t context);
/* The same, where this token is a control token. */
const char *model_copy_with(const char *template, uint32_t context, int32_t control);

#endif
