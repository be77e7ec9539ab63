/* template_filters.c: filters of texts, numbers and single values. Those of lists are in
 * template_list_filters.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/template_call.h"
#include "text/values/template_chars.h"

#define FILTER(name)                                                                               \
    static mnem__any filter_##name(mnem_template *t, mnem__any in, const mnem__any *a,             \
                                   const mnem__arguments *more)
#define UNUSED(x) (void)(x)

/* ---- texts ---- */

FILTER(string) {
    UNUSED(a), UNUSED(more);
    return mnem__template_str(t, in);
}
FILTER(upper) {
    UNUSED(a), UNUSED(more);
    return mnem__text_upper(t, mnem__template_str(t, in));
}
FILTER(lower) {
    UNUSED(a), UNUSED(more);
    return mnem__text_lower(t, mnem__template_str(t, in));
}
FILTER(capitalize) {
    UNUSED(a), UNUSED(more);
    return mnem__text_capitalize(t, mnem__template_str(t, in));
}

FILTER(title) {
    UNUSED(a), UNUSED(more);
    return mnem__text_title_words(t, mnem__template_str(t, in));
}
FILTER(trim) {
    UNUSED(more);
    return mnem__text_strip(t, mnem__template_str(t, in), a[0], true, true);
}
FILTER(replace) {
    UNUSED(more);
    const bool all = !mnem__is_given(a[2]) || mnem__any_is(a[2], MNEM__ANY_NONE);
    return mnem__text_replace(t, mnem__template_str(t, in), mnem__template_str(t, a[0]),
                              mnem__template_str(t, a[1]),
                              all ? -1 : mnem__argument_int(t, a[2], -1, "replace"));
}
FILTER(center) {
    UNUSED(more);
    return mnem__text_center(t, mnem__template_str(t, in),
                             mnem__argument_int(t, a[0], 80, "center"), mnem__any_word(" "));
}
FILTER(format) {
    UNUSED(a);
    mnem__any values = {.kind = MNEM__ANY_TUPLE, .list = more->list};
    const bool listed = more->list && more->list->count > 0, named = more->named != NULL;
    if (listed && named)
        mnem__template_refuse(
            t, "format: values are given both by position and by name; use one of these");
    if (named) values = (mnem__any){.kind = MNEM__ANY_DICT, .dict = more->named};
    if (!values.list) values = mnem__any_list_make(t, MNEM__ANY_TUPLE, 0);
    return mnem__text_percent(t, mnem__template_str(t, in), values);
}
FILTER(wordcount) {
    UNUSED(a), UNUSED(more);
    int64_t words = 0;
    bool inside = false;
    in = mnem__template_str(t, in);
    for (size_t at = 0; at < in.length;) {
        const uint32_t c = mnem__char_next(in.text, &at);
        const bool letter = mnem__char_is_alnum(c) || c == '_';
        words += letter && !inside;
        inside = letter;
    }
    return mnem__any_int(words);
}

static mnem__any indention_of(mnem_template *t, mnem__any width) {
    if (mnem__any_is(width, MNEM__ANY_TEXT)) return width;
    const int64_t n = mnem__argument_int(t, width, 4, "indent");
    const size_t mark = t->out_bytes;
    for (int64_t i = 0; i < n; i++) mnem__template_put(t, " ", 1);
    return mnem__template_cut(t, mark);
}

FILTER(indent) {
    UNUSED(more);
    const mnem__any indention = indention_of(t, a[0]);
    const bool first = mnem__argument_bool(a[1], false), blank = mnem__argument_bool(a[2], false);
    /* A newline behind it, so that a last line which is empty counts. */
    const mnem__any text =
        mnem__template_join(t, mnem__argument_text(t, in, "", "indent"), mnem__any_word("\n"));
    const mnem__any_list *lines = mnem__text_lines(t, text, false).list;
    const size_t mark = t->out_bytes;
    for (uint32_t i = 0; i < lines->count; i++) {
        const mnem__any line = lines->items[i];
        if (i > 0) mnem__template_put(t, "\n", 1);
        if (i == 0 ? first : blank || line.length > 0)
            mnem__template_put(t, indention.text, indention.length);
        mnem__template_put(t, line.text, line.length);
    }
    return mnem__template_cut(t, mark);
}

