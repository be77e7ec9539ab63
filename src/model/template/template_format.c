/* template_format.c: Python's two ways to put values into a text: '%s' % x and '{}'.format(x).
 *
 * A place is read into a spec (width, precision, ...), a value written by it into the output and
 * padded there. Not here: {x:,} of floats, !a, nested specs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/template/template_call.h"
#include "model/values/template_chars.h"

typedef struct spec {
    char fill[4];
    size_t fill_bytes;
    char align; /* < > ^ = or 0 */
    char sign;  /* + - or space */
    char type;
    bool alternate, commas;
    int width, precision; /* precision -1: none */
} spec;

enum { WIDTH_MAX = 1 << 20 };

static int read_count(mnem_template *t, mnem__any text, size_t *at) {
    int count = 0;
    for (; *at < text.length && text.text[*at] >= '0' && text.text[*at] <= '9'; (*at)++) {
        count = count * 10 + (text.text[*at] - '0');
        if (count > WIDTH_MAX) mnem__template_refuse(t, "a width of more than %d", WIDTH_MAX);
    }
    return count;
}

static char char_at(mnem__any text, size_t at) {
    return at < text.length ? text.text[at] : 0;
}

/* ---- values ---- */

/* What was put since mark, padded to the spec's width. */
static void pad(mnem_template *t, const spec *s, size_t mark, char align) {
    const int64_t n = (int64_t)mnem__char_count(t->out + mark, t->out_bytes - mark);
    const int64_t room = s->width - n;
    if (room <= 0) return;
    if (s->align) align = s->align;
    const mnem__any text = mnem__template_cut(t, mark);
    const bool sign = align == '=' && text.length > 0 && strchr("+- ", *text.text);
    const int64_t before = align == '<' ? 0 : align == '^' ? room / 2 : room;
    if (sign) mnem__template_put(t, text.text, 1);
    for (int64_t i = 0; i < before; i++) mnem__template_put(t, s->fill, s->fill_bytes);
    mnem__template_put(t, text.text + sign, text.length - sign);
    for (int64_t i = before; i < room; i++) mnem__template_put(t, s->fill, s->fill_bytes);
}

static void put_text(mnem_template *t, const spec *s, mnem__any text) {
    const size_t mark = t->out_bytes;
    size_t n = text.length;
    if (s->precision >= 0) n = mnem__char_offset(text.text, n, (size_t)s->precision);
    mnem__template_put(t, text.text, n);
    pad(t, s, mark, '<');
}

static void put_sign(mnem_template *t, const spec *s, bool minus) {
    if (minus || s->sign == '+' || s->sign == ' ') mnem__template_put(t, minus ? "-" : &s->sign, 1);
}

/* Digits with commas between groups of three. */
static void put_digits(mnem_template *t, const spec *s, const char *digits) {
    const size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        if (s->commas && i > 0 && (n - i) % 3 == 0) mnem__template_put(t, ",", 1);
        mnem__template_put(t, digits + i, 1);
    }
}

static void put_int(mnem_template *t, const spec *s, int64_t i) {
    const size_t mark = t->out_bytes;
    char digits[72];
    const bool minus = i < 0;
    const uint64_t u = minus ? 0 - (uint64_t)i : (uint64_t)i;
    put_sign(t, s, minus);
    if (s->type == 'b') {
        size_t at = sizeof digits - 1;
        digits[at] = 0;
        for (uint64_t rest = u; rest || at == sizeof digits - 1; rest /= 2)
            digits[--at] = (char)('0' + rest % 2);
        memmove(digits, digits + at, sizeof digits - at);
    } else {
        const char *format = s->type == 'x'   ? "%llx"
                             : s->type == 'X' ? "%llX"
                             : s->type == 'o' ? "%llo"
                                              : "%llu";
        snprintf(digits, sizeof digits, format, (unsigned long long)u);
    }
    if (s->alternate && strchr("xXob", s->type)) {
        mnem__template_put(t, "0", 1);
        mnem__template_put(t, &s->type, 1);
    }
    for (int64_t n = (int64_t)strlen(digits); n < s->precision; n++) mnem__template_put(t, "0", 1);
    put_digits(t, s, digits);
    pad(t, s, mark, '>');
}

