/* template_tojson.c: values as JSON, byte for byte as Python's json.dumps writes them. */
#include <stdio.h>
#include <string.h>

#include "text/values/template_chars.h"
#include "text/values/template_private.h"

typedef struct json_writer {
    mnem_template *t;
    const mnem__json_style *style;
} json_writer;

static void put_escape(json_writer *w, uint32_t c) {
    static const char chars[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char text[16];
    const char *p = c && c < 0x80 ? strchr(chars, (int)c) : NULL;
    if (p)
        snprintf(text, sizeof text, "\\%c", letters[p - chars]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                 0xDC00 + ((c - 0x10000) & 0x3FF));
    mnem__template_puts(w->t, text);
}

static void put_text(json_writer *w, mnem__any a) {
    size_t from = 0; /* what waits to be put as it is */
    mnem__template_put(w->t, "\"", 1);
    for (size_t at = 0; at < a.length;) {
        const size_t begin = at;
        const uint32_t c = mnem__char_next(a.text, &at);
        const bool plain = c >= 0x20 && c != '"' && c != '\\';
        if (plain && !(w->style->ascii && c >= 0x7F)) continue;
        mnem__template_put(w->t, a.text + from, begin - from);
        put_escape(w, c);
        from = at;
    }
    mnem__template_put(w->t, a.text + from, a.length - from);
    mnem__template_put(w->t, "\"", 1);
}

static void put_value(json_writer *w, mnem__any a, int depth);

/* Before an item, and before the end of what has items. */
static void put_line(json_writer *w, int depth) {
    if (mnem__any_is(w->style->indent, MNEM__ANY_NONE)) return;
    mnem__template_put(w->t, "\n", 1);
    for (int i = 0; i < depth; i++)
        mnem__template_put(w->t, w->style->indent.text, w->style->indent.length);
}

static void put_list(json_writer *w, const mnem__any_list *list, int depth) {
    if (list->count == 0) {
        mnem__template_puts(w->t, "[]");
        return;
    }
    mnem__template_puts(w->t, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0) mnem__template_put_str(w->t, w->style->between);
        put_line(w, depth + 1);
        put_value(w, list->items[i], depth + 1);
    }
    put_line(w, depth);
    mnem__template_puts(w->t, "]");
}

static void put_number(json_writer *w, mnem__any a) {
    if (a.kind == MNEM__ANY_FLOAT && a.f != a.f)
        mnem__template_puts(w->t, "NaN");
    else if (a.kind == MNEM__ANY_FLOAT && a.f - a.f != 0)
        mnem__template_puts(w->t, a.f < 0 ? "-Infinity" : "Infinity");
    else
        mnem__template_put_repr(w->t, a);
}

/* true, false and null are words; other values that aren't texts are numbers. */
static bool put_word(json_writer *w, mnem__any a) {
    const bool known = a.kind == MNEM__ANY_NONE || a.kind == MNEM__ANY_BOOL;
    if (known)
        mnem__template_puts(w->t, a.kind == MNEM__ANY_NONE ? "null" : a.i ? "true" : "false");
    return known;
}

static void put_key(json_writer *w, mnem__any key) {
    if (mnem__any_is(key, MNEM__ANY_TEXT)) {
        put_text(w, key);
        return;
    }
    if (!mnem__any_number(key) && !mnem__any_big(key) && !mnem__any_is(key, MNEM__ANY_NONE))
        mnem__template_refuse(
            w->t, "tojson: a key is of type %s, expected text, a number, a boolean or none",
            mnem__any_type(key));
    mnem__template_puts(w->t, "\"");
    if (!put_word(w, key)) put_number(w, key);
    mnem__template_puts(w->t, "\"");
}

static void put_dict(json_writer *w, const mnem__any_dict *dict, int depth) {
    if (dict->count == 0) {
        mnem__template_puts(w->t, "{}");
        return;
    }
    mnem__any view = mnem__any_list_make(w->t, MNEM__ANY_LIST, dict->count);
    mnem__any *keys = mnem__template_take(w->t, dict->count * sizeof *keys);
    for (uint32_t i = 0; i < dict->count; i++) {
        keys[i] = dict->entries[i].key;
        mnem__any_list_add(w->t, view.list, mnem__any_int(i));
    }
    if (w->style->sorted) mnem__template_sort(w->t, view.list, keys, false);
    mnem__template_puts(w->t, "{");
    for (uint32_t i = 0; i < dict->count; i++) {
        const mnem__any_entry *entry = &dict->entries[view.list->items[i].i];
        if (i > 0) mnem__template_put_str(w->t, w->style->between);
        put_line(w, depth + 1);
        put_key(w, entry->key);
        mnem__template_put_str(w->t, w->style->behind_key);
        put_value(w, entry->value, depth + 1);
    }
    put_line(w, depth);
    mnem__template_puts(w->t, "}");
}

static void put_value(json_writer *w, mnem__any a, int depth) {
    mnem__template_enter(w->t);
    if (mnem__any_is(a, MNEM__ANY_TEXT))
        put_text(w, a);
    else if (mnem__any_is(a, MNEM__ANY_LIST) || mnem__any_is(a, MNEM__ANY_TUPLE))
        put_list(w, a.list, depth);
    else if (mnem__any_is(a, MNEM__ANY_DICT))
        put_dict(w, a.dict, depth);
    else if (mnem__any_big(a) || (mnem__any_number(a) && !mnem__any_is(a, MNEM__ANY_BOOL)))
        put_number(w, a);
    else if (!put_word(w, a))
        mnem__template_refuse(w->t, "tojson: a value of type %s can't be written as JSON",
                              mnem__any_type(a));
    mnem__template_leave(w->t);
}

void mnem__template_json_put(mnem_template *t, mnem__any a, const mnem__json_style *style) {
    json_writer w = {t, style};
    put_value(&w, a, 0);
}
