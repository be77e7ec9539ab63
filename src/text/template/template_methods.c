/* template_methods.c: Python's methods of str, dict and list.
 *
 * Methods that change a list or a dict are known, too: the sandbox hides them, so that they are
 * undefined. */
#include <math.h>
#include <string.h>

#include "text/template/template_call.h"
#include "text/values/template_chars.h"

#define METHOD(name)                                                                               \
    static mnem__any name(mnem_template *t, mnem__any self, const mnem__any *a,                    \
                          const mnem__arguments *more)
#define UNUSED(x) (void)(x)

/* ---- str: parts ---- */

METHOD(str_strip) {
    UNUSED(more);
    return mnem__text_strip(t, self, a[0], true, true);
}
METHOD(str_lstrip) {
    UNUSED(more);
    return mnem__text_strip(t, self, a[0], true, false);
}
METHOD(str_rstrip) {
    UNUSED(more);
    return mnem__text_strip(t, self, a[0], false, true);
}

/* Does self start (or end) with one text, or one of a tuple's? */
static bool has_end(mnem_template *t, mnem__any self, mnem__any one, bool at_end) {
    if (mnem__any_is(one, MNEM__ANY_TUPLE)) {
        for (uint32_t i = 0; i < one.list->count; i++)
            if (has_end(t, self, mnem__argument_text(t, one.list->items[i], "", "startswith()"),
                        at_end))
                return true;
        return false;
    }
    one = mnem__argument_text(t, one, "", "startswith()");
    mnem__template_step(t, one.length / 64);
    return one.length <= self.length &&
           memcmp(self.text + (at_end ? self.length - one.length : 0), one.text, one.length) == 0;
}

/* self[start:stop], as methods take it; false: it begins behind self's end. */
static bool part_of(mnem_template *t, mnem__any *self, const mnem__any *bounds) {
    mnem__any slice[3];
    for (int i = 0; i < 3; i++)
        slice[i] = i < 2 && mnem__is_given(bounds[i]) ? bounds[i] : mnem__any_of(MNEM__ANY_NONE);
    const bool behind = mnem__any_whole(slice[0]) && slice[0].i > mnem__any_length(*self);
    *self = mnem__any_slice(t, *self, slice);
    return !behind;
}

METHOD(str_startswith) {
    UNUSED(more);
    const bool inside = part_of(t, &self, a + 1);
    return mnem__any_bool(has_end(t, self, a[0], false) && inside);
}
METHOD(str_endswith) {
    UNUSED(more);
    const bool inside = part_of(t, &self, a + 1);
    return mnem__any_bool(has_end(t, self, a[0], true) && inside);
}
METHOD(str_removeprefix) {
    UNUSED(more);
    const mnem__any one = mnem__argument_text(t, a[0], "", "removeprefix()");
    const uint32_t n = has_end(t, self, one, false) ? one.length : 0;
    return mnem__any_text(self.text + n, self.length - n);
}
METHOD(str_removesuffix) {
    UNUSED(more);
    const mnem__any one = mnem__argument_text(t, a[0], "", "removesuffix()");
    const uint32_t n = has_end(t, self, one, true) ? one.length : 0;
    return mnem__any_text(self.text, self.length - n);
}

/* ---- str: searching ---- */

/* The number of the character where a[0] is, or -1. */
static int64_t find(mnem_template *t, mnem__any self, const mnem__any *a, bool last) {
    const mnem__any one = mnem__argument_text(t, a[0], "", "find()");
    mnem__any part = self;
    if (!part_of(t, &part, a + 1)) return -1;
    const char *found = mnem__text_search(t, part, one, last);
    return found ? (int64_t)mnem__char_count(self.text, (size_t)(found - self.text)) : -1;
}

