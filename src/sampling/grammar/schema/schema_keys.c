/* schema_keys.c: keys that a schema does not name.
 *
 * Without patterns they are a tree of the names, which texts leave. With patterns (and with
 * propertyNames) they are languages, one for each set of patterns that a key may match at once. */
#include "base/heap.h"
#include "base/text/utf8.h"
#include "sampling/grammar/schema/schema_language.h"

enum { KEY_BYTES_MAX = 512, KEYS_MAX = 512 };

/* ---- keys that aren't named ---- */

/* A tree of the names, a character at a time: the text leaves it by a character that no name goes
 * on with, or ends where no name does. An escape may stand for a character that no name goes on
 * with: names that need one are not met, nor names that have one that they don't need. */
typedef struct key_writer {
    mnem__schema *s;
    const char *name[KEYS_MAX];
    mnem__range range[MNEM__RANGES_MAX], negated[MNEM__RANGES_MAX + 1];
} key_writer;

static uint32_t next_code(const char *name, size_t at, size_t *length) {
    *length = mnem__utf8_length(name + at, strlen(name + at) + 1);
    return mnem__utf8_code(name + at, *length);
}

/* Escapes of characters that none of these goes on with, as cases behind the last one. */
static void put_other_escapes(key_writer *w, mnem__choice *choice, const char *const *name,
                              uint32_t n, size_t at) {
    static const char letters[] = "\"/\\bfnrt", codes[] = "\"/\\\b\f\n\r\t";
    char pairs[2 * sizeof letters] = "";
    bool distant = true;
    size_t length, put = 0;
    for (size_t i = 0; letters[i]; i++) {
        bool named = false;
        for (uint32_t k = 0; k < n; k++) named |= name[k][at] == codes[i];
        if (!named) pairs[put++] = letters[i], pairs[put++] = letters[i];
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t code = next_code(name[k], at, &length);
        distant &= code == 0 || (code >= 0x20 && code < 0x80);
    }
    if (put) {
        mnem__draft_other(w->s->d, choice);
        mnem__schema_put(w->s, "\\");
        mnem__draft_letters(w->s->d, pairs);
    }
    if (distant) {
        mnem__draft_other(w->s->d, choice);
        mnem__schema_put(w->s, "\\");
        mnem__schema_call(w->s, MNEM__RULE_DISTANT);
    }
}

static void put_other_character(key_writer *w, const char *const *name, uint32_t n, size_t at) {
    uint32_t count = 3;
    size_t length;
    w->range[0] = (mnem__range){0, 0x1F};
    w->range[1] = (mnem__range){'"', '"'};
    w->range[2] = (mnem__range){'\\', '\\'};
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t code = next_code(name[i], at, &length);
        if (code) w->range[count++] = (mnem__range){code, code};
    }
    count = mnem__ranges_normalise(w->range, count);
    count = mnem__ranges_negate(w->range, count, w->negated);
    mnem__choice choice = mnem__draft_choose(w->s->d);
    mnem__draft_class(w->s->d, w->negated, count);
    put_other_escapes(w, &choice, name, n, at);
    mnem__draft_chosen(w->s->d, &choice);
    const uint32_t item = mnem__draft_item(w->s->d);
    mnem__schema_put_character(w->s);
    mnem__draft_repeat(w->s->d, item, 0, MNEM__ENDLESS);
}

/* n names that begin with the same `at` bytes. */
static void put_other_key(key_writer *w, const char **name, uint32_t n, size_t at) {
    mnem__draft *d = w->s->d;
    mnem__choice choice = mnem__draft_choose(d);
    bool ends = false;
    put_other_character(w, name, n, at);
    for (uint32_t i = 0, same; i < n && mnem__schema_is_fine(w->s); i = same) {
        size_t length, other;
        const uint32_t code = next_code(name[i], at, &length);
        same = i + 1;
        for (uint32_t k = same; k < n; k++) {
            const char *at_hand = name[k];
            if (next_code(at_hand, at, &other) != code) continue;
            name[k] = name[same];
            name[same++] = at_hand;
        }
        if (code == 0) ends = true;
        if (code < 0x20 || code == '"' || code == '\\') continue;
        mnem__draft_other(d, &choice);
        mnem__draft_text(d, name[i] + at, length);
        put_other_key(w, name + i, same - i, at + length);
    }
    if (!ends) mnem__draft_other(d, &choice);
    mnem__draft_chosen(d, &choice);
}

