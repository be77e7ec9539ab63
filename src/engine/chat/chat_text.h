/* chat_text.h: the history of a chat, as a JSON list of messages in one buffer, or as bare text.
 *
 *     [{"role":"system",...},  {"role":"user",...},{"role":"assistant",...},  {"role":"user",...},
 *     ^ stays without turns    ^ turn[0]                                      ^ turn[1]
 *
 * A message is written in parts, and belongs to the history once it is ended. Bare text is the
 * contents of the messages, one after another. Invariant: bytes < room, which leaves room for a
 * terminating zero. */
#ifndef MNEM_SRC_ENGINE_CHAT_CHAT_TEXT_H
#define MNEM_SRC_ENGINE_CHAT_CHAT_TEXT_H

#include "mnem/model.h"

enum { MNEM__CHAT_TURNS_MAX = 1024 };

typedef struct mnem__chat_text {
    bool bare;
    char *text; /* [room] */
    size_t room, bytes;
    bool writes; /* a message was begun; it reaches up to tail */
    size_t tail;
    size_t system_bytes; /* of the system text, which stays */
    size_t turn[MNEM__CHAT_TURNS_MAX];
    int turns;
} mnem__chat_text;

mnem_status mnem__chat_text_open(mnem__chat_text *t, size_t room, bool bare);
void mnem__chat_text_close(mnem__chat_text *t); /* accepts a zeroed object */
/* Removes everything, including the system text. */
void mnem__chat_text_clear(mnem__chat_text *t);
/* Removes the turns. */
void mnem__chat_text_reset(mnem__chat_text *t);

/* Sets the system text, before the first turn. false: it doesn't fit. */
bool mnem__chat_text_system(mnem__chat_text *t, const char *text);
/* Begins a turn with a user's message. false: it doesn't fit, and nothing has changed. */
bool mnem__chat_text_user(mnem__chat_text *t, const char *text, size_t n);
/* Adds the answer: begin, then put for each piece of text, then end. false: this piece doesn't fit;
 * it and all later pieces are dropped. */
bool mnem__chat_text_begin(mnem__chat_text *t);
bool mnem__chat_text_put(mnem__chat_text *t, const char *text, size_t n);
void mnem__chat_text_end(mnem__chat_text *t);

/* The bytes that a user's message takes, and the most that fit if all turns were dropped. */
size_t mnem__chat_text_bytes(const mnem__chat_text *t, const char *text, size_t n);
size_t mnem__chat_text_most(const mnem__chat_text *t);
void mnem__chat_text_drop_oldest(mnem__chat_text *t);
void mnem__chat_text_take_back(mnem__chat_text *t); /* the last turn */
/* All complete messages, terminated by a zero. Borrowed until the next call. */
mnem_text mnem__chat_text_all(mnem__chat_text *t);

#endif
