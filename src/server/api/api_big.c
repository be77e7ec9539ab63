/* api_big.c: see api_big.h. */
#include "server/api/api_big.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    KEY = 16,           /* hexadecimal digits of the key */
    HEAD = 1 + 6 + KEY, /* "\u0000 and the key, in a text */
    DIGITS_64 = 19      /* of the largest number of 64 bits */
};

/* ---- the key ---- */

static const char *key(void) {
    static _Thread_local char text[KEY + 1]; /* a document is one thread's */
    uint64_t number;
    if (*text) return text;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = (uint64_t)(uintptr_t)&number * UINT64_C(0x9E3779B97F4A7C15);
    snprintf(text, sizeof text, "%016" PRIx64, number);
    return text;
}

/* ---- texts ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_beyond(const char *digits, size_t n, bool minus) {
    if (*digits == '0' || n < DIGITS_64) return false;
    return n > DIGITS_64 ||
           memcmp(digits, minus ? "9223372036854775808" : "9223372036854775807", DIGITS_64) > 0;
}

/* The number that begins at text; *big: it is a whole one of more than 64 bits. */
static size_t read_number(const char *text, size_t n, bool *big) {
    const size_t sign = *text == '-';
    size_t i = sign;
    while (i < n && is_digit(text[i])) i++;
    *big = i > sign && (i == n || !strchr(".eE", text[i]) || !text[i]) &&
           is_beyond(text + sign, i - sign, sign);
    while (i < n && text[i] && strchr("0123456789+-.eE", text[i])) i++;
    return i;
}

/* The bytes of a string, with its quotes. */
static size_t read_string(const char *text, size_t n) {
    size_t i = 1;
    while (i < n && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

/* Up to and with the next number that is too large; *at: where it begins, n: there is none. */
static size_t next_big(const char *text, size_t n, size_t *at) {
    bool big = false;
    for (size_t i = 0; i < n;) {
        const bool number = text[i] == '-' || is_digit(text[i]);
        const size_t more = number           ? read_number(text + i, n - i, &big)
                            : text[i] == '"' ? read_string(text + i, n - i)
                                             : 1;
        *at = i;
        i += more;
        if (number && big) return i;
    }
    *at = n;
    return n;
}

size_t api_big_bytes(const char *text, size_t n) {
    size_t bytes = n, at;
    for (size_t i = 0; i < n;) {
        const size_t more = next_big(text + i, n - i, &at);
        if (at < n - i) bytes += HEAD + 1;
        i += more;
    }
    return bytes;
}

void api_big_write(const char *text, size_t n, char *out) {
    size_t at;
    for (size_t i = 0; i < n;) {
        const size_t more = next_big(text + i, n - i, &at);
        memcpy(out, text + i, at);
        out += at;
        if (at < n - i) {
            out += sprintf(out, "\"\\u0000%s", key());
            memcpy(out, text + i + at, more - at);
            out += more - at;
            *out++ = '"';
        }
        i += more;
    }
}

void api_big_restore(api_text *text, size_t from) {
    char head[HEAD + 1];
    char *to = text->bytes + from, *at = to, *end = text->bytes + text->length, *found;
    if (text->failed || text->length == from) return;
    snprintf(head, sizeof head, "\"\\u0000%s", key());
    while ((found = memmem(at, (size_t)(end - at), head, HEAD))) {
        const char *digits = found + HEAD;
        const char *quote = memchr(digits, '"', (size_t)(end - digits));
        if (!quote) break;
        memmove(to, at, (size_t)(found - at));
        to += found - at;
        memmove(to, digits, (size_t)(quote - digits));
        to += quote - digits;
        at += quote + 1 - at;
    }
    memmove(to, at, (size_t)(end - at));
    text->length = (size_t)(to + (end - at) - text->bytes);
}

/* ---- values ---- */

static bool has_zero(const json_t *value) {
    return json_is_string(value) &&
           memchr(json_string_value(value), 0, json_string_length(value)) != NULL;
}

bool api_big_is(const json_t *value) {
    return json_is_string(value) && json_string_length(value) > 1 + KEY &&
           json_string_value(value)[0] == 0 &&
           memcmp(json_string_value(value) + 1, key(), KEY) == 0;
}

bool api_big_is_clean(const json_t *value) {
    const char *name;
    json_t *one;
    size_t i;
    json_object_foreach((json_t *)value, name, one) {
        if (!api_big_is_clean(one)) return false;
    }
    json_array_foreach(value, i, one) {
        if (!api_big_is_clean(one)) return false;
    }
    return api_big_is(value) || !has_zero(value);
}

/* ---- fields ---- */

/* Where a value stands: the names and numbers that lead there. */
typedef struct place {
    const struct place *in;
    const char *name; /* NULL: an element */
    size_t number;
} place;

/* "messages[2].content" */
static size_t put_place(const place *p, char *out, size_t room) {
    if (!p) return 0;
    size_t n = put_place(p->in, out, room);
    if (n >= room) return n;
    n += (size_t)(p->name ? snprintf(out + n, room - n, "%s%.40s", p->in ? "." : "", p->name)
                          : snprintf(out + n, room - n, "[%zu]", p->number));
    return n < room ? n : room - 1;
}

/* Names of fields whose JSON is passed on to templates and grammars. */
static bool passes_on(const place *p) {
    static const char *const names[] = {"arguments", "parameters",  "input_schema",
                                        "schema",    "json_schema", "chat_template_kwargs"};
    for (; p; p = p->in) {
        for (size_t i = 0; p->name && i < sizeof names / sizeof *names; i++)
            if (strcmp(p->name, names[i]) == 0) return true;
        if (p->in && p->name && strcmp(p->name, "input") == 0) return true; /* of a tool_use */
    }
    return false;
}

static bool check(const json_t *value, const place *at, api_error *error) {
    const char *name;
    json_t *one;
    size_t i;
    char param[96] = "";
    json_object_foreach((json_t *)value, name, one) {
        if (!check(one, &(place){at, name, 0}, error)) return false;
    }
    json_array_foreach(value, i, one) {
        if (!check(one, &(place){at, NULL, i}, error)) return false;
    }
    if (!has_zero(value)) return true;
    const bool big = api_big_is(value);
    if (big && passes_on(at)) return true;
    put_place(at, param, sizeof param);
    return api_refuse(error, 400, param,
                      big ? "'%s' is an integer outside of -2^63 to 2^63 - 1: use one within"
                          : "'%s' contains the character U+0000, which is not supported: remove it",
                      param);
}

bool api_big_check(const json_t *root, api_error *error) {
    return check(root, NULL, error);
}
