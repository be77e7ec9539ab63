/* template_format.c: '{} {name!r:>8}'.format(...), and the method format_map.
 *
 * A place has three parts, of which the last may have places itself, one deep:
 *
 *     {name.field[item] !r :>{width}.2f} */
#include <string.h>

#include "text/template/template_spec.h"
#include "text/values/template_chars.h"

/* What places take: a value by its number, which counts by itself or is written, or by its name. */
typedef struct format {
    const mnem__arguments *arguments;
    uint32_t next;
    bool counts, numbers; /* it counted; a number was written */
} format;

/* How much of a text a message shows. */
static int shown(mnem__any text) {
    return text.length < 40 ? (int)text.length : 40;
}

static _Noreturn void bad_type(mnem_template *t, mnem__any text, mnem__any value,
                               const char *types) {
    mnem__template_refuse(t, "format(): '%.*s' must end in one of %s for a value of type %s",
                          shown(text), text.text, types, mnem__any_type(value));
}

static mnem__spec read_spec(mnem_template *t, mnem__any text, bool of_text) {
    mnem__spec s = mnem__spec_plain();
    size_t at = 0;
    const size_t first = text.length ? mnem__char_bytes(text.text[0]) : 0;
    const char second = first ? mnem__spec_at(text, first) : 0;
    const bool filled = second && strchr("<>^=", second);
    if (filled) {
        memcpy(s.fill, text.text, first);
        s.fill_bytes = first;
        s.align = second;
        at = first + 1;
    } else if (first && strchr("<>^=", text.text[0])) {
        s.align = text.text[at++];
    }
    if (mnem__spec_at(text, at) && strchr("+- ", mnem__spec_at(text, at))) s.sign = text.text[at++];
    if (mnem__spec_at(text, at) == '#') {
        s.alternate = true;
        at++;
    }
    if (!filled && mnem__spec_at(text, at) == '0') {
        if (!s.align && !of_text) s.align = '=';
        s.fill[0] = '0';
        at++;
    }
    s.width = mnem__spec_count(t, text, &at);
    if (mnem__spec_at(text, at) == ',' || mnem__spec_at(text, at) == '_') s.group = text.text[at++];
    if (mnem__spec_at(text, at) == '.') {
        const size_t digits = ++at;
        s.precision = mnem__spec_count(t, text, &at);
        if (at == digits)
            mnem__template_refuse(
                t, "format(): '.' must be followed by a number of digits, as in '{:.2f}'");
    }
    if (at < text.length) s.type = text.text[at++];
    if (at < text.length)
        mnem__template_refuse(t, "format(): '%.*s' is not a format; write one as in '{:>8.2f}'",
                              shown(text), text.text);
    return s;
}

static void put_int(mnem_template *t, const mnem__spec *s, mnem__any value, mnem__any text) {
    if (s->type && !strchr("bcdoxXn", s->type)) bad_type(t, text, value, "bcdeEfFgGnoxX%");
    if (s->precision >= 0)
        mnem__template_refuse(t, "format(): '%.*s' has a precision, which an integer can't have",
                              shown(text), text.text);
    if (s->group && s->type && s->type != 'd' && (s->group == ',' || strchr("cn", s->type)))
        mnem__template_refuse(
            t, "format(): the format type %c can't have the separator '%c'; remove the separator",
            s->type, s->group);
    if (s->type != 'c') {
        mnem__spec_put_int(t, s, value.i);
        return;
    }
    if (s->sign || s->alternate)
        mnem__template_refuse(t,
                              "format(): the format type c can't have a sign or '#'; remove them");
    mnem__spec_put_code(t, s, mnem__any_int(value.i));
}

/* A value by what stands behind ':' in its place. */
static void put_formatted(mnem_template *t, mnem__any value, mnem__any text) {
    const mnem__spec s = read_spec(t, text, mnem__any_is(value, MNEM__ANY_TEXT));
    const bool whole = mnem__any_is(value, MNEM__ANY_INT) ||
                       (mnem__any_is(value, MNEM__ANY_BOOL) && text.length > 0);
    const bool float_type = s.type && strchr("eEfFgG%", s.type);
    if (whole && !float_type) {
        put_int(t, &s, value, text);
    } else if (whole || mnem__any_is(value, MNEM__ANY_FLOAT)) {
        if (s.type && !float_type && s.type != 'n') bad_type(t, text, value, "eEfFgGn%");
        if (s.group && s.type == 'n')
            mnem__template_refuse(
                t,
                "format(): the format type n can't have the separator '%c'; remove the separator",
                s.group);
        mnem__spec_put_float(t, &s, mnem__any_f64(value));
    } else if (mnem__any_is(value, MNEM__ANY_TEXT)) {
        if ((s.type && s.type != 's') || s.align == '=' || s.sign || s.alternate || s.group)
            mnem__template_refuse(t,
                                  "format(): '%.*s' is a format for numbers, but the value is text",
                                  shown(text), text.text);
        mnem__spec_put_text(t, &s, value);
    } else {
        if (text.length > 0)
            mnem__template_refuse(
                t, "format(): a value of type %s can't have the format '%.*s'; remove the format",
                mnem__any_type(value), shown(text), text.text);
        mnem__template_put_str(t, value);
    }
}

/* ---- names ---- */

