/* template_cases.c: texts in another case, as Python's str has it: by the full mappings of Unicode,
 * where a character may become several, and the only one that depends on its neighbours, the sigma
 * that ends a word. Cost: linear: between two sigmas each character is looked at twice at most. */
#include <string.h>

#include "text/values/template_chars.h"
#include "text/values/template_private.h"

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2 };

static void put_mapped(mnem_template *t, uint32_t c, mnem__char_case to) {
    uint32_t out[3];
    const size_t n = mnem__char_map(c, to, out);
    for (size_t i = 0; i < n; i++) mnem__template_put_char(t, out[i]);
}

/* Does a letter with a case come before the first n bytes end, but for what is ignored? */
static bool cased_before(const char *text, size_t n) {
    while (n > 0) {
        do n--;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80);
        size_t at = n;
        const uint32_t c = mnem__char_next(text, &at);
        if (!mnem__char_is_ignored(c)) return mnem__char_is_cased(c);
    }
    return false;
}

static bool cased_behind(mnem__any text, size_t at) {
    while (at < text.length) {
        const uint32_t c = mnem__char_next(text.text, &at);
        if (!mnem__char_is_ignored(c)) return mnem__char_is_cased(c);
    }
    return false;
}

/* The character of text at *at in lower case; *at moves behind it. */
static void put_lower(mnem_template *t, mnem__any text, size_t *at) {
    const size_t begin = *at;
    const uint32_t c = mnem__char_next(text.text, at);
    if (c == SIGMA && cased_before(text.text, begin) && !cased_behind(text, *at))
        mnem__template_put_char(t, FINAL_SIGMA);
    else
        put_mapped(t, c, MNEM__CASE_LOWER);
}

static mnem__any map_all(mnem_template *t, mnem__any text, mnem__char_case to) {
    const size_t mark = t->out_bytes;
    for (size_t at = 0; at < text.length;) put_mapped(t, mnem__char_next(text.text, &at), to);
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_lower(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    for (size_t at = 0; at < text.length;) put_lower(t, text, &at);
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_upper(mnem_template *t, mnem__any text) {
    return map_all(t, text, MNEM__CASE_UPPER);
}

mnem__any mnem__text_casefold(mnem_template *t, mnem__any text) {
    return map_all(t, text, MNEM__CASE_FOLDED);
}

mnem__any mnem__text_capitalize(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    size_t at = 0;
    if (text.length > 0) put_mapped(t, mnem__char_next(text.text, &at), MNEM__CASE_TITLE);
    while (at < text.length) put_lower(t, text, &at);
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_title(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    bool inside = false; /* a word */
    for (size_t at = 0; at < text.length;) {
        size_t behind = at;
        const uint32_t c = mnem__char_next(text.text, &behind);
        if (inside)
            put_lower(t, text, &at);
        else
            put_mapped(t, c, MNEM__CASE_TITLE);
        at = behind;
        inside = mnem__char_is_cased(c);
    }
    return mnem__template_cut(t, mark);
}

mnem__any mnem__text_swapcase(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    for (size_t at = 0; at < text.length;) {
        size_t behind = at;
        const uint32_t c = mnem__char_next(text.text, &behind);
        if (mnem__char_is_upper(c))
            put_lower(t, text, &at);
        else if (mnem__char_is_lower(c))
            put_mapped(t, c, MNEM__CASE_UPPER);
        else
            mnem__template_put_char(t, c);
        at = behind;
    }
    return mnem__template_cut(t, mark);
}

/* Does c stand between words of the filter? They begin behind white space, a hyphen or an opening
 * bracket. */
static bool is_between(uint32_t c) {
    return mnem__char_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
}

mnem__any mnem__text_title_words(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    for (size_t at = 0; at < text.length;) {
        const uint32_t first = mnem__char_next(text.text, &at);
        put_mapped(t, first, MNEM__CASE_UPPER);
        if (is_between(first)) continue;
        size_t end = at;
        for (size_t next = at; next < text.length; end = next)
            if (is_between(mnem__char_next(text.text, &next))) break;
        const mnem__any rest = mnem__any_text(text.text + at, end - at); /* on its own, as there */
        for (size_t i = 0; i < rest.length;) put_lower(t, rest, &i);
        at = end;
    }
    return mnem__template_cut(t, mark);
}
