/* call_parser.c: see call_parser.h. One byte after another; a value is followed by its brackets and
 * quotes only, so what is inside it is told as it stands. */
#include "verbs/serve/api/calls/call_parser.h"

#include <string.h>

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void go(call_parser *p, bool fits, call_state state) {
    p->state = fits ? state : CALL_BAD;
}

static void read_key(call_parser *p, char c) {
    if (c == '"') {
        p->state = CALL_COLON;
        return;
    }
    if (c == '\\' || p->key_bytes == CALL_KEY_BYTES) p->state = CALL_BAD;
    if (p->state != CALL_BAD) p->key[p->key_bytes++] = c;
}

static bool key_is(const call_parser *p, const char *name) {
    return p->key_bytes == strlen(name) && memcmp(p->key, name, p->key_bytes) == 0;
}

/* What the value is for, before its first byte. */
static void begin_value(call_parser *p, char c) {
    p->is_name = key_is(p, "name");
    p->is_arguments = key_is(p, p->format->arguments);
    p->depth = 0;
    p->in_string = p->escaped = false;
    const bool fits = p->is_name ? c == '"' && !p->named : !p->is_arguments || p->named;
    go(p, fits, CALL_IN_VALUE);
}

static void read_name(call_parser *p, char c) {
    if (c == '\\' || p->name_bytes == CALL_NAME_BYTES)
        p->state = CALL_BAD;
    else
        p->name[p->name_bytes++] = c;
}

/* A byte of a value; whether it is the last one. A number ends before what follows it. */
static bool read_value(call_parser *p, char c) {
    if (p->escaped || (p->in_string && c == '\\')) {
        p->escaped = !p->escaped;
        return false;
    }
    if (c == '"') {
        p->in_string = !p->in_string;
        return !p->in_string && p->depth == 0;
    }
    if (p->in_string) return false;
    if (c == '{' || c == '[') p->depth++;
    if (p->depth > CALL_DEPTH) p->state = CALL_BAD;
    if (c != '}' && c != ']') return false;
    if (p->depth == 0) p->state = CALL_BAD;
    return p->depth > 0 && --p->depth == 0;
}

/* A value without brackets and quotes ends here, before its member's end. */
static bool ends_before(const call_parser *p, char c) {
    return p->depth == 0 && !p->in_string && (c == ',' || c == '}' || is_space(c));
}

static void read_outside(call_parser *p, char c) {
    switch (p->state) {
    case CALL_OUTSIDE: go(p, c == '{', CALL_MEMBER); break;
    case CALL_MEMBER: go(p, c == '"', CALL_KEY); break;
    case CALL_COLON: go(p, c == ':', CALL_VALUE); break;
    default: go(p, c == ',' || (c == '}' && p->named), c == ',' ? CALL_MEMBER : CALL_DONE);
    }
    if (p->state == CALL_KEY) p->key_bytes = 0;
}

/* Reads a value's bytes; *end: it is whole. How many were read. */
static size_t read_values(call_parser *p, const char *bytes, size_t n, bool *end) {
    size_t i = 0;
    *end = false;
    while (i < n && p->state == CALL_IN_VALUE && !*end) {
        if (ends_before(p, bytes[i])) {
            *end = true;
            break;
        }
        const bool quote = bytes[i] == '"';
        *end = read_value(p, bytes[i]);
        if (p->is_name && !quote) read_name(p, bytes[i]);
        i++;
    }
    return i;
}

static size_t read_member(call_parser *p, const char *bytes, size_t n, call_event *event) {
    bool end;
    const size_t used = read_values(p, bytes, n, &end);
    if (end) p->state = CALL_NEXT;
    if (p->is_name && end) {
        p->named = true;
        *event = (call_event){.kind = CALL_BEGINS};
    } else if (p->is_arguments && used && p->state != CALL_BAD)
        *event = (call_event){CALL_ARGUMENTS, bytes, used};
    return used;
}

size_t call_parser_read(call_parser *p, const char *bytes, size_t n, call_event *event) {
    size_t i = 0;
    *event = (call_event){.kind = CALL_NOTHING};
    while (i < n && event->kind == CALL_NOTHING && p->state != CALL_DONE && p->state != CALL_BAD) {
        if (p->state == CALL_IN_VALUE) {
            i += read_member(p, bytes + i, n - i, event);
            continue;
        }
        const char c = bytes[i];
        if (p->state == CALL_KEY)
            read_key(p, c);
        else if (p->state == CALL_VALUE && !is_space(c)) {
            begin_value(p, c);
            continue;
        } else if (!is_space(c))
            read_outside(p, c);
        i++;
        if (p->state == CALL_DONE) *event = (call_event){.kind = CALL_ENDS};
    }
    return i;
}