METHOD(str_find) {
    UNUSED(more);
    return mnem__any_int(find(t, self, a, false));
}
METHOD(str_rfind) {
    UNUSED(more);
    return mnem__any_int(find(t, self, a, true));
}
METHOD(str_index) {
    UNUSED(more);
    const int64_t at = find(t, self, a, false);
    if (at < 0) mnem__template_refuse(t, "index(): the text was not found; use find() to get -1");
    return mnem__any_int(at);
}
METHOD(str_rindex) {
    UNUSED(more);
    const int64_t at = find(t, self, a, true);
    if (at < 0) mnem__template_refuse(t, "rindex(): the text was not found; use rfind() to get -1");
    return mnem__any_int(at);
}
METHOD(str_count) {
    UNUSED(more);
    const mnem__any one = mnem__argument_text(t, a[0], "", "count()");
    if (!part_of(t, &self, a + 1)) return mnem__any_int(0);
    if (one.length == 0) return mnem__any_int(mnem__any_length(self) + 1);
    int64_t count = 0;
    const char *end = self.text + self.length;
    mnem__template_step(t, self.length / 16);
    for (const char *at = self.text; (at = memmem(at, (size_t)(end - at), one.text, one.length));) {
        at += one.length;
        count++;
    }
    return mnem__any_int(count);
}

/* ---- str: cutting ---- */

static mnem__any split(mnem_template *t, mnem__any self, const mnem__any *a, bool right) {
    const int64_t most = mnem__argument_int(t, a[1], -1, "split()");
    if (!mnem__is_given(a[0]) || mnem__any_is(a[0], MNEM__ANY_NONE))
        return mnem__text_split_space(t, self, most, right);
    return mnem__text_split(t, self, mnem__argument_text(t, a[0], "", "split()"), most, right);
}

METHOD(str_split) {
    UNUSED(more);
    return split(t, self, a, false);
}
METHOD(str_rsplit) {
    UNUSED(more);
    return split(t, self, a, true);
}
METHOD(str_splitlines) {
    UNUSED(more);
    return mnem__text_lines(t, self, mnem__argument_bool(a[0], false));
}

static mnem__any partition(mnem_template *t, mnem__any self, const mnem__any *a, bool last) {
    const char *name = last ? "rpartition()" : "partition()";
    const mnem__any by = mnem__argument_text(t, a[0], "", name);
    if (!by.length) mnem__template_refuse(t, "%s: the separator is empty; give one, as ':'", name);
    const char *found = mnem__text_search(t, self, by, last);
    const size_t before = found ? (size_t)(found - self.text) : last ? 0 : self.length;
    const size_t behind = found ? before + by.length : before;
    const mnem__any parts = mnem__any_list_make(t, MNEM__ANY_TUPLE, 3);
    mnem__any_list_add(t, parts.list, mnem__any_text(self.text, before));
    mnem__any_list_add(t, parts.list, mnem__any_text(by.text, found ? by.length : 0));
    mnem__any_list_add(t, parts.list, mnem__any_text(self.text + behind, self.length - behind));
    return parts;
}

METHOD(str_partition) {
    UNUSED(more);
    return partition(t, self, a, false);
}
METHOD(str_rpartition) {
    UNUSED(more);
    return partition(t, self, a, true);
}

/* ---- str: others ---- */

METHOD(str_upper) {
    UNUSED(a), UNUSED(more);
    return mnem__text_upper(t, self);
}
METHOD(str_lower) {
    UNUSED(a), UNUSED(more);
    return mnem__text_lower(t, self);
}
METHOD(str_capitalize) {
    UNUSED(a), UNUSED(more);
    return mnem__text_capitalize(t, self);
}

METHOD(str_casefold) {
    UNUSED(a), UNUSED(more);
    return mnem__text_casefold(t, self);
}
METHOD(str_title) {
    UNUSED(a), UNUSED(more);
    return mnem__text_title(t, self);
}
METHOD(str_swapcase) {
    UNUSED(a), UNUSED(more);
    return mnem__text_swapcase(t, self);
}
METHOD(str_replace) {
    UNUSED(more);
    const mnem__any old = mnem__argument_text(t, a[0], "", "replace()");
    const mnem__any new_text = mnem__argument_text(t, a[1], "", "replace()");
    return mnem__text_replace(t, self, old, new_text, mnem__argument_int(t, a[2], -1, "replace()"));
}
METHOD(str_join) {
    UNUSED(more);
    const mnem__any_list *list = mnem__any_items(t, a[0]);
    const size_t mark = t->out_bytes;
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0) mnem__template_put(t, self.text, self.length);
        const mnem__any item = mnem__argument_text(t, list->items[i], "", "join()");
        mnem__template_put(t, item.text, item.length);
    }
    return mnem__template_cut(t, mark);
}
METHOD(str_format) {
    UNUSED(a);
    return mnem__text_format(t, self, more);
}
METHOD(str_format_map) {
    UNUSED(more);
    if (!mnem__any_is(a[0], MNEM__ANY_DICT))
        mnem__template_refuse(t, "format_map(): expected a dict, found a value of type %s",
                              mnem__any_type(a[0]));
    return mnem__text_format(t, self, &(mnem__arguments){.named = a[0].dict});
}
METHOD(str_expandtabs) {
    UNUSED(more);
    return mnem__text_expand_tabs(t, self, mnem__argument_int(t, a[0], 8, "expandtabs()"));
}

