/* json_pull.c: see json_pull.h.
 *
 * The idea: the place in the grammar is a bit for each depth (list or object) and two flags, so
 * nothing recurses. Texts are put together in one block that grows to the longest of them.
 * Invariant: texts that are handed out are valid UTF-8.
 * Cost: linear; 16 KiB of buffer, and the longest text. */
#include "model/json/json_pull.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/text/utf8.h"

enum { NOTHING = -1, NUMBER_MAX = 4400, TEXT_ROOM = 256 };

mnem_status mnem__json_fail(const mnem__json *j, mnem_status status, const char *text) {
    return mnem__fail(status, "%s: byte %llu: %s", j->file.path,
                      (unsigned long long)mnem__cursor_position(&j->file), text);
}

static mnem_status bad(const mnem__json *j, const char *text) {
    return mnem__json_fail(j, MNEM_BAD_FILE, text);
}

mnem_status mnem__json_open(mnem__json *j, const char *path) {
    memset(j, 0, offsetof(mnem__json, file));
    MNEM__TRY(mnem__cursor_open(&j->file, path));
    j->end = j->file.file_bytes;
    j->wants_value = j->own = true;
    return MNEM_OK;
}

void mnem__json_open_text(mnem__json *j, const char *name, const char *text, size_t n) {
    memset(j, 0, offsetof(mnem__json, file));
    mnem__cursor_open_memory(&j->file, name, text, n);
    j->end = n;
    j->wants_value = true;
}

void mnem__json_open_part(mnem__json *j, const mnem__gguf_part *part, uint64_t from,
                          uint64_t bytes) {
    memset(j, 0, sizeof *j);
    j->file.fd = part->fd;
    j->file.path = part->path;
    j->file.file_bytes = j->end = from + bytes;
    j->file.at = from;
    j->wants_value = true;
}

void mnem__json_close(mnem__json *j) {
    mnem__free(j->text);
    j->text = NULL;
    if (j->own) mnem__cursor_close(&j->file);
}

/* ---- bytes ---- */

/* The next byte, or NOTHING at the end. A read that fails is an end too: the caller finds that the
 * file stops in the middle. */
static int peek(mnem__json *j) {
    mnem__cursor *c = &j->file;
    uint8_t byte;
    if (c->used < c->have) return c->buffer[c->used];
    const uint64_t at = mnem__cursor_position(c);
    if (at >= j->end || mnem__cursor_read(c, &byte, 1) != MNEM_OK) return NOTHING;
    c->used--; /* it is in the buffer */
    return byte;
}

static int next_char(mnem__json *j) {
    const int c = peek(j);
    if (c != NOTHING) j->file.used++;
    return c;
}

static int take_visible(mnem__json *j) {
    int c;
    do c = next_char(j);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    return c;
}

static int peek_visible(mnem__json *j) {
    const int c = take_visible(j);
    if (c != NOTHING) j->file.used--;
    return c;
}

/* ---- texts ---- */

static mnem_status append_text(mnem__json *j, const char *bytes, size_t n) {
    if (n > MNEM__JSON_TEXT_MAX - j->text_bytes)
        return mnem__json_fail(j, MNEM_UNSUPPORTED, "a string has more than 8 MiB, the limit");
    const size_t need = j->text_bytes + n + 1;
    if (need > j->text_room) {
        const size_t room = need > 2 * j->text_room ? need + TEXT_ROOM : 2 * j->text_room;
        char *more = mnem__realloc(MNEM__IMPORT_TAG, j->text, room);
        if (!more) return mnem__fail_in(mnem__heap_status(), "%s", j->file.path);
        j->text = more;
        j->text_room = room;
    }
    if (n) memcpy(j->text + j->text_bytes, bytes, n);
    j->text_bytes += n;
    j->text[j->text_bytes] = 0;
    return MNEM_OK;
}

/* Four hexadecimal digits; -1: they aren't. */
static int32_t take_hex(mnem__json *j) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const int c = next_char(j), low = c | 0x20;
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(low >= 'a' && low <= 'f')) return -1;
        value = value * 16 + (digit ? c - '0' : low - 'a' + 10);
    }
    return value;
}

