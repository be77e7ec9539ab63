/* schema_lookahead.c: patterns with assertions about what follows, as several patterns at once:
 * ^(?!X)Y is what Y admits and ^X doesn't, ^(?=X)Y what both admit. */
#include "sampling/grammar/schema/schema_language.h"

bool mnem__schema_looks_ahead(const char *text) {
    return strstr(text, "(?!") || strstr(text, "(?=");
}

/* ^((?!X).)*$: no X, and no line break. */
static bool is_without(const char *text, size_t n, size_t *from, size_t *length) {
    static const char *const before[] = {"^((?!", "^(?:(?!"}, after[] = ").)*$";
    for (int i = 0; i < 2; i++) {
        const size_t head = strlen(before[i]), tail = strlen(after);
        if (n <= head + tail || strncmp(text, before[i], head) != 0) continue;
        if (strcmp(text + n - tail, after) != 0) continue;
        *from = head;
        *length = n - tail - head;
        return true;
    }
    return false;
}

static bool add_one(mnem__schema *s, mnem__language *l, const char *text, size_t n, bool begins,
                    bool wanted) {
    return mnem__language_next(l, wanted) && mnem__schema_write_side(s, text, n, begins);
}

bool mnem__schema_add_pattern(mnem__schema *s, mnem__language *l, const char *text, size_t n,
                              bool wanted) {
    size_t from, length;
    bool begins = false;
    if (!mnem__schema_looks_ahead(text)) return add_one(s, l, text, n, false, wanted);
    if (!wanted)
        return mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"not\" of a \"pattern\" with (?=...) or (?!...) is not supported");
    if (is_without(text, n, &from, &length))
        return add_one(s, l, text + from, length, false, false) &&
               add_one(s, l, "^.*$", 4, false, true);
    if (mnem__pattern_side_end(text, 0, n) < n)
        return mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"pattern\": (?=...) or (?!...) together with | is not supported");
    for (; *text == '^'; text++, n--) begins = true;
    while (begins && n > 3 && text[0] == '(' && text[1] == '?' &&
           (text[2] == '=' || text[2] == '!')) {
        const size_t end = mnem__pattern_group_end(text, 0, n);
        if (end == n) break;
        if (!add_one(s, l, text + 3, end - 3, true, text[2] == '=')) return false;
        text += end + 1;
        n -= end + 1;
    }
    return add_one(s, l, text, n, begins, true);
}