static mnem__any fill_of(mnem_template *t, mnem__any a) {
    const mnem__any fill = mnem__argument_text(t, a, " ", "fill");
    if (mnem__any_length(fill) != 1)
        mnem__template_refuse(t, "the fill character has %lld characters, expected 1",
                              (long long)mnem__any_length(fill));
    return fill;
}

METHOD(str_center) {
    UNUSED(more);
    return mnem__text_center(t, self, mnem__argument_int(t, a[0], 0, "center()"), fill_of(t, a[1]));
}

static mnem__any justify(mnem_template *t, mnem__any self, const mnem__any *a, bool right) {
    const int64_t pad = mnem__argument_int(t, a[0], 0, "ljust()") - mnem__any_length(self);
    const mnem__any fill = fill_of(t, a[1]);
    const size_t mark = t->out_bytes;
    if (!right) mnem__template_put(t, self.text, self.length);
    for (int64_t i = 0; i < pad; i++) mnem__template_put(t, fill.text, fill.length);
    if (right) mnem__template_put(t, self.text, self.length);
    return mnem__template_cut(t, mark);
}

METHOD(str_ljust) {
    UNUSED(more);
    return justify(t, self, a, false);
}
METHOD(str_rjust) {
    UNUSED(more);
    return justify(t, self, a, true);
}
METHOD(str_zfill) {
    UNUSED(more);
    const int64_t width = mnem__argument_int(t, a[0], 0, "zfill()");
    const size_t mark = t->out_bytes;
    const uint32_t sign = self.length > 0 && (*self.text == '-' || *self.text == '+');
    mnem__template_put(t, self.text, sign);
    for (int64_t i = mnem__any_length(self); i < width; i++) mnem__template_put(t, "0", 1);
    mnem__template_put(t, self.text + sign, self.length - sign);
    return mnem__template_cut(t, mark);
}

/* ---- str: classes ---- */

/* Are all characters, of which there must be one, of a class? */
static mnem__any all_chars(mnem__any self, bool (*is)(uint32_t c)) {
    for (size_t at = 0; at < self.length;)
        if (!is(mnem__char_next(self.text, &at))) return mnem__any_bool(false);
    return mnem__any_bool(self.length > 0);
}

#define CLASS_METHOD(name, is)                                                                     \
    METHOD(name) {                                                                                 \
        UNUSED(t), UNUSED(a), UNUSED(more);                                                        \
        return all_chars(self, is);                                                                \
    }
CLASS_METHOD(str_isalpha, mnem__char_is_alpha)
CLASS_METHOD(str_isdecimal, mnem__char_is_decimal)
CLASS_METHOD(str_isdigit, mnem__char_is_digit)
CLASS_METHOD(str_isnumeric, mnem__char_is_numeric)
CLASS_METHOD(str_isalnum, mnem__char_is_alnum)
CLASS_METHOD(str_isspace, mnem__char_is_space)

METHOD(str_isprintable) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    return self.length ? all_chars(self, mnem__char_is_printable) : mnem__any_bool(true);
}
METHOD(str_isascii) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    for (uint32_t i = 0; i < self.length; i++)
        if ((unsigned char)self.text[i] >= 0x80) return mnem__any_bool(false);
    return mnem__any_bool(true);
}

