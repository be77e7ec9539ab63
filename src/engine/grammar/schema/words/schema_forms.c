/* schema_forms.c: the texts of a value that a schema names: those of JSON.stringify and of
 * json.dumps, whose lists and objects have a blank behind each comma and colon, and whose whole
 * numbers end in ".0" where they are floats. */
#include "base/heap.h"
#include "engine/grammar/schema/schema_private.h"

enum { DIGITS_MAX = 16 }; /* of numbers that json.dumps writes without an exponent */

/* The bytes of a string with its quotes, or of a number; 1 otherwise. */
static size_t token_bytes(mnem_text text, size_t from, bool *whole) {
    size_t at = from + 1;
    *whole = false;
    if (text.bytes[from] == '"') {
        while (text.bytes[at] != '"') at += text.bytes[at] == '\\' ? 2 : 1;
        return at + 1 - from;
    }
    if (!strchr("-0123456789", text.bytes[from])) return 1;
    while (at < text.length && strchr("0123456789.e+-", text.bytes[at])) at++;
    size_t digits = 0;
    for (size_t i = from; i < at; i++) digits += text.bytes[i] >= '0' && text.bytes[i] <= '9';
    *whole = digits <= DIGITS_MAX && digits + (text.bytes[from] == '-') == at - from;
    return at - from;
}

/* Adds a text with blanks or points, where it is another one. */
static bool add_form(mnem__schema *s, mnem_text from, bool blanks, bool points, mnem_text *text,
                     uint32_t *n) {
    char *bytes = mnem__arena_alloc(&s->arena, 3 * from.length + 1);
    size_t used = 0, count;
    bool whole, blank = false, point = false;
    if (!bytes) return mnem__schema_no_memory(s);
    for (size_t at = 0; at < from.length; at += count) {
        count = token_bytes(from, at, &whole);
        memcpy(bytes + used, from.bytes + at, count);
        used += count;
        const bool behind = from.bytes[at] == ',' || from.bytes[at] == ':';
        if (behind && blanks) bytes[used++] = ' ';
        if (whole && points) {
            memcpy(bytes + used, ".0", 2);
            used += 2;
        }
        blank |= behind;
        point |= whole;
    }
    if (blank >= blanks && point >= points) text[(*n)++] = (mnem_text){bytes, used};
    return true;
}

/* A value that other words constrain is whole where they say so; draft 4 takes a point for more. */
static bool may_have_points(const mnem__schema *s, uint32_t types) {
    for (int w = MNEM__WORD_ANY_OF; w <= MNEM__WORD_CONTAINS; w++)
        if (s->word[w]) return false;
    return types >> MNEM__TYPE_NUMBER & 1;
}

bool mnem__schema_add_forms(mnem__schema *s, const mnem__node *value, uint32_t types,
                            mnem_text *text, uint32_t *n) {
    mnem_text written;
    if (!mnem__schema_written(s, value, &written)) return false;
    text[(*n)++] = written;
    if (value->kind == MNEM__JSON_TEXT) return true;
    const bool points = may_have_points(s, types);
    if (!add_form(s, written, true, false, text, n)) return false;
    return !points || (add_form(s, written, false, true, text, n) &&
                       add_form(s, written, true, true, text, n));
}
