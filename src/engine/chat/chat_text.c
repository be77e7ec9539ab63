/* chat_text.c: see chat_text.h. Every message is followed by a comma; the last one becomes a
 * bracket where the list is read, and a comma again where it is written to. */
#include "engine/chat/chat_text.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "mnem/tokenizer.h"

static const char opening[] = "{\"role\":\"%s\",\"content\":\"", closing[] = "\"},";
enum { CLOSING_BYTES = sizeof closing - 1, SLICE = 256 };

/* Bytes of one byte of UTF-8 inside quotes; out has room for 7. */
static size_t escape(unsigned char byte, char *out) {
    static const char plain[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *found = byte ? strchr(plain, byte) : NULL;
    if (found) return (size_t)snprintf(out, 7, "\\%c", letters[found - plain]);
    if (byte < 0x20 || byte == 0x7f) return (size_t)snprintf(out, 7, "\\u%04x", byte);
    *out = (char)byte;
    return 1;
}

/* Writes behind the tail, where there is room; write false: only measures. */
static size_t put_valid(mnem__chat_text *t, const char *text, size_t n, bool write) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        char code[8] = {text[i]};
        const size_t length = t->bare ? 1 : escape((unsigned char)text[i], code);
        if (write) memcpy(t->text + t->tail + bytes, code, length);
        bytes += length;
    }
    if (write) t->tail += bytes;
    return bytes;
}

/* Any bytes: what is no character in UTF-8 becomes U+FFFD. Returns the bytes that it takes. */
static size_t put_any(mnem__chat_text *t, const char *text, size_t n, bool write) {
    char valid[3 * (SLICE + 4)];
    mnem_utf8_joiner joiner = {0};
    size_t bytes = 0;
    if (t->bare) return put_valid(t, text, n, write);
    for (size_t at = 0, part; at <= n; at += part) {
        part = n - at < SLICE ? n - at : SLICE;
        bytes += put_valid(t, valid, mnem_utf8_join(&joiner, text + at, part, valid), write);
        if (part == 0) break; /* which has flushed */
    }
    return bytes;
}

static void set_last(mnem__chat_text *t, char last) {
    if (!t->bare && t->bytes > 1) t->text[t->bytes - 1] = last;
}

/* ---- life ---- */

mnem_status mnem__chat_text_open(mnem__chat_text *t, size_t room, bool bare) {
    *t = (mnem__chat_text){.bare = bare, .room = room};
    if (!(t->text = mnem__calloc("chat", room, 1))) return mnem__heap_status();
    mnem__chat_text_clear(t);
    return MNEM_OK;
}

void mnem__chat_text_close(mnem__chat_text *t) {
    mnem__free(t->text);
    *t = (mnem__chat_text){0};
}

void mnem__chat_text_clear(mnem__chat_text *t) {
    t->text[0] = '[';
    t->system_bytes = t->bare ? 0 : 1;
    mnem__chat_text_reset(t);
}

void mnem__chat_text_reset(mnem__chat_text *t) {
    t->turns = 0;
    t->bytes = t->system_bytes;
    t->writes = false;
}

/* ---- messages ---- */

static bool begin(mnem__chat_text *t, const char *role) {
    char head[64];
    const int n = t->bare ? 0 : snprintf(head, sizeof head, opening, role);
    t->tail = t->bytes;
    t->writes = false;
    if (t->tail + (size_t)n + CLOSING_BYTES + 1 > t->room) return false;
    set_last(t, ',');
    memcpy(t->text + t->tail, head, (size_t)n);
    t->tail += (size_t)n;
    return t->writes = true;
}

bool mnem__chat_text_put(mnem__chat_text *t, const char *text, size_t n) {
    const size_t needed = put_any(t, text, n, false);
    if (t->tail + needed + CLOSING_BYTES + 1 > t->room) return false;
    put_any(t, text, n, true);
    return true;
}

void mnem__chat_text_end(mnem__chat_text *t) {
    if (!t->writes) return;
    t->writes = false;
    if (!t->bare) {
        memcpy(t->text + t->tail, closing, CLOSING_BYTES);
        t->tail += CLOSING_BYTES;
    }
    t->bytes = t->tail;
}

bool mnem__chat_text_begin(mnem__chat_text *t) {
    return begin(t, "assistant");
}

static bool add(mnem__chat_text *t, const char *role, const char *text, size_t n) {
    if (!begin(t, role) || !mnem__chat_text_put(t, text, n)) {
        t->writes = false;
        return false;
    }
    mnem__chat_text_end(t);
    return true;
}

bool mnem__chat_text_system(mnem__chat_text *t, const char *text) {
    if (!add(t, "system", text, strlen(text))) return false;
    t->system_bytes = t->bytes;
    return true;
}

bool mnem__chat_text_user(mnem__chat_text *t, const char *text, size_t n) {
    const size_t at = t->bytes;
    if (t->turns == MNEM__CHAT_TURNS_MAX || !add(t, "user", text, n)) return false;
    t->turn[t->turns++] = at;
    return true;
}

size_t mnem__chat_text_bytes(const mnem__chat_text *t, const char *text, size_t n) {
    mnem__chat_text measured = *t;
    return put_any(&measured, text, n, false);
}

size_t mnem__chat_text_most(const mnem__chat_text *t) {
    const size_t around = t->system_bytes + sizeof opening + CLOSING_BYTES + 8;
    return around < t->room ? t->room - around : 0;
}

/* ---- turns ---- */

void mnem__chat_text_drop_oldest(mnem__chat_text *t) {
    const size_t from = t->turns > 1 ? t->turn[1] : t->bytes, gone = from - t->system_bytes;
    set_last(t, ',');
    memmove(t->text + t->system_bytes, t->text + from, t->bytes - from);
    t->bytes -= gone;
    t->turns--;
    for (int i = 0; i < t->turns; i++) t->turn[i] = t->turn[i + 1] - gone;
}

void mnem__chat_text_take_back(mnem__chat_text *t) {
    set_last(t, ',');
    t->bytes = t->turn[--t->turns];
    t->writes = false;
}

mnem_text mnem__chat_text_all(mnem__chat_text *t) {
    set_last(t, ']');
    if (!t->bare && t->bytes == 1) {
        memcpy(t->text, "[]", 3);
        return (mnem_text){t->text, 2};
    }
    t->text[t->bytes] = 0;
    return (mnem_text){t->text, t->bytes};
}