FILTER(truncate) {
    UNUSED(more);
    const int64_t most = mnem__argument_int(t, a[0], 255, "truncate");
    const bool kill_words = mnem__argument_bool(a[1], false);
    const mnem__any end = mnem__argument_text(t, a[2], "...", "truncate");
    const bool leeway_given = mnem__is_given(a[3]) && !mnem__any_is(a[3], MNEM__ANY_NONE);
    const int64_t leeway = leeway_given ? mnem__argument_int(t, a[3], 5, "truncate") : 5;
    const int64_t left = most - mnem__any_length(end);
    if (left < 0)
        mnem__template_refuse(
            t,
            "truncate: the length is %lld, expected at least %lld, the length of the argument end",
            (long long)most, (long long)mnem__any_length(end));
    if (leeway < 0)
        mnem__template_refuse(t, "truncate: leeway is %lld, expected at least 0",
                              (long long)leeway);
    if (mnem__any_length(in) >= 0 && mnem__any_length(in) - leeway <= most) return in;
    in = mnem__argument_text(t, in, "", "truncate");
    in.length = (uint32_t)mnem__char_offset(in.text, in.length, (size_t)left);
    const char *space = kill_words ? NULL : mnem__text_search(t, in, mnem__any_word(" "), true);
    if (space) in.length = (uint32_t)(space - in.text);
    return mnem__template_join(t, in, end);
}

/* A value for a URL: in its query a space is a plus, and a slash is no part of a path. */
static void put_quoted(mnem_template *t, mnem__any in, bool query) {
    static const char digits[] = "0123456789ABCDEF";
    const mnem__any text = mnem__template_str(t, in);
    for (uint32_t i = 0; i < text.length; i++) {
        const unsigned char c = (unsigned char)text.text[i];
        const char code[] = {'%', digits[c / 16], digits[c % 16]};
        const bool plain = (c >= '0' && c <= '9') ||
                           ((c | 32) >= 'a' && (c | 32) <= 'z' && c < 128) ||
                           (c && strchr(query ? "_.-~" : "_.-~/", c));
        if (query && c == ' ')
            mnem__template_puts(t, "+");
        else
            mnem__template_put(t, plain ? text.text + i : code, plain ? 1 : 3);
    }
}

FILTER(urlencode) {
    UNUSED(a), UNUSED(more);
    const bool one = mnem__any_is(in, MNEM__ANY_TEXT) || !mnem__any_iterable(in);
    if (mnem__any_is(in, MNEM__ANY_DICT)) in = mnem__any_view_make(t, in.dict, MNEM__VIEW_ITEMS);
    const mnem__any_list *pairs = one ? NULL : mnem__any_items(t, in);
    const size_t mark = t->out_bytes;
    if (one) put_quoted(t, in, false);
    for (uint32_t i = 0; pairs && i < pairs->count; i++) {
        const mnem__any_list *pair = mnem__any_items(t, pairs->items[i]);
        if (pair->count != 2)
            mnem__template_refuse(
                t, "urlencode: item %u has %u values, expected 2: a name and a value", i,
                pair->count);
        if (i > 0) mnem__template_puts(t, "&");
        put_quoted(t, pair->items[0], true);
        mnem__template_puts(t, "=");
        put_quoted(t, pair->items[1], true);
    }
    return mnem__template_cut(t, mark);
}

/* ---- markup ---- */

static mnem__any safe(mnem__any text) {
    text.flag = MNEM__TEXT_SAFE;
    return text;
}

FILTER(safe) {
    UNUSED(a), UNUSED(more);
    return safe(mnem__template_str(t, in));
}
FILTER(forceescape) {
    UNUSED(a), UNUSED(more);
    const size_t mark = t->out_bytes;
    in = mnem__template_str(t, in);
    in.flag = 0;
    mnem__template_put_escaped(t, in);
    return safe(mnem__template_cut(t, mark));
}
FILTER(escape) {
    if (mnem__any_is(in, MNEM__ANY_TEXT) && in.flag == MNEM__TEXT_SAFE) return in;
    return filter_forceescape(t, in, a, more);
}

/* ---- numbers ---- */

FILTER(abs) {
    UNUSED(a), UNUSED(more);
    if (mnem__any_is(in, MNEM__ANY_FLOAT)) return mnem__any_float(fabs(in.f));
    if (mnem__any_big(in) && *in.text == '-') { /* as far beyond 64 bits without it */
        in.text++;
        in.length--;
    }
    if (mnem__any_big(in)) return in;
    const int64_t i = mnem__argument_int(t, in, 0, "abs");
    if (i == INT64_MIN)
        mnem__template_refuse(t, "abs: the result 2^63 does not fit in an integer of 64 bits");
    return mnem__any_int(i < 0 ? -i : i);
}

