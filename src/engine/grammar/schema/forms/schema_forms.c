/* schema_forms.c: the texts that serialisers write of one value.
 *
 * JSON.stringify writes it without blanks. Python's json.dumps has a blank behind each comma and
 * colon of a list or an object, ends floats that are whole in ".0", and writes characters from
 * U+007F on by their numbers of UTF-16 (ensure_ascii, its default). */
#include <stdio.h>

#include "engine/grammar/schema/schema_private.h"
#include "model/text/utf8.h"

/* ---- characters by their numbers ---- */

static size_t put_code(char *to, uint32_t code) {
    if (code < 0x10000) return (size_t)sprintf(to, "\\u%04x", code);
    code -= 0x10000;
    return (size_t)sprintf(to, "\\u%04x\\u%04x", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

bool mnem__schema_in_ascii(mnem__schema *s, mnem_text from, mnem_text *text) {
    enum { CODE_BYTES = 6 }; /* of a byte of UTF-8 at most, and one of two surrogates */
    char *bytes = NULL;
    size_t used = 0, first = 0;
    while (first < from.length && (uint8_t)from.bytes[first] < 0x7f) first++;
    *text = (mnem_text){NULL, 0};
    if (first == from.length) return true;
    bytes = mnem__arena_alloc(&s->arena, CODE_BYTES * from.length + 1);
    if (!bytes) return mnem__schema_no_memory(s);
    for (size_t i = 0, length; i < from.length; i += length) {
        length = mnem__utf8_length(from.bytes + i, from.length - i);
        if (length == 0) length = 1; /* no character: it stays */
        if (length == 1 && from.bytes[i] != 0x7f)
            bytes[used++] = from.bytes[i];
        else
            used += put_code(bytes + used, mnem__utf8_code(from.bytes + i, length));
    }
    *text = (mnem_text){bytes, used};
    return true;
}

/* ---- blanks and points ---- */

/* Adds a text with blanks, where it is another one. */
static bool add_blanks(mnem__schema *s, mnem_text from, mnem_text *text, uint32_t *n) {
    char *bytes = mnem__arena_alloc(&s->arena, 2 * from.length + 1);
    size_t used = 0;
    bool within = false;
    if (!bytes) return mnem__schema_no_memory(s);
    for (size_t i = 0; i < from.length; i++) {
        const char c = bytes[used++] = from.bytes[i];
        if (c == '"') within = !within;
        if (c == '\\') bytes[used++] = from.bytes[++i];
        if (!within && (c == ',' || c == ':')) bytes[used++] = ' ';
    }
    if (used > from.length) text[(*n)++] = (mnem_text){bytes, used};
    return true;
}

/* A value that other words constrain is whole where they say so; draft 4 takes a point for more. */
static bool may_have_points(const mnem__schema *s, uint32_t types) {
    for (int w = MNEM__WORD_ANY_OF; w <= MNEM__WORD_CONTAINS; w++)
        if (s->word[w]) return false;
    return types >> MNEM__TYPE_NUMBER & 1;
}

/* As the characters stand. */
static bool add_written(mnem__schema *s, const mnem__node *value, uint32_t types, mnem_text *text,
                        uint32_t *n) {
    const bool points = value->kind != MNEM__JSON_TEXT && may_have_points(s, types);
    mnem_text written, pointed;
    if (!mnem__schema_written(s, value, &written)) return false;
    text[(*n)++] = written;
    if (value->kind == MNEM__JSON_TEXT) return true;
    if (!add_blanks(s, written, text, n)) return false;
    s->points = points;
    const bool fine = mnem__schema_written(s, value, &pointed);
    s->points = false;
    if (!fine || pointed.length == written.length) return fine;
    text[(*n)++] = pointed;
    return add_blanks(s, pointed, text, n);
}

bool mnem__schema_add_forms(mnem__schema *s, const mnem__node *value, uint32_t types,
                            mnem_text *text, uint32_t *n) {
    const uint32_t before = *n;
    if (!add_written(s, value, types, text, n)) return false;
    for (uint32_t i = before, written = *n; i < written; i++) {
        if (!mnem__schema_in_ascii(s, text[i], &text[*n])) return false;
        *n += text[*n].length > 0;
    }
    return true;
}
