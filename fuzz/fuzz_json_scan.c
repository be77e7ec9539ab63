/* fuzz_json_scan.c: see fuzz_json_scan.h.
 *
 * Idea: a cursor, and a stack of the brackets that are open. A byte that can't come next, or the
 * text's end (a zero there can't come next either), is where it isn't JSON. */
#include "fuzz_json_scan.h"

#include <stdint.h>
#include <string.h>

enum { DEPTH = 256 };

typedef struct scan {
    const unsigned char *at, *end;
    bool bad;
} scan;

static void skip_space(scan *s) {
    while (s->at < s->end && strchr(" \t\n\r", *s->at) && *s->at) s->at++;
}

static bool skip_byte(scan *s, char byte) {
    if (s->at == s->end || *s->at != (unsigned char)byte) return false;
    s->at++;
    return true;
}

static void skip_text(scan *s, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        s->bad = true;
    else
        s->at += n;
}

static uint32_t take_hex(scan *s) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = s->at < s->end && *s->at ? strchr(digits, *s->at) : NULL;
        if (!found) {
            s->bad = true;
            return 0;
        }
        value = value << 4 | ((uint32_t)(found - digits) & 15);
        s->at++;
    }
    return value;
}

/* Behind a backslash. */
static void skip_escape(scan *s) {
    if (s->at == s->end || !*s->at || !strchr("\"\\/bfnrtu", *s->at)) {
        s->bad = true;
        return;
    }
    if (*s->at++ != 'u') return;
    const uint32_t unit = take_hex(s);
    if (unit < 0xd800 || unit > 0xdfff) return;
    skip_text(s, "\\u");
    const uint32_t low = s->bad ? 0 : take_hex(s);
    if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff) s->bad = true;
}

/* A character of two to four bytes: the shortest form, no surrogate, nothing beyond U+10FFFF. */
static void skip_wide(scan *s) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = *s->at++;
    const int n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t c = first & (0xffU >> (n + 1));
    s->bad = first < 0xc2 || first > 0xf4 || s->end - s->at < n - 1;
    for (int i = 1; i < n && !s->bad; i++) {
        s->bad = (*s->at & 0xc0) != 0x80;
        c = c << 6 | (*s->at++ & 0x3f);
    }
    if (c < least[n] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff) s->bad = true;
}

static void skip_string(scan *s) {
    if (!skip_byte(s, '"')) s->bad = true;
    while (!s->bad && s->at < s->end && *s->at != '"') {
        if (*s->at == '\\') {
            s->at++;
            skip_escape(s);
        } else if (*s->at >= 0x80) {
            skip_wide(s);
        } else if (*s->at++ < 0x20) {
            s->bad = true;
        }
    }
    if (!skip_byte(s, '"')) s->bad = true;
}

static void skip_digits(scan *s) {
    const unsigned char *begin = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') s->at++;
    if (s->at == begin) s->bad = true;
}

static void skip_number(scan *s) {
    (void)skip_byte(s, '-');
    if (!skip_byte(s, '0')) skip_digits(s);
    if (skip_byte(s, '.')) skip_digits(s);
    if (!skip_byte(s, 'e') && !skip_byte(s, 'E')) return;
    if (!skip_byte(s, '+')) (void)skip_byte(s, '-');
    skip_digits(s);
}

static void skip_scalar(scan *s) {
    switch (s->at < s->end ? *s->at : 0) {
    case '"': skip_string(s); break;
    case 't': skip_text(s, "true"); break;
    case 'f': skip_text(s, "false"); break;
    case 'n': skip_text(s, "null"); break;
    default: skip_number(s);
    }
}

static void skip_key(scan *s) {
    skip_space(s);
    skip_string(s);
    skip_space(s);
    if (!skip_byte(s, ':')) s->bad = true;
}

bool json_scan(const char *text, size_t n) {
    char open[DEPTH];
    int depth = 0;
    const unsigned char *begin = (const unsigned char *)text;
    scan s = {begin, begin + n, false};
    skip_space(&s);
    if (s.at == s.end || (*s.at != '{' && *s.at != '[')) return false;
    do {
        skip_space(&s);
        const char bracket = s.at < s.end && (*s.at == '{' || *s.at == '[') ? (char)*s.at : 0;
        if (bracket && depth == DEPTH) return false;
        if (bracket) {
            s.at++;
            open[depth++] = bracket;
            skip_space(&s);
        } else {
            skip_scalar(&s);
        }
        const bool empty = bracket && skip_byte(&s, bracket == '{' ? '}' : ']');
        if (empty) depth--;
        if (bracket && !empty) {
            if (bracket == '{') skip_key(&s);
            continue;
        }
        for (skip_space(&s); depth > 0 && skip_byte(&s, open[depth - 1] == '{' ? '}' : ']');
             skip_space(&s))
            depth--;
        if (depth == 0) break;
        if (!skip_byte(&s, ',')) return false;
        if (open[depth - 1] == '{') skip_key(&s);
    } while (!s.bad);
    return !s.bad && depth == 0 && s.at == s.end;
}