/* Takes these bytes, as many as are there. */
static bool skip_word(mnem__json *j, const char *word) {
    while (*word && peek(j) == *word) {
        next_char(j);
        word++;
    }
    return *word == 0;
}

static mnem_status take_unicode(mnem__json *j) {
    char utf8[4];
    int32_t code = take_hex(j);
    if (code >= 0xD800 && code < 0xDC00 && skip_word(j, "\\u")) {
        const int32_t low = take_hex(j);
        code = low >= 0xDC00 && low <= 0xDFFF ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                                              : -1;
    }
    if (code < 0 || (code >= 0xD800 && code <= 0xDFFF))
        return bad(j, "\\u is not followed by the 4 hexadecimal digits of a character");
    return append_text(j, utf8, mnem__utf8_put((uint32_t)code, utf8));
}

static mnem_status take_escape(mnem__json *j) {
    static const char letters[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
    const int c = next_char(j);
    const char *found = c > 0 ? strchr(letters, c) : NULL;
    if (c == 'u') return take_unicode(j);
    return found ? append_text(j, &chars[found - letters], 1)
                 : bad(j, "a backslash must be followed by one of \"\\/bfnrtu");
}

/* The bytes of the buffer that are neither quote nor backslash nor a control character. */
static size_t plain_bytes(const mnem__cursor *c, uint64_t left) {
    size_t n = 0, most = c->have - c->used;
    if (most > left) most = (size_t)left;
    const uint8_t *at = c->buffer + c->used;
    while (n < most && at[n] != '"' && at[n] != '\\' && at[n] >= 0x20) n++;
    return n;
}

/* Behind the first quote. */
static mnem_status take_text(mnem__json *j) {
    j->text_bytes = 0;
    for (;;) {
        if (peek(j) == NOTHING) return bad(j, "a string lacks its closing quote");
        const size_t n = plain_bytes(&j->file, j->end - mnem__cursor_position(&j->file));
        MNEM__TRY(append_text(j, (const char *)j->file.buffer + j->file.used, n));
        j->file.used += (uint32_t)n;
        if (n) continue;
        const int c = next_char(j);
        if (c == '"') break;
        if (c != '\\') return bad(j, "a control character in a string must be escaped");
        MNEM__TRY(take_escape(j));
    }
    return mnem__utf8_invalid(j->text, j->text_bytes) == j->text_bytes
               ? MNEM_OK
               : bad(j, "a string is not valid UTF-8");
}

/* ---- numbers and words ---- */

static bool skip_digits(const char **at) {
    const char *begin = *at;
    while (**at >= '0' && **at <= '9') ++*at;
    return *at > begin;
}

/* Is text a number of JSON's grammar, and a whole one? */
static bool is_number(const char *text, bool *whole) {
    const char *at = text + (*text == '-');
    const bool zero = *at == '0';
    const char *digits = at;
    *whole = true;
    if (!skip_digits(&at) || (zero && at > digits + 1)) return false;
    if (*at == '.') {
        at++;
        *whole = false;
        if (!skip_digits(&at)) return false;
    }
    if (*at == 'e' || *at == 'E') {
        at += at[1] == '+' || at[1] == '-' ? 2 : 1;
        *whole = false;
        if (!skip_digits(&at)) return false;
    }
    return *at == 0;
}

/* What stands between two delimiters, at most NUMBER_MAX - 1 bytes. */
static bool take_word(mnem__json *j, char word[NUMBER_MAX]) {
    size_t n = 0;
    for (int c = peek(j); c > ' ' && !strchr(",]}:", c); c = peek(j)) {
        if (n == NUMBER_MAX - 1) return false;
        word[n++] = (char)next_char(j);
    }
    word[n] = 0;
    return true;
}

static mnem_status take_number(mnem__json *j, const char *word) {
    static const struct {
        const char *word;
        double number;
    } others[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    bool whole;
    j->integer = 0;
    j->is_integer = j->is_big = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(word, others[i].word) == 0) {
            j->number = others[i].number;
            return MNEM_OK;
        }
    if (!is_number(word, &whole)) return bad(j, "expected a JSON value");
    j->number = strtod(word, NULL);
    if (!whole) return MNEM_OK;
    errno = 0;
    j->integer = strtoll(word, NULL, 10);
    j->is_integer = errno == 0;
    j->is_big = errno != 0;
    if (!j->is_big) return MNEM_OK;
    j->text_bytes = 0;
    return append_text(j, word, strlen(word));
}

static mnem_status take_other(mnem__json *j, mnem__json_event *event) {
    char word[NUMBER_MAX];
    if (!take_word(j, word)) return bad(j, "expected a JSON value");
    *event = strcmp(word, "true") == 0    ? MNEM__JSON_TRUE
             : strcmp(word, "false") == 0 ? MNEM__JSON_FALSE
             : strcmp(word, "null") == 0  ? MNEM__JSON_NULL
                                          : MNEM__JSON_NUMBER;
    return *event == MNEM__JSON_NUMBER ? take_number(j, word) : MNEM_OK;
}

/* ---- the grammar ---- */

static bool in_list(const mnem__json *j) {
    return j->in_list >> j->depth & 1;
}

static mnem_status open_value(mnem__json *j, bool list, mnem__json_event *event) {
    if (j->depth == MNEM__JSON_DEPTH_MAX)
        return mnem__json_fail(j, MNEM_UNSUPPORTED,
                               "values are nested more than 48 deep, the limit");
    j->depth++;
    j->in_list = (j->in_list & ~(1ull << j->depth)) | (uint64_t)list << j->depth;
    j->began = false;
    *event = list ? MNEM__JSON_LIST : MNEM__JSON_OBJECT;
    return MNEM_OK;
}

static mnem_status take_value(mnem__json *j, mnem__json_event *event) {
    const int c = peek_visible(j);
    j->wants_value = false;
    j->began = true;
    if (c == NOTHING) return bad(j, "the JSON is cut off: it ends where a value is expected");
    if (c == '{' || c == '[') {
        j->file.used++;
        return open_value(j, c == '[', event);
    }
    if (c != '"') return take_other(j, event);
    j->file.used++;
    *event = MNEM__JSON_TEXT;
    return take_text(j);
}

static mnem_status take_key(mnem__json *j, mnem__json_event *event) {
    if (take_visible(j) != '"')
        return bad(j, "expected the name of a member of a JSON object, in double quotes");
    MNEM__TRY(take_text(j));
    if (take_visible(j) != ':') return bad(j, "expected ':' after the name of a member");
    *event = MNEM__JSON_KEY;
    j->wants_value = true;
    return MNEM_OK;
}

mnem_status mnem__json_next(mnem__json *j, mnem__json_event *event) {
    if (j->wants_value) return take_value(j, event);
    const int c = peek_visible(j);
    if (j->depth == 0) {
        *event = MNEM__JSON_END;
        return c == NOTHING ? MNEM_OK : bad(j, "the JSON value has ended, but more text follows");
    }
    const bool list = in_list(j);
    if (c == (list ? ']' : '}')) {
        j->file.used++;
        j->depth--;
        j->began = true;
        *event = list ? MNEM__JSON_LIST_END : MNEM__JSON_OBJECT_END;
        return MNEM_OK;
    }
    if (j->began) {
        if (c != ',')
            return bad(j, list ? "expected ',' or ']' after an item of a list"
                               : "expected ',' or '}' after a member of an object");
        j->file.used++;
    }
    return list ? take_value(j, event) : take_key(j, event);
}

mnem_status mnem__json_leave(mnem__json *j, mnem__json_event began) {
    const int depth = j->depth - 1;
    if (began != MNEM__JSON_OBJECT && began != MNEM__JSON_LIST) return MNEM_OK;
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && j->depth > depth) status = mnem__json_next(j, &began);
    return status;
}

mnem_status mnem__json_skip(mnem__json *j) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    return mnem__json_leave(j, event);
}