/* What "", "0" or "name" means. */
static mnem__any first_value(mnem_template *t, format *f, mnem__any name) {
    size_t digits = 0;
    const int number = mnem__spec_count(t, name, &digits);
    mnem__any value = mnem__any_of(MNEM__ANY_MISSING);
    if (digits == name.length) {
        const uint32_t i = name.length ? (uint32_t)number : f->next++;
        f->counts |= name.length == 0;
        f->numbers |= name.length > 0;
        if (f->counts && f->numbers)
            mnem__template_refuse(
                t, "format(): fields with a number ({0}) and without ({}) are mixed; use one kind");
        if (f->arguments->list && i < f->arguments->list->count)
            value = f->arguments->list->items[i];
    } else if (f->arguments->named) {
        const mnem__any *found = mnem__any_dict_find(t, f->arguments->named, name);
        if (found) value = *found;
    }
    if (!mnem__is_given(value))
        mnem__template_refuse(t, "format(): no value is given for the field '{%.*s}'", shown(name),
                              name.text);
    return value;
}

/* What "name.a" or "0[a]" means. */
static mnem__any value_of(mnem_template *t, format *f, mnem__any field) {
    size_t at = 0;
    while (at < field.length && !strchr(".[", field.text[at])) at++;
    mnem__any value = first_value(t, f, mnem__any_text(field.text, at));
    while (at < field.length) {
        const bool item = field.text[at++] == '[';
        const size_t begin = at;
        while (at < field.length && (item ? field.text[at] != ']' : !strchr(".[", field.text[at])))
            at++;
        mnem__any key = mnem__any_text(field.text + begin, at - begin);
        int64_t i;
        if (key.length == 0)
            mnem__template_refuse(t, "format(): the field '{%.*s}' has an empty attribute or index",
                                  shown(field), field.text);
        if (item && strspn(key.text, "0123456789") >= key.length &&
            mnem__template_read_int(t, key, 10, &i))
            key = mnem__any_int(i);
        value = item ? mnem__template_item(t, value, key) : mnem__template_attribute(t, value, key);
        if (item && at++ == field.length)
            mnem__template_refuse(t, "format(): the field '{%.*s}' has '[' without ']'",
                                  shown(field), field.text);
    }
    return value;
}

/* ---- places ---- */

static mnem__any convert(mnem_template *t, mnem__any value, char how) {
    const size_t mark = t->out_bytes;
    if (how == 's') return mnem__template_str(t, value);
    if (how == 'a') return mnem__spec_ascii(t, value);
    if (how != 'r') mnem__template_refuse(t, "format(): the letter after '!' must be r, s or a");
    mnem__template_put_repr(t, value);
    return mnem__template_cut(t, mark);
}

/* Where the place that begins behind '{' at at ends: its '}'. */
static size_t place_end(mnem_template *t, mnem__any text, size_t at) {
    for (int open = 1; at < text.length; at++) {
        open += text.text[at] == '{';
        open -= text.text[at] == '}';
        if (open == 0) return at;
    }
    mnem__template_refuse(t, "format(): '{' has no closing '}'; write '{{' for a brace");
}

static mnem__any format_text(mnem_template *t, format *f, mnem__any text, int depth);

/* A place, from behind '{' to behind '}'. */
static size_t put_place(mnem_template *t, format *f, mnem__any text, size_t at, int depth) {
    const size_t end = place_end(t, text, at);
    size_t name_end = at;
    for (bool item = false; name_end < end; name_end++) {
        const char c = text.text[name_end];
        if (c == '{')
            mnem__template_refuse(
                t, "format(): the name of a field contains '{'; write '{{' for a brace");
        if (!item && (c == ':' || c == '!')) break;
        item = c == '[' || (item && c != ']');
    }
    if (depth == 0)
        mnem__template_refuse(
            t, "format(): fields {...} are nested three deep, but only two are supported");
    mnem__any value = value_of(t, f, mnem__any_text(text.text + at, name_end - at));
    if (mnem__spec_at(text, name_end) == '!') {
        const char behind = name_end + 2 <= end ? text.text[name_end + 2] : 0;
        if (behind != ':' && behind != '}')
            mnem__template_refuse(
                t, "format(): '!' needs one letter (r, s or a), and then ':' or '}'");
        value = convert(t, value, text.text[name_end + 1]);
        name_end += 2;
    }
    const size_t from = name_end < end ? name_end + 1 : end;
    mnem__any spec = mnem__any_text(text.text + from, end - from);
    if (memchr(spec.text, '{', spec.length) || memchr(spec.text, '}', spec.length))
        spec = format_text(t, f, spec, depth - 1);
    put_formatted(t, value, spec);
    return end + 1;
}

static mnem__any format_text(mnem_template *t, format *f, mnem__any text, int depth) {
    const size_t mark = t->out_bytes;
    for (size_t at = 0; at < text.length;) {
        const char c = text.text[at], second = mnem__spec_at(text, at + 1);
        if ((c == '{' || c == '}') && second == c) {
            mnem__template_put(t, &c, 1);
            at += 2;
        } else if (c == '{') {
            at = put_place(t, f, text, at + 1, depth);
        } else if (c == '}') {
            mnem__template_refuse(t, "format(): '}' has no opening '{'; write '}}' for a brace");
        } else {
            mnem__template_put(t, &c, 1);
            at++;
        }
    }
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_format(mnem_template *t, mnem__any text, const mnem__arguments *arguments) {
    return format_text(t, &(format){.arguments = arguments}, text, 2);
}
