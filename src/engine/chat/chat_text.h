/* chat_text.h: what was said, as a JSON list of messages in one buffer, or as bare text.
 *
 *     [{"role":"system",...},  {"role":"user",...},{"role":"assistant",...},  {"role":"user",...},
 *     ^ stays when turns go    ^ turn[0]                                      ^ turn[1]
 *
 * A message is written in parts, and counts once it is ended. Bare text is what messages say, one
 * after another. Invariant: bytes < room, so that a zero has room behind it. */
#ifndef MNEM_SRC_ENGINE_CHAT_CHAT_TEXT_H
#define MNEM_SRC_ENGINE_CHAT_CHAT_TEXT_H

#include "mnem/model.h"

enum { MNEM__CHAT_TURNS_MAX = 1024 };

typedef struct mnem__chat_text {
    bool bare;
    char *text; /* [room] */
    size_t room, bytes;
    bool writes; /* a message has begun, up to tail */
    size_t tail;
    size_t system_bytes; /* that stay */
    size_t turn[MNEM__CHAT_TURNS_MAX];
    int turns;
} mnem__chat_text;

mnem_status mnem__chat_text_open(mnem__chat_text *t, size_t room, bool bare);
void mnem__chat_text_close(mnem__chat_text *t); /* zeros are fine */
/* Forgets everything, the system text too. */
void mnem__chat_text_clear(mnem__chat_text *t);
/* Forgets the turns. */
void mnem__chat_text_reset(mnem__chat_text *t);

/* The message that stays: before the first turn. false: there is no room for it. */
bool mnem__chat_text_system(mnem__chat_text *t, const char *text);
/* Begins a turn with a user's message. false: there is no room; nothing has changed. */
bool mnem__chat_text_user(mnem__chat_text *t, const char *text, size_t n);
/* The answer: begin, put as often as there is text, end. What has no room isn't kept, nor is what
 * comes behind it; false says so. */
bool mnem__chat_text_begin(mnem__chat_text *t);
bool mnem__chat_text_put(mnem__chat_text *t, const char *text, size_t n);
void mnem__chat_text_end(mnem__chat_text *t);

/* Bytes that a user's message takes, and that it could have if all turns were dropped. */
size_t mnem__chat_text_bytes(const mnem__chat_text *t, const char *text, size_t n);
size_t mnem__chat_text_most(const mnem__chat_text *t);
void mnem__chat_text_drop_oldest(mnem__chat_text *t);
void mnem__chat_text_take_back(mnem__chat_text *t); /* the last turn */
/* All messages that are whole, ended by a zero. Borrowed until the next call. */
mnem_text mnem__chat_text_all(mnem__chat_text *t);

#endif
