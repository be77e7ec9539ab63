/* call_parser.c: see call_parser.h. One byte after another. */
#include "server/api/calls/call_parser.h"

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
    const bool alone = p->format->shape == CALL_NAMED;
    p->is_name = !alone && key_is(p, "name");
    p->is_arguments = alone || key_is(p, p->format->arguments);
    call_value_begin(p);
    const bool fits = p->is_name ? c == '"' && !p->named : !p->is_arguments || p->named;
    go(p, fits && (!alone || c == '{'), CALL_IN_VALUE);
}

/* A list goes on with an object of its own. */
static void read_comma(call_parser *p, char c) {
    if (c == ',')
        *p = (call_parser){.format = p->format, .texts = p->texts, .state = CALL_OUTSIDE};
    else
        go(p, c == ']', CALL_DONE);
}

static void read_outside(call_parser *p, char c) {
    const bool list = p->format->shape == CALL_LIST;
    switch (p->state) {
    case CALL_OPEN: go(p, c == (list ? '[' : '{'), list ? CALL_OUTSIDE : CALL_MEMBER); break;
    case CALL_OUTSIDE: go(p, c == '{', CALL_MEMBER); break;
    case CALL_MEMBER: go(p, c == '"', CALL_KEY); break;
    case CALL_COLON: go(p, c == ':', CALL_VALUE); break;
    case CALL_COMMA: read_comma(p, c); break;
    default: go(p, c == ',' || (c == '}' && p->named), c == ',' ? CALL_MEMBER : CALL_CLOSE);
    }
    if (p->state == CALL_KEY) p->key_bytes = 0;
}

static size_t read_member(call_parser *p, const char *bytes, size_t n, call_event *event) {
    bool end;
    const size_t used = call_value_read(p, bytes, n, &end);
    if (end) p->state = p->format->shape == CALL_NAMED ? CALL_CLOSE : CALL_NEXT;
    if (p->is_name && end) {
        p->named = true;
        *event = (call_event){.kind = CALL_BEGINS};
    } else if (p->is_arguments && used && p->state != CALL_BAD)
        *event = (call_event){CALL_ARGUMENTS, bytes, used};
    return used;
}

/* ---- names in front of their arguments ---- */

static void read_naming(call_parser *p, char c) {
    if (c == p->format->mark[0])
        go(p, p->name_bytes > 0, CALL_MARK);
    else if (p->name_bytes == CALL_NAME_BYTES)
        p->state = CALL_BAD;
    else
        p->name[p->name_bytes++] = c;
}

/* An id may stand before the mark, which isn't ours to give. */
static size_t read_mark(call_parser *p, const char *bytes, size_t n, call_event *event) {
    enum { ID_MOST = 64 };
    const size_t mark = strlen(p->format->mark);
    const char *found = memmem(bytes, n, p->format->mark, mark);
    if (!found) {
        if (n > ID_MOST) p->state = CALL_BAD;
        return 0;
    }
    p->named = true;
    p->state = CALL_VALUE;
    *event = (call_event){.kind = CALL_BEGINS};
    return (size_t)(found - bytes) + mark;
}

static size_t read_named(call_parser *p, const char *bytes, size_t n, call_event *event) {
    size_t i = 0;
    if (p->state == CALL_OPEN) p->state = CALL_NAMING;
    for (; p->state == CALL_NAMING && i < n; i += p->state == CALL_NAMING)
        if (!is_space(bytes[i])) read_naming(p, bytes[i]);
    return p->state == CALL_MARK ? i + read_mark(p, bytes + i, n - i, event) : i;
}

/* ---- all of them ---- */

static void close(call_parser *p, call_event *event) {
    *event = (call_event){.kind = CALL_ENDS};
    p->state = p->format->shape == CALL_LIST ? CALL_COMMA : CALL_DONE;
}

static void read_byte(call_parser *p, char c) {
    if (p->state == CALL_KEY)
        read_key(p, c);
    else if (!is_space(c))
        read_outside(p, c);
}

size_t call_parser_read(call_parser *p, const char *bytes, size_t n, call_event *event) {
    size_t i = 0;
    *event = (call_event){.kind = CALL_NOTHING};
    if (p->format->shape == CALL_KEYED) return call_keyed_read(p, bytes, n, event);
    if (p->format->shape == CALL_NAMED && !p->named && p->state != CALL_BAD)
        return read_named(p, bytes, n, event);
    while (event->kind == CALL_NOTHING && p->state != CALL_DONE && p->state != CALL_BAD) {
        if (p->state == CALL_CLOSE)
            close(p, event);
        else if (i == n)
            break;
        else if (p->state == CALL_IN_VALUE)
            i += read_member(p, bytes + i, n - i, event);
        else if (p->state == CALL_VALUE && !is_space(bytes[i]))
            begin_value(p, bytes[i]);
        else
            read_byte(p, bytes[i++]);
    }
    return i;
}
