/* chat_private.h: a chat's state, and how its history becomes tokens. */
#ifndef MNEM_SRC_ENGINE_CHAT_CHAT_PRIVATE_H
#define MNEM_SRC_ENGINE_CHAT_CHAT_PRIVATE_H

#include "engine/chat/chat_text.h"
#include "mnem/chat.h"

typedef struct mnem__answer {
    mnem_utf8_joiner joiner;
    mnem_on_text *on_text;
    void *context;
    int32_t next; /* the token chosen from the last logits */
    bool kept;    /* the history has all of the text so far */
    uint64_t bytes;
} mnem__answer;

struct mnem_chat {
    mnem_opened opened;
    mnem_template *template; /* NULL: text is continued */
    char *arguments;
    mnem_sampler *sampler;
    mnem__chat_text said;
    uint64_t reserved_bytes; /* charged for renderings, when none is made */
    int32_t *ids;            /* [room]; the session's sequence is its beginning */
    int32_t room;
    int32_t tokens;       /* most of an answer; 0: no limit */
    int32_t end;          /* one more token that ends an answer; -1: only the tokenizer's */
    int32_t fixed_tokens; /* of a rendering besides what a user's message has */
    mnem_chat_info info;
    mnem__answer answer;
};

/* Finds the template; then, with the history's buffer there, tries a first message, takes the
 * system text in, and charges what the longest rendering takes. */
mnem_status mnem__chat_open_template(mnem_chat *chat, const char *source);
mnem_status mnem__chat_try(mnem_chat *chat, const char *system);
mnem_status mnem__chat_reserve(mnem_chat *chat, const char *system);
void mnem__chat_close_template(mnem_chat *chat);

/* The history as tokens, in front of an answer. Borrowed until the next call. */
mnem_status mnem__chat_encode(mnem_chat *chat, const int32_t **ids, size_t *count);

#endif
