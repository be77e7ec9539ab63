/* chat_private.h: the state of a chat, and the encoding of its history as tokens. */
#ifndef MNEM_SRC_ENGINE_CHAT_CHAT_PRIVATE_H
#define MNEM_SRC_ENGINE_CHAT_CHAT_PRIVATE_H

#include "engine/chat/chat_text.h"
#include "mnem/chat.h"

typedef struct mnem__answer {
    mnem_utf8_joiner joiner;
    mnem_on_text *on_text;
    void *context;
    int32_t next; /* the token chosen from the last logits */
    bool kept;    /* the history holds all of the text so far */
    uint64_t bytes;
} mnem__answer;

struct mnem_chat {
    mnem_opened opened;
    mnem_template *template; /* NULL: the text is continued without a template */
    char *arguments;
    mnem_sampler *sampler;
    mnem__chat_text said;
    uint64_t reserved_bytes; /* charged for renderings while none runs */
    int32_t *ids;            /* [room]; its first ids are those of the session's sequence */
    int32_t room;
    int32_t tokens;       /* the limit of an answer; 0: none */
    int32_t end;          /* one more token that ends an answer; -1: the tokenizer's only */
    int32_t fixed_tokens; /* tokens of a rendering without the user's message */
    mnem_chat_info info;
    mnem__answer answer;
};

/* open_template finds the template. Then, once the buffer of the history exists, try renders a
 * first message, and reserve stores the system text and charges what the longest rendering
 * takes. */
mnem_status mnem__chat_open_template(mnem_chat *chat, const char *source);
mnem_status mnem__chat_try(mnem_chat *chat, const char *system);
mnem_status mnem__chat_reserve(mnem_chat *chat, const char *system);
void mnem__chat_close_template(mnem_chat *chat);

/* Encodes the history up to the start of the next answer. *ids: borrowed until the next call. */
mnem_status mnem__chat_encode(mnem_chat *chat, const int32_t **ids, size_t *count);

#endif