static void put_float(mnem_template *t, const spec *s, double f) {
    const size_t mark = t->out_bytes;
    char text[512], format[] = "%.*f";
    const char type = s->type == '%' ? 'f' : s->type;
    const int precision = s->precision < 0 ? 6 : s->precision;
    if (precision > 100) mnem__template_refuse(t, "a precision of more than 100");
    if (s->type == '%') f *= 100;
    put_sign(t, s, signbit(f) && !isnan(f));
    format[3] = type;
    if (type)
        snprintf(text, sizeof text, format, precision, fabs(f));
    else if (s->precision >= 0)
        snprintf(text, sizeof text, "%.*g", precision, fabs(f));
    char *point = type ? strchr(text, '.') : NULL;
    if (!type && s->precision < 0) {
        mnem__template_put_float(t, fabs(f));
    } else if (s->commas && point) {
        *point = 0;
        put_digits(t, s, text);
        mnem__template_put(t, ".", 1);
        mnem__template_puts(t, point + 1);
    } else {
        mnem__template_puts(t, text);
    }
    if (s->type == '%') mnem__template_put(t, "%", 1);
    pad(t, s, mark, '>');
}

/* ---- percent ---- */

/* Behind '%': its flags, width and precision. */
static spec read_percent(mnem_template *t, mnem__any text, size_t *at) {
    spec s = {.fill = " ", .fill_bytes = 1, .precision = -1};
    bool zeros = false;
    for (char c; (c = char_at(text, *at)) != 0 && strchr("-+ 0#", c); (*at)++) {
        if (c == '-') s.align = '<';
        if (c == '0') zeros = true;
        if (c == '#') s.alternate = true;
        if (c == '+' || (c == ' ' && !s.sign)) s.sign = c;
    }
    s.width = read_count(t, text, at);
    if (char_at(text, *at) == '.') {
        ++*at;
        s.precision = read_count(t, text, at);
    }
    s.type = char_at(text, *at);
    ++*at;
    if (zeros && !s.align && !strchr("src", s.type)) {
        s.align = '=';
        s.fill[0] = '0';
    }
    return s;
}

static void put_percent_int(mnem_template *t, spec s, mnem__any value) {
    if (!mnem__any_number(value) ||
        (s.type != 'd' && s.type != 'i' && s.type != 'u' && mnem__any_is(value, MNEM__ANY_FLOAT)))
        mnem__template_refuse(t, "%%%c wants a number, not a %s", s.type, mnem__any_type(value));
    if (mnem__any_is(value, MNEM__ANY_FLOAT)) {
        if (!(fabs(value.f) < 9e18)) mnem__template_refuse(t, "a number passes 64 bits");
        value = mnem__any_int((int64_t)value.f);
    }
    if (strchr("diu", s.type)) s.type = 'd';
    put_int(t, &s, value.i);
}

static void put_percent(mnem_template *t, spec s, mnem__any value) {
    const size_t mark = t->out_bytes;
    if (!s.align) s.align = '>';
    switch (s.type) {
    case 's':
    case 'r':
        if (s.type == 'r')
            mnem__template_put_repr(t, value);
        else
            mnem__template_put_str(t, value);
        put_text(t, &s, mnem__template_cut(t, mark));
        return;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': put_percent_int(t, s, value); return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!mnem__any_number(value))
            mnem__template_refuse(t, "%%%c wants a number, not a %s", s.type,
                                  mnem__any_type(value));
        put_float(t, &s, mnem__any_f64(value));
        return;
    default: mnem__template_refuse(t, "%% before what isn't a format");
    }
}

/* The value for the next place: by a name in brackets, or the next of a tuple. */
static mnem__any percent_value(mnem_template *t, mnem__any text, size_t *at, mnem__any values,
                               uint32_t *next) {
    const bool tuple = mnem__any_is(values, MNEM__ANY_TUPLE);
    if (char_at(text, *at) == '(') {
        const char *close = memchr(text.text + *at, ')', text.length - *at);
        if (!close || !mnem__any_is(values, MNEM__ANY_DICT))
            mnem__template_refuse(t, "%%(name) wants a dict");
        const size_t begin = *at + 1, n = (size_t)(close - text.text) - begin;
        const mnem__any *value =
            mnem__any_dict_find(t, values.dict, mnem__any_text(text.text + begin, n));
        if (!value) mnem__template_refuse(t, "%%(name): the dict has no such key");
        *at = begin + n + 1;
        *next = UINT32_MAX; /* no count of places */
        return *value;
    }
    if (*next >= (tuple ? values.list->count : 1))
        mnem__template_refuse(t, "%% has more places than values");
    return tuple ? values.list->items[(*next)++] : ((*next)++, values);
}

