/* call_value.c: a JSON value while it is written: followed by its brackets and quotes only, so what
 * is inside it is told as it stands. */
#include "server/api/calls/call_parser.h"

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

void call_value_begin(call_parser *p) {
    p->depth = 0;
    p->in_string = p->escaped = false;
}

/* A byte of a value; whether it is the last one. A number ends before what follows it. */
static bool read_byte(call_parser *p, char c) {
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

/* A value without brackets and quotes ends here, before what follows it. */
static bool ends_before(const call_parser *p, char c) {
    return p->depth == 0 && !p->in_string && (c == ',' || c == '}' || c == '<' || is_space(c));
}

static void read_name(call_parser *p, char c) {
    if (c == '\\' || p->name_bytes == CALL_NAME_BYTES)
        p->state = CALL_BAD;
    else
        p->name[p->name_bytes++] = c;
}

size_t call_value_read(call_parser *p, const char *bytes, size_t n, bool *end) {
    size_t i = 0;
    *end = false;
    while (i < n && p->state == CALL_IN_VALUE && !*end) {
        if (ends_before(p, bytes[i])) {
            *end = true;
            break;
        }
        const bool quote = bytes[i] == '"';
        *end = read_byte(p, bytes[i]);
        if (p->is_name && !quote) read_name(p, bytes[i]);
        i++;
    }
    return i;
}
