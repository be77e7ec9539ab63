/* template_text.c: Python's str() and repr() of values, and numbers from text.
 *
 * A float is written with the fewest digits that read back as the same number. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/values/template_chars.h"
#include "text/values/template_private.h"

/* ---- numbers ---- */

/* "1.5e+20" as %e wrote it: its digits and the power of ten of the first one. */
static int split_exponent(char *text, char digits[32]) {
    size_t n = 0;
    char *e = strchr(text, 'e');
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    return atoi(e + 1);
}

void mnem__template_put_float(mnem_template *t, double f) {
    char text[64], digits[32];
    if (!isfinite(f)) {
        mnem__template_puts(t, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(f));
        if (strtod(text, NULL) == fabs(f)) break;
    }
    const int exponent = split_exponent(text, digits), n = (int)strlen(digits);
    if (signbit(f)) mnem__template_put(t, "-", 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof text, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        snprintf(text, sizeof text, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else if (n <= exponent + 1) {
        snprintf(text, sizeof text, "%s%.*s.0", digits, exponent + 1 - n, "0000000000000000");
    } else {
        snprintf(text, sizeof text, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
    mnem__template_puts(t, text);
}

/* What a number is read from: ended by a zero, in buffer where it is short. */
typedef struct number_text {
    char *text;
    size_t length;
    char buffer[128];
} number_text;

static bool is_ascii_alnum(char c, bool letters) {
    const char low = (char)(c | 0x20);
    return (c >= '0' && c <= '9') || (letters && low >= 'a' && low <= 'z');
}

/* A text as int() and float() read it: digits of any script as ASCII's, without white space around
 * it and single underscores between digits, which may be letters. False: it is none of those. */
static bool clean(mnem_template *t, mnem__any a, bool letters, number_text *out) {
    const size_t begin = mnem__char_space_before(a.text, a.length);
    const size_t end = a.length - mnem__char_space_behind(a.text + begin, a.length - begin);
    bool bar = false; /* the last character was an underscore */
    mnem__template_step(t, a.length / 64);
    out->text =
        end - begin < sizeof out->buffer ? out->buffer : mnem__template_take(t, end - begin + 1);
    out->length = 0;
    for (size_t at = begin; at < end;) {
        const uint32_t c = mnem__char_next(a.text, &at);
        const int digit = mnem__char_decimal(c);
        const char ascii = digit >= 0 ? (char)('0' + digit) : (char)c;
        if (c >= 0x80 && digit < 0) return false;
        const char near = bar || !out->length ? ascii : out->text[out->length - 1];
        if ((bar || c == '_') && (!out->length || !is_ascii_alnum(near, letters))) return false;
        bar = c == '_';
        if (!bar) out->text[out->length++] = ascii;
    }
    out->text[out->length] = 0;
    return out->length > 0 && !bar;
}

bool mnem__template_read_float(mnem_template *t, mnem__any text, double *f) {
    number_text number;
    char *end;
    if (!clean(t, text, false, &number)) return false;
    const char *digits = number.text + (number.text[0] == '-' || number.text[0] == '+');
    if (strpbrk(digits, "xXpP(")) return false; /* what C takes beyond Python */
    *f = strtod(number.text, &end);
    return end == number.text + number.length;
}

/* 16 of "0x"; 0: none. */
static int64_t prefix_base(const char *text) {
    if (text[0] != '0' || !text[1]) return 0;
    const char c = (char)(text[1] | 0x20);
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

bool mnem__template_read_int(mnem_template *t, mnem__any text, int64_t base, int64_t *i) {
    number_text number;
    char *end;
    if (base < 0 || base == 1 || base > 36 || !clean(t, text, true, &number)) return false;
    const bool minus = number.text[0] == '-';
    const char *digits = number.text + (minus || number.text[0] == '+');
    const int64_t prefix = prefix_base(digits);
    if (prefix && (base == 0 || base == prefix)) digits += 2;
    if (base == 0) base = prefix ? prefix : 10;
    if (!is_ascii_alnum(*digits, true)) return false;
    errno = 0;
    const unsigned long long u = strtoull(digits, &end, (int)base);
    if (end != number.text + number.length) return false;
    if (errno || u > (unsigned long long)INT64_MAX + minus)
        mnem__template_refuse(t, "the integer %.40s does not fit in 64 bits", number.text);
    *i = minus ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

/* ---- texts ---- */

void mnem__template_put_char(mnem_template *t, uint32_t c) {
    char bytes[4];
    mnem__template_put(t, bytes, mnem__char_write(c, bytes));
}

static void put_repr_char(mnem_template *t, uint32_t c, char quote) {
    static const char plain[] = "\t\n\r\\", letters[] = "tnr\\";
    char text[16];
    const char *named = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (named)
        snprintf(text, sizeof text, "\\%c", letters[named - plain]);
    else if (c == (unsigned char)quote)
        snprintf(text, sizeof text, "\\%c", quote);
    else if (mnem__char_is_printable(c)) {
        mnem__template_put_char(t, c);
        return;
    } else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    mnem__template_puts(t, text);
}

static void put_text_repr(mnem_template *t, mnem__any a) {
    const bool single = a.length > 0 && memchr(a.text, '\'', a.length);
    const char quote = single && !memchr(a.text, '"', a.length) ? '"' : '\'';
    if (a.flag == MNEM__TEXT_SAFE) mnem__template_puts(t, "Markup(");
    mnem__template_put(t, &quote, 1);
    for (size_t at = 0; at < a.length;) put_repr_char(t, mnem__char_next(a.text, &at), quote);
    mnem__template_put(t, &quote, 1);
    if (a.flag == MNEM__TEXT_SAFE) mnem__template_puts(t, ")");
}

void mnem__template_put_escaped(mnem_template *t, mnem__any a) {
    static const char special[] = "&<>'\"";
    static const char *const words[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    a = mnem__template_str(t, a);
    for (size_t i = 0; i < a.length; i++) {
        const char *p = a.text[i] ? strchr(special, a.text[i]) : NULL;
        if (p && a.flag != MNEM__TEXT_SAFE)
            mnem__template_puts(t, words[p - special]);
        else
            mnem__template_put(t, &a.text[i], 1);
    }
}

/* ---- containers ---- */

static void put_items(mnem_template *t, const mnem__any_list *list, const char *open,
                      const char *close) {
    mnem__template_puts(t, open);
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0) mnem__template_puts(t, ", ");
        mnem__template_put_repr(t, list->items[i]);
    }
    mnem__template_puts(t, close);
}

static void put_dict(mnem_template *t, const mnem__any_dict *dict) {
    mnem__template_puts(t, "{");
    for (uint32_t i = 0; i < dict->count; i++) {
        if (i > 0) mnem__template_puts(t, ", ");
        mnem__template_put_repr(t, dict->entries[i].key);
        mnem__template_puts(t, ": ");
        mnem__template_put_repr(t, dict->entries[i].value);
    }
    mnem__template_puts(t, "}");
}

static void put_view(mnem_template *t, mnem__any a) {
    static const char *const opens[] = {"dict_keys([", "dict_values([", "dict_items(["};
    put_items(t, mnem__any_items(t, a), opens[a.view->of], "])");
}

static void put_range(mnem_template *t, const mnem__any_range *r) {
    char text[96];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    mnem__template_puts(t, text);
}

static void put_number(mnem_template *t, mnem__any a) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)a.i);
    mnem__template_puts(t, text);
}

static void put_container(mnem_template *t, mnem__any a) {
    mnem__template_enter(t);
    switch (a.kind) {
    case MNEM__ANY_LIST: put_items(t, a.list, "[", "]"); break;
    case MNEM__ANY_TUPLE: put_items(t, a.list, "(", a.list->count == 1 ? ",)" : ")"); break;
    case MNEM__ANY_DICT: put_dict(t, a.dict); break;
    case MNEM__ANY_VIEW: put_view(t, a); break;
    case MNEM__ANY_RANGE: put_range(t, a.range); break;
    case MNEM__ANY_NAMESPACE:
        mnem__template_puts(t, "<Namespace ");
        put_dict(t, a.dict);
        mnem__template_puts(t, ">");
        break;
    default: /* Python shows an address here */
        mnem__template_puts(t, "<");
        mnem__template_puts(t, mnem__any_type(a));
        mnem__template_puts(t, " object>");
    }
    mnem__template_leave(t);
}

void mnem__template_put_repr(mnem_template *t, mnem__any a) {
    switch (a.kind) {
    case MNEM__ANY_UNDEFINED: mnem__template_puts(t, "Undefined"); break;
    case MNEM__ANY_NONE: mnem__template_puts(t, "None"); break;
    case MNEM__ANY_BOOL: mnem__template_puts(t, a.i ? "True" : "False"); break;
    case MNEM__ANY_INT: put_number(t, a); break;
    case MNEM__ANY_BIG: mnem__template_put(t, a.text, a.length); break;
    case MNEM__ANY_FLOAT: mnem__template_put_float(t, a.f); break;
    case MNEM__ANY_TEXT: put_text_repr(t, a); break;
    default: put_container(t, a);
    }
}

void mnem__template_put_str(mnem_template *t, mnem__any a) {
    if (mnem__any_is(a, MNEM__ANY_TEXT))
        mnem__template_put(t, a.text, a.length);
    else if (!mnem__any_is(a, MNEM__ANY_UNDEFINED))
        mnem__template_put_repr(t, a);
}

mnem__any mnem__template_str(mnem_template *t, mnem__any a) {
    if (mnem__any_is(a, MNEM__ANY_TEXT)) return a;
    const size_t mark = t->out_bytes;
    mnem__template_put_str(t, a);
    return mnem__template_cut(t, mark);
}
