/* template_strings.c: text functions shared by methods and filters: white space, replacing, lines.
 * Characters are those of UTF-8, classes Unicode's. Cost: linear. */
#include <string.h>

#include "text/template/template_call.h"
#include "text/values/template_chars.h"

/* ---- stripping ---- */

static bool has_char(mnem__any chars, const char *c, size_t n) {
    for (size_t at = 0; at < chars.length; at += mnem__char_bytes(chars.text[at]))
        if (mnem__char_bytes(chars.text[at]) == n && memcmp(chars.text + at, c, n) == 0)
            return true;
    return false;
}

static mnem__any strip_chars(mnem__any text, mnem__any chars, bool before, bool behind) {
    size_t begin = 0, end = text.length;
    while (before && begin < end) {
        const size_t n = mnem__char_bytes(text.text[begin]);
        if (!has_char(chars, text.text + begin, n)) break;
        begin += n;
    }
    while (behind && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)text.text[at] & 0xC0) == 0x80) at--;
        if (!has_char(chars, text.text + at, end - at)) break;
        end = at;
    }
    return mnem__any_text(text.text + begin, end - begin);
}

mnem__any mnem__text_strip(mnem_template *t, mnem__any text, mnem__any chars, bool before,
                           bool behind) {
    const uint64_t per_char = mnem__any_is(chars, MNEM__ANY_TEXT) ? chars.length : 1;
    mnem__template_step(t, text.length / 64 * (per_char + 1));
    if (mnem__is_given(chars) && !mnem__any_is(chars, MNEM__ANY_NONE)) {
        chars = mnem__argument_text(t, chars, "", "strip()");
        return strip_chars(text, chars, before, behind);
    }
    const size_t skip = before ? mnem__char_space_before(text.text, text.length) : 0;
    text.text += skip;
    text.length -= (uint32_t)skip;
    if (behind) text.length -= (uint32_t)mnem__char_space_behind(text.text, text.length);
    return mnem__any_text(text.text, text.length);
}

/* ---- replacing ---- */

/* With nothing to look for, Python puts new_text before every character and at the end. */
static void put_between(mnem_template *t, mnem__any text, mnem__any new_text, int64_t count) {
    size_t at = 0;
    for (int64_t i = 0; count < 0 || i < count; i++) {
        mnem__template_put(t, new_text.text, new_text.length);
        if (at == text.length) return;
        const size_t n = mnem__char_bytes(text.text[at]);
        mnem__template_put(t, text.text + at, n);
        at += n;
    }
    mnem__template_put(t, text.text + at, text.length - at);
}

mnem__any mnem__text_replace(mnem_template *t, mnem__any text, mnem__any old, mnem__any new_text,
                             int64_t count) {
    const size_t mark = t->out_bytes;
    const char *at = text.text, *end = text.text + text.length, *found;
    mnem__template_step(t, text.length / 16);
    if (old.length == 0) {
        put_between(t, text, new_text, count);
        return mnem__template_cut(t, mark);
    }
    for (int64_t i = 0; count < 0 || i < count; i++) {
        found = memmem(at, (size_t)(end - at), old.text, old.length);
        if (!found) break;
        mnem__template_put(t, at, (size_t)(found - at));
        mnem__template_put(t, new_text.text, new_text.length);
        at = found + old.length;
    }
    if (at == text.text) return mnem__any_text(text.text, text.length);
    mnem__template_put(t, at, (size_t)(end - at));
    return mnem__template_cut(t, mark);
}

/* ---- lines ---- */

