/* template_spec.c: texts and numbers in Python's formats, padded, with groups of digits.
 *
 * A number is written in three parts, so that zeros and signs come between them:
 *
 *     sign, prefix ("0x") | digits, in groups | the rest (".50", "e+16", "%") */
#include "text/template/template_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/values/template_chars.h"

enum { WIDTH_MAX = 1 << 20, PRECISION_MAX = 100 };

void mnem__spec_check(mnem_template *t, int64_t count) {
    if (count > WIDTH_MAX)
        mnem__template_refuse(t, "a number in a format exceeds %d, the limit", WIDTH_MAX);
}

int mnem__spec_count(mnem_template *t, mnem__any text, size_t *at) {
    int count = 0;
    for (; *at < text.length && text.text[*at] >= '0' && text.text[*at] <= '9'; (*at)++) {
        count = count * 10 + (text.text[*at] - '0');
        mnem__spec_check(t, count);
    }
    return count;
}

/* What was put since mark, padded to the width; its first head bytes stand before what is put
 * behind a sign. */
static void pad(mnem_template *t, const mnem__spec *s, size_t mark, size_t head, char align) {
    const int64_t n = (int64_t)mnem__char_count(t->out + mark, t->out_bytes - mark);
    const int64_t room = s->width - n;
    if (room <= 0) return;
    if (s->align) align = s->align;
    const mnem__any text = mnem__template_cut(t, mark);
    if (align != '=') head = 0;
    const int64_t before = align == '<' ? 0 : align == '^' ? room / 2 : room;
    mnem__template_put(t, text.text, head);
    for (int64_t i = 0; i < before; i++) mnem__template_put(t, s->fill, s->fill_bytes);
    mnem__template_put(t, text.text + head, text.length - head);
    for (int64_t i = before; i < room; i++) mnem__template_put(t, s->fill, s->fill_bytes);
}

void mnem__spec_put_text(mnem_template *t, const mnem__spec *s, mnem__any text) {
    const size_t mark = t->out_bytes;
    size_t n = text.length;
    if (s->precision >= 0) n = mnem__char_offset(text.text, n, (size_t)s->precision);
    mnem__template_put(t, text.text, n);
    pad(t, s, mark, 0, '<');
}

static void put_sign(mnem_template *t, const mnem__spec *s, bool minus) {
    if (minus || s->sign == '+' || s->sign == ' ') mnem__template_put(t, minus ? "-" : &s->sign, 1);
}

/* Digits in groups. Where zeros fill the width they are in groups, too: as many as make what is
 * put reach room bytes. */
static void put_groups(mnem_template *t, const mnem__spec *s, const char *digits, size_t n,
                       int64_t room) {
    const size_t group = s->type && strchr("bxXo", s->type) ? 4 : 3;
    size_t all = n;
    if (s->align == '=' && s->fill[0] == '0')
        while (n > 0 && (int64_t)(all + (all - 1) / group) < room) all++;
    for (size_t i = 0; i < all; i++) {
        if (i > 0 && (all - i) % group == 0) mnem__template_put(t, &s->group, 1);
        mnem__template_put(t, i + n < all ? "0" : digits + (i - (all - n)), 1);
    }
}

/* Behind the sign and the prefix, which are what was put since mark. */
static void put_number(mnem_template *t, const mnem__spec *s, size_t mark, const char *text) {
    const size_t head = t->out_bytes - mark, n = strspn(text, "0123456789abcdefABCDEF");
    const size_t digits = s->type && strchr("bxXo", s->type) ? n : strspn(text, "0123456789");
    const size_t rest = strlen(text) - digits;
    if (s->group)
        put_groups(t, s, text, digits, s->width - (int64_t)(head + rest));
    else
        mnem__template_put(t, text, digits);
    mnem__template_put(t, text + digits, rest);
    pad(t, s, mark, head, '>');
}

static void write_bits(uint64_t u, char out[72]) {
    int bits = 1;
    while (bits < 64 && u >> bits) bits++;
    for (int i = 0; i < bits; i++) out[i] = (char)('0' + (u >> (bits - 1 - i) & 1));
    out[bits] = 0;
}