mnem__any mnem__text_percent(mnem_template *t, mnem__any text, mnem__any values) {
    const size_t mark = t->out_bytes;
    const bool tuple = mnem__any_is(values, MNEM__ANY_TUPLE);
    uint32_t next = 0;
    for (size_t at = 0; at < text.length;) {
        const char *sign = memchr(text.text + at, '%', text.length - at);
        const size_t n = sign ? (size_t)(sign - text.text) - at : text.length - at;
        mnem__template_put(t, text.text + at, n);
        at += n + 1;
        if (!sign) break;
        if (char_at(text, at) == '%') {
            mnem__template_put(t, "%", 1);
            at++;
            continue;
        }
        size_t flags = at;
        mnem__any value = mnem__any_of(MNEM__ANY_MISSING);
        if (char_at(text, at) == '(') value = percent_value(t, text, &flags, values, &next);
        const spec s = read_percent(t, text, &flags);
        if (!mnem__is_given(value)) value = percent_value(t, text, &at, values, &next);
        at = flags;
        put_percent(t, s, value);
    }
    const bool counts =
        tuple ||
        !(mnem__any_is(values, MNEM__ANY_DICT) || mnem__any_is(values, MNEM__ANY_LIST) ||
          mnem__any_is(values, MNEM__ANY_RANGE) || mnem__any_is(values, MNEM__ANY_UNDEFINED));
    if (counts && next < (tuple ? values.list->count : 1))
        mnem__template_refuse(t, "%% has fewer places than values");
    return mnem__template_cut(t, mark);
}

/* ---- format() ---- */

static spec read_spec(mnem_template *t, mnem__any text) {
    spec s = {.fill = " ", .fill_bytes = 1, .precision = -1};
    size_t at = 0;
    const size_t first = text.length ? mnem__char_bytes(text.text[0]) : 0;
    if (first && char_at(text, first) && strchr("<>^=", char_at(text, first))) {
        memcpy(s.fill, text.text, first);
        s.fill_bytes = first;
        s.align = text.text[first];
        at = first + 1;
    } else if (first && strchr("<>^=", text.text[0])) {
        s.align = text.text[at++];
    }
    if (char_at(text, at) && strchr("+- ", char_at(text, at))) s.sign = text.text[at++];
    if (char_at(text, at) == '#') {
        s.alternate = true;
        at++;
    }
    if (char_at(text, at) == '0') {
        if (!s.align) {
            s.align = '=';
            s.fill[0] = '0';
        }
        at++;
    }
    s.width = read_count(t, text, &at);
    if (char_at(text, at) == ',') {
        s.commas = true;
        at++;
    }
    if (char_at(text, at) == '.') {
        at++;
        s.precision = read_count(t, text, &at);
    }
    if (at < text.length) s.type = text.text[at++];
    if (at < text.length) mnem__template_refuse(t, "format(): no such format");
    return s;
}

/* A value by what stands behind ':' in its place. */
static void put_formatted(mnem_template *t, mnem__any value, mnem__any format) {
    const spec s = read_spec(t, format);
    const bool whole = mnem__any_is(value, MNEM__ANY_INT) ||
                       (mnem__any_is(value, MNEM__ANY_BOOL) && format.length > 0);
    const bool float_type = s.type && strchr("eEfFgG%", s.type);
    if (whole && !float_type) {
        if (s.type && !strchr("bdoxXn", s.type)) mnem__template_refuse(t, "format(): no such type");
        if (s.precision >= 0) mnem__template_refuse(t, "format(): a precision of a whole number");
        put_int(t, &s, value.i);
    } else if (whole || mnem__any_is(value, MNEM__ANY_FLOAT)) {
        if (s.type && !float_type) mnem__template_refuse(t, "format(): no such type");
        put_float(t, &s, mnem__any_f64(value));
    } else if (mnem__any_is(value, MNEM__ANY_TEXT)) {
        if ((s.type && s.type != 's') || s.align == '=' || s.sign)
            mnem__template_refuse(t, "format(): no such type");
        put_text(t, &s, value);
    } else {
        if (format.length > 0)
            mnem__template_refuse(t, "format(): a %s has no formats", mnem__any_type(value));
        mnem__template_put_str(t, value);
    }
}