static bool ends_line(uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

mnem__any mnem__text_lines(mnem_template *t, mnem__any text, bool keep_ends) {
    const mnem__any lines = mnem__any_list_make(t, MNEM__ANY_LIST, 0);
    size_t begin = 0;
    for (size_t at = 0; at < text.length;) {
        const size_t end = at;
        const uint32_t c = mnem__char_next(text.text, &at);
        if (!ends_line(c) && at < text.length) continue;
        if (c == '\r' && at < text.length && text.text[at] == '\n') at++;
        const size_t n = (ends_line(c) && !keep_ends ? end : at) - begin;
        mnem__any_list_add(t, lines.list, mnem__any_text(text.text + begin, n));
        begin = at;
    }
    return lines;
}

static void put_times(mnem_template *t, mnem__any text, int64_t times) {
    for (int64_t i = 0; i < times; i++) mnem__template_put(t, text.text, text.length);
}

mnem__any mnem__text_center(mnem_template *t, mnem__any text, int64_t width, mnem__any fill) {
    const int64_t n = mnem__any_length(text), pad = width - n;
    const size_t mark = t->out_bytes;
    if (pad <= 0) return text;
    const int64_t before = pad / 2 + (pad & width & 1); /* as CPython rounds it */
    put_times(t, fill, before);
    mnem__template_put(t, text.text, text.length);
    put_times(t, fill, pad - before);
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_expand_tabs(mnem_template *t, mnem__any text, int64_t width) {
    const size_t mark = t->out_bytes;
    int64_t column = 0;
    for (size_t at = 0; at < text.length;) {
        const char c = text.text[at];
        const size_t n = mnem__char_bytes(c);
        const int64_t spaces = width > 0 ? width - column % width : 0;
        if (c == '\t')
            put_times(t, mnem__any_word(" "), spaces);
        else
            mnem__template_put(t, text.text + at, n);
        column = c == '\n' || c == '\r' ? 0 : c == '\t' ? 0 : column + 1;
        at += n;
    }
    return mnem__template_cut(t, mark);
}

/* ---- splitting ---- */

static void reverse(mnem__any_list *list) {
    for (uint32_t i = 0; i < list->count / 2; i++) {
        const mnem__any item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

/* The word that text begins with, or ends with. */
static mnem__any word_of(mnem__any text, bool last) {
    size_t at = last ? text.length : 0;
    if (!last) {
        while (at < text.length && mnem__char_space_before(text.text + at, text.length - at) == 0)
            at += mnem__char_bytes(text.text[at]);
        return mnem__any_text(text.text, at);
    }
    while (at > 0 && mnem__char_space_behind(text.text, at) == 0)
        for (at--; at > 0 && ((unsigned char)text.text[at] & 0xC0) == 0x80;) at--;
    return mnem__any_text(text.text + at, text.length - at);
}

mnem__any mnem__text_split_space(mnem_template *t, mnem__any text, int64_t most, bool right) {
    const mnem__any parts = mnem__any_list_make(t, MNEM__ANY_LIST, 0);
    const mnem__any none = mnem__any_of(MNEM__ANY_NONE);
    text = mnem__text_strip(t, text, none, !right, right);
    while (text.length > 0) {
        const bool last = most >= 0 && parts.list->count >= most;
        const mnem__any word = last ? text : word_of(text, right);
        mnem__any_list_add(t, parts.list, word);
        if (!right) text.text += word.length;
        text.length -= word.length;
        text = mnem__text_strip(t, text, none, !right, right);
    }
    if (right) reverse(parts.list);
    return parts;
}

const char *mnem__text_search(mnem_template *t, mnem__any text, mnem__any one, bool last) {
    mnem__template_step(t, text.length / 16);
    if (one.length > text.length) return NULL;
    if (!last) return one.length ? memmem(text.text, text.length, one.text, one.length) : text.text;
    for (size_t at = text.length - one.length + 1; at-- > 0;)
        if (memcmp(text.text + at, one.text, one.length) == 0) return text.text + at;
    return NULL;
}

mnem__any mnem__text_split(mnem_template *t, mnem__any text, mnem__any by, int64_t most,
                           bool right) {
    const mnem__any parts = mnem__any_list_make(t, MNEM__ANY_LIST, 0);
    if (by.length == 0)
        mnem__template_refuse(t,
                              "split(): the separator is empty, expected at least one character");
    for (int64_t i = 0; most < 0 || i < most; i++) {
        const char *found = mnem__text_search(t, text, by, right);
        if (!found) break;
        const size_t before = (size_t)(found - text.text), behind = before + by.length;
        const mnem__any left = mnem__any_text(text.text, before);
        const mnem__any other = mnem__any_text(text.text + behind, text.length - behind);
        mnem__any_list_add(t, parts.list, right ? other : left);
        text = right ? left : other;
    }
    mnem__any_list_add(t, parts.list, mnem__any_text(text.text, text.length));
    if (right) reverse(parts.list);
    return parts;
}
