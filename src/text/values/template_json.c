/* template_json.c: JSON into values. Strict (RFC 8259); of members of one name the last counts, as
 * in Python. Cost: linear; depth is bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "text/values/template_private.h"

typedef struct json_reader {
    mnem_template *t;
    const char *begin, *at, *end; /* a zero is at end */
    const char *what;
} json_reader;

static _Noreturn void bad(const json_reader *r, const char *why) {
    mnem__template_refuse(r->t, "%s: byte %zu of the JSON: %s", r->what, (size_t)(r->at - r->begin),
                          why);
}

static void skip_space(json_reader *r) {
    while (r->at < r->end && strchr(" \t\n\r", *r->at)) r->at++;
}

static bool skip_char(json_reader *r, char c) {
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

/* ---- texts ---- */

static uint32_t read_hex(json_reader *r) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = *r->at, low = (char)(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(low >= 'a' && low <= 'f'))
            bad(r, "\\u must be followed by 4 hexadecimal digits");
        value = value * 16 + (uint32_t)(digit ? c - '0' : low - 'a' + 10);
        r->at++;
    }
    return value;
}

static void read_unicode(json_reader *r) {
    uint32_t c = read_hex(r);
    if (c >= 0xD800 && c < 0xDC00 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        const uint32_t low = read_hex(r);
        if (low < 0xDC00 || low > 0xDFFF)
            bad(r, "\\u gives one half of a surrogate pair without the other");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (c >= 0xD800 && c <= 0xDFFF)
        bad(r, "\\u gives one half of a surrogate pair without the other");
    mnem__template_put_char(r->t, c);
}

static void read_escape(json_reader *r) {
    static const char letters[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
    const char c = *r->at++;
    const char *p = c ? strchr(letters, c) : NULL;
    if (c == 'u')
        read_unicode(r);
    else if (p)
        mnem__template_put(r->t, &chars[p - letters], 1);
    else
        bad(r, "a backslash must be followed by one of \"\\/bfnrtu");
}

static mnem__any read_text(json_reader *r) {
    const size_t mark = r->t->out_bytes;
    for (;;) {
        size_t n = 0;
        while (r->at + n < r->end && r->at[n] != '"' && r->at[n] != '\\' &&
               (unsigned char)r->at[n] >= 0x20)
            n++;
        mnem__template_put(r->t, r->at, n);
        r->at += n;
        if (*r->at == '"') break;
        if (r->at == r->end) bad(r, "a string lacks its closing quote");
        if (*r->at != '\\') bad(r, "a control character in a string must be escaped");
        r->at++;
        read_escape(r);
    }
    r->at++;
    return mnem__template_cut(r->t, mark);
}

/* ---- numbers ---- */

static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

/* As many digits as Python turns into an int. */
static mnem__any whole_of(json_reader *r, const char *begin) {
    enum { DIGITS_MOST = 4300 };
    const size_t n = (size_t)(r->at - begin), digits = n - (*begin == '-');
    if (digits > DIGITS_MOST) bad(r, "an integer has more than 4300 digits, the limit");
    errno = 0;
    const long long value = strtoll(begin, NULL, 10);
    if (!errno) return mnem__any_int(value);
    mnem__any big = mnem__template_copy(r->t, begin, n);
    big.kind = MNEM__ANY_BIG;
    return big;
}

static mnem__any read_number(json_reader *r) {
    const char *begin = r->at;
    bool whole = true;
    if (*r->at == '-') r->at++;
    const size_t digits = count_digits(r->at);
    if (digits == 0 || (digits > 1 && *r->at == '0')) bad(r, "expected a value");
    r->at += digits;
    if (*r->at == '.') {
        whole = false;
        const size_t n = count_digits(++r->at);
        if (n == 0) bad(r, "expected a digit after the point of a number");
        r->at += n;
    }
    if (*r->at == 'e' || *r->at == 'E') {
        whole = false;
        r->at++;
        if (*r->at == '+' || *r->at == '-') r->at++;
        const size_t n = count_digits(r->at);
        if (n == 0) bad(r, "expected a digit in the exponent of a number");
        r->at += n;
    }
    if (whole) return whole_of(r, begin);
    return mnem__any_float(strtod(begin, NULL)); /* ends where the number does */
}

/* ---- values ---- */

static mnem__any read_value(json_reader *r);

static mnem__any read_list(json_reader *r) {
    const mnem__any list = mnem__any_list_make(r->t, MNEM__ANY_LIST, 0);
    if (skip_char(r, ']')) return list;
    do mnem__any_list_add(r->t, list.list, read_value(r));
    while (skip_char(r, ','));
    if (!skip_char(r, ']')) bad(r, "expected ',' or ']' after an item of a list");
    return list;
}

static mnem__any read_object(json_reader *r) {
    const mnem__any dict = mnem__any_dict_make(r->t, MNEM__ANY_DICT);
    if (skip_char(r, '}')) return dict;
    do {
        if (!skip_char(r, '"')) bad(r, "expected the name of a member in double quotes");
        const mnem__any key = read_text(r);
        if (!skip_char(r, ':')) bad(r, "expected ':' after the name of a member");
        mnem__any_dict_set(r->t, dict.dict, key, read_value(r));
    } while (skip_char(r, ','));
    if (!skip_char(r, '}')) bad(r, "expected ',' or '}' after a member of an object");
    return dict;
}

static bool skip_word(json_reader *r, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static mnem__any read_value(json_reader *r) {
    mnem__any value;
    mnem__template_enter(r->t);
    if (skip_char(r, '"'))
        value = read_text(r);
    else if (skip_char(r, '['))
        value = read_list(r);
    else if (skip_char(r, '{'))
        value = read_object(r);
    else if (skip_word(r, "null"))
        value = mnem__any_of(MNEM__ANY_NONE);
    else if (skip_word(r, "true"))
        value = mnem__any_bool(true);
    else if (skip_word(r, "false"))
        value = mnem__any_bool(false);
    else
        value = read_number(r);
    mnem__template_leave(r->t);
    return value;
}

mnem__any mnem__template_json_read(mnem_template *t, const char *text, const char *what) {
    const size_t n = strlen(text);
    json_reader r = {t, text, text, text + n, what};
    r.at = text + mnem__utf8_invalid(text, n);
    if (r.at < r.end) bad(&r, "the text is not valid UTF-8");
    r.at = text;
    const mnem__any value = read_value(&r);
    skip_space(&r);
    if (r.at < r.end) bad(&r, "the JSON value has ended, but more text follows");
    return value;
}