METHOD(str_isidentifier) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    size_t at = 0;
    if (self.length == 0 || !mnem__char_is_name_first(mnem__char_next(self.text, &at)))
        return mnem__any_bool(false);
    while (at < self.length)
        if (!mnem__char_is_name(mnem__char_next(self.text, &at))) return mnem__any_bool(false);
    return mnem__any_bool(true);
}

/* Is there one, and no letter of another case? */
static mnem__any one_case(mnem__any self, bool (*is)(uint32_t c)) {
    bool found = false;
    for (size_t at = 0; at < self.length;) {
        const uint32_t c = mnem__char_next(self.text, &at);
        if (mnem__char_is_cased(c) && !is(c)) return mnem__any_bool(false);
        found |= is(c);
    }
    return mnem__any_bool(found);
}

METHOD(str_islower) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    return one_case(self, mnem__char_is_lower);
}
METHOD(str_isupper) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    return one_case(self, mnem__char_is_upper);
}
METHOD(str_istitle) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    bool inside = false, found = false;
    for (size_t at = 0; at < self.length;) {
        const uint32_t c = mnem__char_next(self.text, &at);
        const bool cased = mnem__char_is_cased(c);
        if (cased && mnem__char_is_lower(c) != inside) return mnem__any_bool(false);
        found |= cased;
        inside = cased;
    }
    return mnem__any_bool(found);
}

/* ---- dict and list ---- */

METHOD(dict_get) {
    UNUSED(more);
    const mnem__any *value = mnem__any_dict_find(t, self.dict, a[0]);
    return value ? *value : mnem__is_given(a[1]) ? a[1] : mnem__any_of(MNEM__ANY_NONE);
}
METHOD(dict_keys) {
    UNUSED(a), UNUSED(more);
    return mnem__any_view_make(t, self.dict, MNEM__VIEW_KEYS);
}
METHOD(dict_values) {
    UNUSED(a), UNUSED(more);
    return mnem__any_view_make(t, self.dict, MNEM__VIEW_VALUES);
}
METHOD(dict_items) {
    UNUSED(a), UNUSED(more);
    return mnem__any_view_make(t, self.dict, MNEM__VIEW_ITEMS);
}
METHOD(same) { /* copy(): nothing changes it */
    UNUSED(t), UNUSED(a), UNUSED(more);
    return self;
}
METHOD(list_count) {
    UNUSED(more);
    const mnem__any_list *list = mnem__any_items(t, self);
    int64_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) count += mnem__any_equal(t, list->items[i], a[0]);
    return mnem__any_int(count);
}
METHOD(list_index) {
    UNUSED(more);
    const mnem__any_list *list = mnem__any_items(t, self);
    for (uint32_t i = 0; i < list->count; i++)
        if (mnem__any_equal(t, list->items[i], a[0])) return mnem__any_int(i);
    mnem__template_refuse(t, "index(): the list does not have the value");
}

/* ---- numbers ---- */

METHOD(int_bit_length) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    int64_t bits = 0;
    for (uint64_t u = self.i < 0 ? 0 - (uint64_t)self.i : (uint64_t)self.i; u; u >>= 1) bits++;
    return mnem__any_int(bits);
}
METHOD(float_is_integer) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    return mnem__any_bool(isfinite(self.f) && self.f == floor(self.f));
}

/* ---- tables ---- */