void mnem__spec_put_int(mnem_template *t, const mnem__spec *s, int64_t i) {
    const size_t mark = t->out_bytes;
    char digits[72];
    const uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *format = s->type == 'x'   ? "%llx"
                         : s->type == 'X' ? "%llX"
                         : s->type == 'o' ? "%llo"
                                          : "%llu";
    put_sign(t, s, i < 0);
    if (s->type == 'b')
        write_bits(u, digits);
    else
        snprintf(digits, sizeof digits, format, (unsigned long long)u);
    if (s->alternate && s->type && strchr("xXob", s->type)) {
        mnem__template_put(t, "0", 1);
        mnem__template_put(t, &s->type, 1);
    }
    const int64_t zeros = s->precision - (int64_t)strlen(digits);
    const size_t head = t->out_bytes - mark;
    if (zeros <= 0) {
        put_number(t, s, mark, digits);
        return;
    }
    for (int64_t n = 0; n < zeros; n++) mnem__template_put(t, "0", 1); /* % only: no groups */
    mnem__template_puts(t, digits);
    pad(t, s, mark, head, '>');
}

/* Takes zeros behind the point of "1.500e+16" away, and the point where nothing is behind it. */
static void drop_zeros(char *text) {
    char *e = strchr(text, 'e'), *end = e;
    if (!memchr(text, '.', (size_t)(e - text))) return;
    while (end[-1] == '0') end--;
    if (end[-1] == '.') end--;
    memmove(end, e, strlen(e) + 1);
}

/* Without a type but with a precision: significant digits, of which one stands behind the point,
 * or an exponent where they don't reach it. */
static void write_general(char *text, size_t size, const mnem__spec *s, double f) {
    const int digits = s->precision ? s->precision : 1;
    int exponent = 0;
    snprintf(text, size, s->alternate ? "%#.*e" : "%.*e", digits - 1, f);
    if (!isfinite(f)) return;
    sscanf(strchr(text, 'e') + 1, "%d", &exponent);
    if (exponent < -4 || exponent + 2 > digits) {
        if (!s->alternate) drop_zeros(text);
        return;
    }
    snprintf(text, size, s->alternate ? "%#.*g" : "%.*g", digits, f);
    if (!strchr(text, '.')) strcat(text, ".0");
}

/* Without both: the fewest digits that read back as f. */
static void write_shortest(mnem_template *t, char *text, const mnem__spec *s, double f) {
    const size_t mark = t->out_bytes;
    mnem__template_put_float(t, f);
    const mnem__any shortest = mnem__template_cut(t, mark);
    memcpy(text, shortest.text, shortest.length);
    text[shortest.length] = 0;
    char *e = strchr(text, 'e');
    if (!s->alternate || !e || strchr(text, '.')) return;
    memmove(e + 1, e, strlen(e) + 1);
    *e = '.';
}

void mnem__spec_put_float(mnem_template *t, const mnem__spec *s, double f) {
    const size_t mark = t->out_bytes;
    char text[512], format[] = "%#.*f";
    const int precision = s->precision < 0 ? 6 : s->precision;
    if (precision > PRECISION_MAX)
        mnem__template_refuse(t, "the precision in a format string is %d, expected at most %d",
                              precision, PRECISION_MAX);
    if (s->type == '%') f *= 100;
    format[4] = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;
    if (!s->alternate) memmove(format + 1, format + 2, sizeof format - 2);
    if (s->type) {
        snprintf(text, sizeof text - 2, format, precision, fabs(f));
    } else if (s->precision >= 0) {
        write_general(text, sizeof text - 2, s, fabs(f));
    } else {
        write_shortest(t, text, s, fabs(f));
    }
    if (s->type == '%') strcat(text, "%");
    put_sign(t, s, signbit(f) && !isnan(f));
    put_number(t, s, mark, text);
}

void mnem__spec_put_code(mnem_template *t, const mnem__spec *s, mnem__any code) {
    const size_t mark = t->out_bytes;
    if (!mnem__any_whole(code))
        mnem__template_refuse(t, "the format type c needs an integer, found a value of type %s",
                              mnem__any_type(code));
    if (code.i < 0 || code.i > 0x10FFFF || (code.i >= 0xD800 && code.i < 0xE000))
        mnem__template_refuse(t, "%lld is not the code of a Unicode character", (long long)code.i);
    mnem__template_put_char(t, (uint32_t)code.i);
    pad(t, s, mark, 0, '>');
}

mnem__any mnem__spec_ascii(mnem_template *t, mnem__any value) {
    const size_t mark = t->out_bytes;
    char escape[16];
    mnem__template_put_repr(t, value);
    const mnem__any text = mnem__template_cut(t, mark);
    for (size_t at = 0; at < text.length;) {
        const uint32_t c = mnem__char_next(text.text, &at);
        snprintf(escape, sizeof escape,
                 c < 0x80      ? "%c"
                 : c < 0x100   ? "\\x%02x"
                 : c < 0x10000 ? "\\u%04x"
                               : "\\U%08x",
                 c);
        mnem__template_put(t, escape, c < 0x80 ? 1 : strlen(escape));
    }
    return mnem__template_cut(t, mark);
}