static bool float_of(mnem_template *t, mnem__any in, double *f) {
    if (mnem__any_is(in, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, in);
    if (mnem__any_is(in, MNEM__ANY_TEXT)) return mnem__template_read_float(t, in, f);
    if (mnem__any_big(in))
        mnem__template_refuse(t, "float: the integer %.*s does not fit in 64 bits",
                              (int)(in.length < 40 ? in.length : 40), in.text);
    *f = mnem__any_number(in) ? mnem__any_f64(in) : 0;
    return mnem__any_number(in);
}

FILTER(float) {
    UNUSED(more);
    double f;
    if (float_of(t, in, &f)) return mnem__any_float(f);
    return mnem__is_given(a[0]) ? a[0] : mnem__any_float(0);
}
FILTER(int) {
    UNUSED(more);
    double f;
    int64_t i;
    const int64_t base = mnem__argument_int(t, a[1], 10, "int");
    if (mnem__any_whole(in)) return mnem__any_int(in.i);
    if (mnem__any_big(in)) return in;
    if (mnem__any_is(in, MNEM__ANY_TEXT) && mnem__template_read_int(t, in, base, &i))
        return mnem__any_int(i);
    if (float_of(t, in, &f) && isfinite(f)) {
        if (!(fabs(f) < 9223372036854775808.0))
            mnem__template_refuse(t, "int: %g does not fit in an integer of 64 bits", f);
        return mnem__any_int((int64_t)f);
    }
    return mnem__is_given(a[0]) ? a[0] : mnem__any_int(0);
}

double mnem__round(double f, int64_t digits) {
    char text[400];
    if (!isfinite(f) || digits > 60) return f;
    if (digits < -308) return 0;
    if (digits < 0) {
        const double unit = pow(10, (double)-digits);
        return nearbyint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)digits, f); /* exact, ties to even */
    return strtod(text, NULL);
}

FILTER(round) {
    UNUSED(more);
    const int64_t digits = mnem__argument_int(t, a[0], 0, "round");
    const mnem__any method = mnem__argument_text(t, a[1], "common", "round");
    const bool up = mnem__any_says(method, "ceil"), down = mnem__any_says(method, "floor");
    if (mnem__any_is(in, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, in);
    if (mnem__any_big(in) && digits >= 0 && !up && !down) return in;
    if (!mnem__any_number(in))
        mnem__template_refuse(t, "round: expected a number, found a value of type %s",
                              mnem__any_type(in));
    if (!up && !down && !mnem__any_says(method, "common"))
        mnem__template_refuse(t,
                              "round: the method is '%.*s', expected 'common', 'ceil' or 'floor'",
                              (int)(method.length < 64 ? method.length : 64), method.text);
    if (up || down) {
        const double unit = pow(10, (double)digits), f = mnem__any_f64(in) * unit;
        return mnem__any_float(((up ? ceil(f) : floor(f)) + 0.0) / unit); /* no -0 */
    }
    if (mnem__any_whole(in) && digits >= 0) return mnem__any_int(in.i);
    const double f = mnem__round(mnem__any_f64(in), digits);
    return mnem__any_whole(in) ? mnem__any_int((int64_t)f) : mnem__any_float(f);
}

/* A text may be a number, too. */
static _Noreturn void refuse_size(mnem_template *t, mnem__any in) {
    if (in.kind == MNEM__ANY_TEXT)
        mnem__template_refuse(t, "filesizeformat: the text '%.*s' is not a number",
                              (int)(in.length < 64 ? in.length : 64), in.text);
    mnem__template_refuse(t, "filesizeformat: expected a number, found a value of type %s",
                          mnem__any_type(in));
}

FILTER(filesizeformat) {
    UNUSED(more);
    static const char prefixes[] = "kMGTPEZY";
    const bool binary = mnem__argument_bool(a[0], false);
    const double base = binary ? 1024 : 1000;
    double bytes, unit = base * base;
    char text[400];
    if (!float_of(t, in, &bytes)) refuse_size(t, in);
    if (bytes == 1) return mnem__any_word("1 Byte");
    if (bytes < base && !(fabs(bytes) < 1e18))
        mnem__template_refuse(t, "filesizeformat: the number is %g, expected one above -1e18",
                              bytes);
    if (bytes < base)
        snprintf(text, sizeof text, "%lld Bytes", (long long)bytes);
    else {
        const char *prefix = prefixes;
        for (; prefix[1] && !(bytes < unit); prefix++) unit *= base;
        snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit,
                 binary && *prefix == 'k' ? 'K' : *prefix, binary ? "i" : "");
    }
    const size_t mark = t->out_bytes;
    mnem__template_puts(t, text);
    return mnem__template_cut(t, mark);
}