static const mnem__method methods[] = {
#define STR(name, parameters, least)                                                               \
    {                                                                                              \
        MNEM__ANY_TEXT, {                                                                          \
#name, parameters, least, str_##name                                                   \
        }                                                                                          \
    }
    STR(strip, "chars", 0),
    STR(lstrip, "chars", 0),
    STR(rstrip, "chars", 0),
    STR(startswith, "prefix start end", 1),
    STR(endswith, "suffix start end", 1),
    STR(removeprefix, "prefix", 1),
    STR(removesuffix, "suffix", 1),
    STR(find, "sub start end", 1),
    STR(rfind, "sub start end", 1),
    STR(index, "sub start end", 1),
    STR(rindex, "sub start end", 1),
    STR(count, "sub start end", 1),
    STR(split, "sep maxsplit", 0),
    STR(rsplit, "sep maxsplit", 0),
    STR(splitlines, "keepends", 0),
    STR(partition, "sep", 1),
    STR(rpartition, "sep", 1),
    STR(upper, "", 0),
    STR(lower, "", 0),
    STR(capitalize, "", 0),
    STR(title, "", 0),
    STR(swapcase, "", 0),
    STR(casefold, "", 0),
    STR(replace, "old new count", 2),
    STR(join, "iterable", 1),
    STR(format, "*", 0),
    STR(format_map, "mapping", 1),
    STR(expandtabs, "tabsize", 0),
    STR(center, "width fillchar", 1),
    STR(ljust, "width fillchar", 1),
    STR(rjust, "width fillchar", 1),
    STR(zfill, "width", 1),
    STR(isdigit, "", 0),
    STR(isdecimal, "", 0),
    STR(isnumeric, "", 0),
    STR(isidentifier, "", 0),
    STR(isalpha, "", 0),
    STR(isalnum, "", 0),
    STR(isspace, "", 0),
    STR(isprintable, "", 0),
    STR(isascii, "", 0),
    STR(islower, "", 0),
    STR(isupper, "", 0),
    STR(istitle, "", 0),
#undef STR
    {MNEM__ANY_TEXT, {"encode", NULL, 0, NULL}},
    {MNEM__ANY_TEXT, {"maketrans", NULL, 0, NULL}},
    {MNEM__ANY_TEXT, {"translate", NULL, 0, NULL}},
    {MNEM__ANY_DICT, {"get", "key default", 1, dict_get}},
    {MNEM__ANY_DICT, {"keys", "", 0, dict_keys}},
    {MNEM__ANY_DICT, {"values", "", 0, dict_values}},
    {MNEM__ANY_DICT, {"items", "", 0, dict_items}},
    {MNEM__ANY_DICT, {"copy", "", 0, same}},
    {MNEM__ANY_DICT, {"fromkeys", NULL, 0, NULL}},
    {MNEM__ANY_LIST, {"copy", "", 0, same}},
    {MNEM__ANY_LIST, {"count", "value", 1, list_count}},
    {MNEM__ANY_LIST, {"index", "value", 1, list_index}},
    {MNEM__ANY_TUPLE, {"count", "value", 1, list_count}},
    {MNEM__ANY_TUPLE, {"index", "value", 1, list_index}},
    {MNEM__ANY_RANGE, {"count", "value", 1, list_count}},
    {MNEM__ANY_RANGE, {"index", "value", 1, list_index}},
    {MNEM__ANY_INT, {"bit_length", "", 0, int_bit_length}},
    {MNEM__ANY_BOOL, {"bit_length", "", 0, int_bit_length}},
    {MNEM__ANY_FLOAT, {"is_integer", "", 0, float_is_integer}},
};

/* What changes its self, which the sandbox hides. */
static bool is_hidden(mnem__any a, mnem__any name) {
    static const char *const of_list[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    const bool list = mnem__any_is(a, MNEM__ANY_LIST);
    const char *const *names = list ? of_list : of_dict;
    if (!list && !mnem__any_is(a, MNEM__ANY_DICT)) return false;
    for (int i = 0; i < (list ? 8 : 5); i++)
        if (mnem__any_says(name, names[i])) return true;
    return false;
}

mnem__any mnem__template_method_make(mnem_template *t, mnem__any self, const mnem__method *what) {
    mnem__any_method *method = mnem__template_take(t, sizeof *method);
    *method = (mnem__any_method){self, what};
    return (mnem__any){.kind = MNEM__ANY_METHOD, .method = method};
}

mnem__any mnem__template_method(mnem_template *t, mnem__any a, mnem__any name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (mnem__any_is(a, methods[i].kind) && mnem__any_says(name, methods[i].f.name))
            return mnem__template_method_make(t, a, &methods[i]);
    const bool inner = name.length > 2 && memcmp(name.text, "__", 2) == 0;
    if (!inner && !is_hidden(a, name)) return mnem__any_of(MNEM__ANY_MISSING);
    name.kind = MNEM__ANY_UNDEFINED;
    name.flag = MNEM__UNDEFINED_UNSAFE;
    return name;
}