/* The value that "", "0", "name", "name.a" or "0[a]" means. */
static mnem__any format_value(mnem_template *t, mnem__any field, const mnem__arguments *arguments,
                              uint32_t *next) {
    size_t at = 0;
    mnem__any value = mnem__any_of(MNEM__ANY_MISSING);
    while (at < field.length && !strchr(".[", field.text[at])) at++;
    const mnem__any name = mnem__any_text(field.text, at);
    size_t digits = 0;
    const int number = read_count(t, name, &digits);
    if (digits == name.length) {
        const uint32_t i = name.length ? (uint32_t)number : (*next)++;
        if (arguments->list && i < arguments->list->count) value = arguments->list->items[i];
    } else if (arguments->named) {
        const mnem__any *found = mnem__any_dict_find(t, arguments->named, name);
        if (found) value = *found;
    }
    if (!mnem__is_given(value)) mnem__template_refuse(t, "format(): a place without a value");
    while (at < field.length) {
        const bool item = field.text[at++] == '[';
        const size_t begin = at;
        while (at < field.length && (item ? field.text[at] != ']' : !strchr(".[", field.text[at])))
            at++;
        mnem__any key = mnem__any_text(field.text + begin, at - begin);
        int64_t i;
        if (item && key.length > 0 && strspn(key.text, "0123456789") >= key.length &&
            mnem__template_read_int(t, key, 10, &i))
            key = mnem__any_int(i);
        value = item ? mnem__template_item(t, value, key) : mnem__template_attribute(t, value, key);
        if (item && at++ == field.length) mnem__template_refuse(t, "format(): '[' without ']'");
    }
    return value;
}

/* A place, from behind '{' to behind '}'. */
static size_t put_place(mnem_template *t, mnem__any text, size_t at,
                        const mnem__arguments *arguments, uint32_t *next) {
    const char *close = memchr(text.text + at, '}', text.length - at);
    if (!close) mnem__template_refuse(t, "format(): '{' without '}'");
    const size_t end = (size_t)(close - text.text);
    const char *colon = memchr(text.text + at, ':', end - at);
    const size_t stop = colon ? (size_t)(colon - text.text) : end;
    const char *mark = memchr(text.text + at, '!', stop - at);
    const size_t name_end = mark ? (size_t)(mark - text.text) : stop;
    if (memchr(text.text + at, '{', end - at)) mnem__template_refuse(t, "format(): a nested place");
    mnem__any value =
        format_value(t, mnem__any_text(text.text + at, name_end - at), arguments, next);
    if (mark) {
        const size_t out = t->out_bytes;
        const char how = name_end + 2 == stop ? text.text[name_end + 1] : 0;
        if (how != 'r' && how != 's') mnem__template_refuse(t, "format(): no such conversion");
        if (how == 'r')
            mnem__template_put_repr(t, value);
        else
            mnem__template_put_str(t, value);
        value = mnem__template_cut(t, out);
    }
    const size_t from = colon ? stop + 1 : end;
    put_formatted(t, value, mnem__any_text(text.text + from, end - from));
    return end + 1;
}

mnem__any mnem__text_format(mnem_template *t, mnem__any text, const mnem__arguments *arguments) {
    const size_t mark = t->out_bytes;
    uint32_t next = 0;
    for (size_t at = 0; at < text.length;) {
        const char c = text.text[at], second = char_at(text, at + 1);
        if ((c == '{' || c == '}') && second == c) {
            mnem__template_put(t, &c, 1);
            at += 2;
        } else if (c == '{') {
            at = put_place(t, text, at + 1, arguments, &next);
        } else if (c == '}') {
            mnem__template_refuse(t, "format(): '}' without '{'");
        } else {
            mnem__template_put(t, &c, 1);
            at++;
        }
    }
    return mnem__template_cut(t, mark);
}