/* ---- single values ---- */

FILTER(default) {
    UNUSED(t), UNUSED(more);
    const bool missing = mnem__any_is(in, MNEM__ANY_UNDEFINED) ||
                         (mnem__argument_bool(a[1], false) && !mnem__any_truth(in));
    if (!missing) return in;
    return mnem__is_given(a[0]) ? a[0] : mnem__any_text("", 0);
}
FILTER(length) {
    UNUSED(a), UNUSED(more);
    const mnem__any length = mnem__template_field(t, in, mnem__any_word("length"));
    if (mnem__any_is(in, MNEM__ANY_LOOP)) return length;
    const int64_t n = mnem__any_length(in);
    if (n < 0)
        mnem__template_refuse(t, "a value of type %s has no length, as text, a list or a dict has",
                              mnem__any_type(in));
    return mnem__any_int(n);
}
FILTER(attr) {
    UNUSED(more);
    const mnem__any name = mnem__template_str(t, a[0]);
    const mnem__any field = mnem__template_field(t, in, name);
    if (mnem__is_given(field)) return field;
    mnem__any no = name;
    no.kind = MNEM__ANY_UNDEFINED;
    no.flag = MNEM__UNDEFINED_ATTRIBUTE;
    return no;
}

static mnem__any json_indent(mnem_template *t, mnem__any indent) {
    if (!mnem__is_given(indent)) return mnem__any_of(MNEM__ANY_NONE);
    if (mnem__any_is(indent, MNEM__ANY_TEXT) || mnem__any_is(indent, MNEM__ANY_NONE)) return indent;
    return indention_of(t, indent);
}

FILTER(tojson) {
    UNUSED(more);
    mnem__json_style style = {.ascii = mnem__argument_bool(a[0], false),
                              .sorted = mnem__argument_bool(a[3], false),
                              .indent = json_indent(t, a[1])};
    const size_t mark = t->out_bytes;
    const bool lines = !mnem__any_is(style.indent, MNEM__ANY_NONE);
    style.between = mnem__any_word(lines ? "," : ", ");
    style.behind_key = mnem__any_word(": ");
    if (mnem__is_given(a[2]) && !mnem__any_is(a[2], MNEM__ANY_NONE)) {
        const mnem__any_list *pair = mnem__any_items(t, a[2]);
        if (pair->count != 2)
            mnem__template_refuse(t, "tojson: separators has %u items, expected 2 texts",
                                  pair->count);
        style.between = mnem__argument_text(t, pair->items[0], "", "tojson");
        style.behind_key = mnem__argument_text(t, pair->items[1], "", "tojson");
    }
    mnem__template_json_put(t, in, &style);
    return mnem__template_cut(t, mark);
}

static const mnem__function filters[] = {
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"capitalize", "", 0, filter_capitalize},
    {"center", "width", 0, filter_center},
    {"count", "", 0, filter_length},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"filesizeformat", "binary", 0, filter_filesizeformat},
    {"float", "default", 0, filter_float},
    {"forceescape", "", 0, filter_forceescape},
    {"format", "*", 0, filter_format},
    {"indent", "width first blank", 0, filter_indent},
    {"int", "default base", 0, filter_int},
    {"length", "", 0, filter_length},
    {"lower", "", 0, filter_lower},
    {"pprint", NULL, 0, NULL},
    {"random", NULL, 0, NULL},
    {"replace", "old new count", 2, filter_replace},
    {"round", "precision method", 0, filter_round},
    {"safe", "", 0, filter_safe},
    {"string", "", 0, filter_string},
    {"striptags", NULL, 0, NULL},
    {"title", "", 0, filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"upper", "", 0, filter_upper},
    {"urlencode", "", 0, filter_urlencode},
    {"urlize", NULL, 0, NULL},
    {"wordcount", "", 0, filter_wordcount},
    {"wordwrap", NULL, 0, NULL},
    {"xmlattr", NULL, 0, NULL},
};

const mnem__function *mnem__template_filter(const char *name) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (strcmp(filters[i].name, name) == 0) return &filters[i];
    return mnem__template_list_filter(name);
}
