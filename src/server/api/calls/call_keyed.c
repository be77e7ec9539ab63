/* call_keyed.c: calls whose arguments stand each between marks of their own, told as one object:
 * a text becomes a string, anything else is JSON already.
 *
 *     name ──► BETWEEN ──key──► KEYING ──► VALUE_MARK ──► EITHER ──► TEXT ──► TEXT_END ──► BETWEEN
 *                 │                            └────► VALUE, IN_VALUE ──► VALUE_END ──┘
 *                 └─ anything else ──► CLOSE
 *
 * What is told has at most CALL_OUT bytes at a time; what may be the beginning of a mark waits. */
#include <stdio.h>
#include <string.h>

#include "server/api/calls/call_parser.h"

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_letter(char c) {
    static const char others[] = "_.-";
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr(others, c));
}

static size_t spaces(const char *bytes, size_t n) {
    size_t i = 0;
    while (i < n && is_space(bytes[i])) i++;
    return i;
}

/* Whether bytes begin with a mark: 1; may yet: 0; don't: -1. */
static int begins(const char *bytes, size_t n, const char *mark) {
    const size_t length = strlen(mark), known = n < length ? n : length;
    if (memcmp(bytes, mark, known) != 0) return -1;
    return known == length;
}

/* Passes over white space and a mark, then to state; what is neither is bad. */
static size_t expect(call_parser *p, const char *bytes, size_t n, const char *mark,
                     call_state state) {
    const size_t at = *mark ? spaces(bytes, n) : 0;
    const int found = begins(bytes + at, n - at, mark);
    if (found == 0) return 0;
    p->state = found > 0 ? state : CALL_BAD;
    return found > 0 ? at + strlen(mark) : 0;
}

/* ---- what is told ---- */

static size_t escape(char *out, const char *bytes, size_t n) {
    static const char plain[] = "\"\\\n\t\r", named[] = "\"\\ntr";
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const char c = bytes[i], *found = c ? strchr(plain, c) : NULL;
        if (found) {
            out[used++] = '\\';
            out[used++] = named[found - plain];
        } else if ((unsigned char)c < 0x20 || c == 0x7f)
            used += (size_t)sprintf(out + used, "\\u%04x", (unsigned)c);
        else
            out[used++] = c;
    }
    return used;
}

static void say(call_parser *p, size_t n, call_event *event) {
    *event = (call_event){CALL_ARGUMENTS, p->out, n};
}

static void say_key(call_parser *p, bool text, call_event *event) {
    size_t n = (size_t)sprintf(p->out, p->argued ? ", \"" : "{\"");
    n += escape(p->out + n, p->key, p->key_bytes);
    n += (size_t)sprintf(p->out + n, text ? "\": \"" : "\": ");
    p->argued = true;
    say(p, n, event);
}

/* ---- parts of a call ---- */

static size_t open_call(call_parser *p, const char *bytes, size_t n) {
    const size_t at = spaces(bytes, n);
    return at == n ? at : at + expect(p, bytes + at, n - at, p->format->keys.name, CALL_NAMING);
}

static size_t read_name(call_parser *p, const char *bytes, size_t n, call_event *event) {
    size_t i = 0;
    for (; i < n && is_letter(bytes[i]); i++) {
        if (p->name_bytes == CALL_NAME_BYTES) {
            p->state = CALL_BAD;
            return i;
        }
        p->name[p->name_bytes++] = bytes[i];
    }
    if (i == n) return i;
    p->state = p->name_bytes ? CALL_MARK : CALL_BAD;
    if (p->name_bytes) *event = (call_event){.kind = CALL_BEGINS};
    return i;
}

/* A key follows, or the end. */
static size_t read_between(call_parser *p, const char *bytes, size_t n) {
    const call_keys *k = &p->format->keys;
    const size_t at = spaces(bytes, n);
    const int key = begins(bytes + at, n - at, k->key);
    if (at == n || key == 0) return at;
    p->key_bytes = 0;
    p->state = key > 0 ? CALL_KEYING : CALL_CLOSE;
    return key > 0 ? at + strlen(k->key) : at;
}

/* How many bytes at the end of n may begin a mark. */
static size_t tail_of(const char *bytes, size_t n, const char *mark) {
    size_t most = strlen(mark) - 1;
    if (most > n) most = n;
    while (most && memcmp(bytes + n - most, mark, most) != 0) most--;
    return most;
}

static size_t read_key(call_parser *p, const char *bytes, size_t n) {
    const char *end = p->format->keys.key_end, *found = memmem(bytes, n, end, strlen(end));
    const size_t more = found ? (size_t)(found - bytes) : n - tail_of(bytes, n, end);
    if (p->key_bytes + more > CALL_KEY_BYTES) {
        p->state = CALL_BAD;
        return 0;
    }
    memcpy(p->key + p->key_bytes, bytes, more);
    p->key_bytes += more;
    if (found) p->state = CALL_VALUE_MARK;
    return found ? more + strlen(end) : more;
}

static void begin_value(call_parser *p, bool text, call_event *event) {
    p->state = text ? CALL_TEXT : CALL_VALUE;
    say_key(p, text, event);
}