static bool take_names(key_writer *w, const char *const *name, uint32_t count, uint32_t *n) {
    for (uint32_t i = 0; i < count; i++) {
        if (*n == KEYS_MAX)
            return mnem__schema_fail(w->s, MNEM_UNSUPPORTED,
                                     "an object that permits further properties supports up to %d "
                                     "named ones: name fewer, or list all in \"properties\" and "
                                     "set \"additionalProperties\" to false",
                                     KEYS_MAX);
        if (strlen(name[i]) > KEY_BYTES_MAX)
            return mnem__schema_fail(
                w->s, MNEM_UNSUPPORTED,
                "a property name has %zu bytes; an object that permits further "
                "properties supports names of up to %d: shorten the name, or "
                "set \"additionalProperties\" to false",
                strlen(name[i]), KEY_BYTES_MAX);
        w->name[(*n)++] = name[i];
    }
    return true;
}

bool mnem__schema_write_other_key(mnem__schema *s, const char *const *name, uint32_t count) {
    uint32_t n = 0;
    key_writer *w = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *w);
    if (!w) return mnem__schema_no_memory(s);
    w->s = s;
    mnem__schema_put(s, "\"");
    if (take_names(w, name, count, &n)) put_other_key(w, w->name, n, 0);
    mnem__schema_put(s, "\"");
    mnem__free(w);
    return mnem__schema_is_fine(s);
}

/* ---- keys by patterns ---- */

static bool add_names(mnem__schema *s, mnem__language *l, const mnem__schema_keys *keys) {
    if (keys->names == 0) return true;
    if (!mnem__language_next(l, false)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    for (uint32_t i = 0; i < keys->names; i++) {
        if (i) mnem__draft_other(s->d, &choice);
        mnem__schema_put_quoted(s, keys->name[i], strlen(keys->name[i]));
    }
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* What propertyNames says, or any string. */
static bool add_strings(mnem__schema *s, mnem__language *l, const mnem__schema_keys *keys) {
    const mnem__schema_all *before = s->all;
    const mnem__schema_all all = {.part = keys->of_names->part, .count = keys->of_names->count};
    uint32_t part = 0;
    s->all = &all;
    bool fine = mnem__schema_read_words(s);
    if (fine && mnem__schema_open_word(s, &part) != MNEM__WORD_COUNT)
        fine = mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"propertyNames\" with \"anyOf\", \"oneOf\", \"not\" or \"if\" is not supported");
    for (uint32_t i = 0; fine && i < all.count; i++) {
        const mnem__node *type = mnem__schema_says(s, all.part[i].node, MNEM__WORD_TYPE);
        uint32_t bits;
        fine = mnem__schema_types(s, type, &bits);
        if (fine && bits >> MNEM__TYPE_STRING & 1) continue;
        mnem__language_next(l, true); /* a name is a string */
        mnem__schema_put_never(s);
    }
    fine = fine && mnem__schema_add_string(s, l);
    s->all = before;
    return fine && mnem__schema_read_words(s);
}

static bool add_patterns(mnem__schema *s, mnem__language *l, const mnem__schema_keys *keys,
                         uint32_t matched) {
    for (uint32_t i = 0; i < keys->patterns; i++)
        if (!mnem__schema_add_pattern(s, l, keys->pattern[i], strlen(keys->pattern[i]),
                                      matched >> i & 1))
            return false;
    return true;
}

static const char too_large[] = "the patterns, lengths and property names of one object are too "
                                "large together; simplify them, or leave one out";

bool mnem__schema_write_matched_key(mnem__schema *s, const mnem__schema_keys *keys,
                                    uint32_t matched, bool *any) {
    mnem__language *l = mnem__language_open(s);
    *any = false;
    if (!l) return false;
    const bool fine = add_strings(s, l, keys) && add_names(s, l, keys) &&
                      add_patterns(s, l, keys, matched) && mnem__language_write(l, too_large, any);
    mnem__language_close(l);
    return fine && mnem__schema_is_fine(s);
}