/* Its value's mark, where there is one; and which kind of value it is. */
static size_t read_value_mark(call_parser *p, const char *bytes, size_t n, call_event *event) {
    const bool text = call_texts_is(p->texts, p->name, p->name_bytes, p->key, p->key_bytes);
    const size_t used = expect(p, bytes, n, p->format->keys.value, CALL_EITHER);
    if (p->state == CALL_EITHER && !text) begin_value(p, false, event);
    return used;
}

/* Whether a value is this literal: 1; may yet be: 0; isn't: -1. */
static int is_literal(const call_parser *p, const char *bytes, size_t n, const char *literal) {
    const call_keys *k = &p->format->keys;
    const size_t length = strlen(literal);
    if (memcmp(bytes, literal, n < length ? n : length) != 0) return -1;
    if (n <= length) return 0;
    const size_t line = k->lines && bytes[length] == '\n';
    return begins(bytes + length + line, n - length - line, k->value_end);
}

/* Waits until it is clear which of the two a value is. */
static size_t read_either(call_parser *p, const char *bytes, size_t n, call_event *event) {
    const char *literal = NULL;
    bool open = false;
    while ((literal = call_texts_literal(p->texts, p->name, p->name_bytes, p->key, p->key_bytes,
                                         literal))) {
        const int is = is_literal(p, bytes, n, literal);
        if (is > 0) {
            begin_value(p, false, event);
            return 0;
        }
        open = open || is == 0;
    }
    if (!open) begin_value(p, true, event);
    return 0;
}

/* Bytes of a text that can be told; its last line's end waits, as it may be that of the mark. */
static size_t text_bytes(const call_parser *p, const char *bytes, size_t n, const char *found) {
    const char *mark = p->format->keys.value_end;
    size_t more = found ? (size_t)(found - bytes) : n - tail_of(bytes, n, mark);
    if (p->format->keys.lines && more && bytes[more - 1] == '\n') more--;
    return more;
}

static size_t read_text(call_parser *p, const char *bytes, size_t n, call_event *event) {
    enum { PART = CALL_OUT / 6 };
    const char *mark = p->format->keys.value_end, *found = memmem(bytes, n, mark, strlen(mark));
    const size_t all = text_bytes(p, bytes, n, found);
    size_t part = all < PART ? all : PART;
    while (part < all && ((unsigned char)bytes[part] & 0xc0) == 0x80) part--; /* characters whole */
    if (part) {
        say(p, escape(p->out, bytes, part), event);
        return part;
    }
    if (!found) return 0;
    p->state = CALL_TEXT_END;
    p->out[0] = '"';
    say(p, 1, event);
    return (size_t)(found - bytes);
}

static size_t read_json(call_parser *p, const char *bytes, size_t n, call_event *event) {
    bool end;
    const size_t at = p->state == CALL_VALUE ? spaces(bytes, n) : 0;
    if (at == n) return at;
    if (p->state == CALL_VALUE) call_value_begin(p);
    p->state = CALL_IN_VALUE;
    const size_t used = call_value_read(p, bytes + at, n - at, &end);
    if (end) p->state = CALL_VALUE_END;
    if (used && p->state != CALL_BAD) *event = (call_event){CALL_ARGUMENTS, bytes + at, used};
    return at + used;
}

/* ---- all of it ---- */

static void close(call_parser *p, call_event *event) {
    if (p->argued) {
        p->argued = false;
        p->out[0] = '}';
        say(p, 1, event);
        return;
    }
    *event = (call_event){.kind = CALL_ENDS};
    p->state = CALL_DONE;
}

static size_t read_part(call_parser *p, const char *bytes, size_t n, call_event *event) {
    const call_keys *k = &p->format->keys;
    switch (p->state) {
    case CALL_OPEN: return open_call(p, bytes, n);
    case CALL_NAMING: return read_name(p, bytes, n, event);
    case CALL_MARK: return expect(p, bytes, n, k->name_end, CALL_BETWEEN);
    case CALL_BETWEEN: return read_between(p, bytes, n);
    case CALL_KEYING: return read_key(p, bytes, n);
    case CALL_VALUE_MARK: return read_value_mark(p, bytes, n, event);
    case CALL_EITHER: return read_either(p, bytes, n, event);
    case CALL_TEXT: return read_text(p, bytes, n, event);
    case CALL_TEXT_END:
    case CALL_VALUE_END: return expect(p, bytes, n, k->value_end, CALL_BETWEEN);
    case CALL_CLOSE: close(p, event); return 0;
    default: return read_json(p, bytes, n, event);
    }
}

size_t call_keyed_read(call_parser *p, const char *bytes, size_t n, call_event *event) {
    size_t at = 0;
    while (event->kind == CALL_NOTHING && p->state != CALL_DONE && p->state != CALL_BAD) {
        const call_state before = p->state;
        const size_t used = read_part(p, bytes + at, n - at, event);
        at += used;
        if (used == 0 && p->state == before && event->kind == CALL_NOTHING) break;
    }
    return at;
}
