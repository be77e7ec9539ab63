/* pickle_values.c: the values that were read from a pickle, for who looks at them.
 *
 * Values are 8 bytes; elements lie in one array of cells:
 *
 *     container: first chunk, last chunk
 *     cells:     ... | next chunk | n | v1 ... vn | ...     one chunk per APPENDS or SETITEMS
 *
 * so that nothing moves and nothing is visited twice. Containers may contain themselves, so nobody
 * may recurse into them. */
#include "replay/pickle_values.h"

#include <string.h>

enum { KEYS_MAX = 256 };

static const struct word {
    const char *text;
    size_t length;
} words[MNEM__WORDS] = {{"", 0},
#define WORD_ROW(name, text) {text, sizeof(text) - 1},
                        MNEM__WORD_LIST(WORD_ROW)
#undef WORD_ROW
};

mnem__word mnem__word_of(const uint8_t *bytes, size_t n) {
    for (unsigned w = 1; w < MNEM__WORDS; w++)
        if (words[w].length == n && memcmp(words[w].text, bytes, n) == 0) return (mnem__word)w;
    return MNEM__WORD_NONE;
}

mnem__value mnem__pickle_top(const mnem__pickle *p) {
    return p->top;
}

bool mnem__pickle_integer(const mnem__pickle *p, mnem__value v, int64_t *out) {
    switch (mnem__value_tag_of(v)) {
    case MNEM__VALUE_SMALL: *out = (int64_t)v >> 4; return true;
    case MNEM__VALUE_LARGE: *out = ((const int64_t *)p->large.p)[mnem__value_index(v)]; return true;
    default: return false;
    }
}

bool mnem__pickle_real(const mnem__pickle *p, mnem__value v, double *out) {
    if (mnem__value_tag_of(v) != MNEM__VALUE_REAL) return false;
    memcpy(out, (const int64_t *)p->large.p + mnem__value_index(v), sizeof *out);
    return true;
}

const char *mnem__pickle_text(const mnem__pickle *p, mnem__value v, size_t *length) {
    if (mnem__value_tag_of(v) == MNEM__VALUE_WORD) {
        *length = words[mnem__value_index(v)].length;
        return words[mnem__value_index(v)].text;
    }
    if (mnem__value_tag_of(v) != MNEM__VALUE_TEXT) return NULL;
    const char *at = (const char *)p->text.p + mnem__value_index(v);
    uint32_t n;
    memcpy(&n, at, sizeof n);
    *length = n;
    return at + sizeof n;
}

mnem__word mnem__pickle_word(mnem__value v) {
    return mnem__value_tag_of(v) == MNEM__VALUE_WORD ? (mnem__word)mnem__value_index(v)
                                                     : MNEM__WORD_NONE;
}

mnem__pickle_walk mnem__pickle_walk_begin(const mnem__pickle *p, mnem__value v) {
    const mnem__value_tag kind = mnem__value_tag_of(v);
    if (kind != MNEM__VALUE_LIST && kind != MNEM__VALUE_DICT)
        return (mnem__pickle_walk){MNEM__NOWHERE, 0};
    return (mnem__pickle_walk){
        ((const mnem__container *)p->containers.p)[mnem__value_index(v)].first, 0};
}

bool mnem__pickle_walk_next(const mnem__pickle *p, mnem__pickle_walk *walk, mnem__value *v) {
    const uint64_t *cells = p->cells.p;
    if (walk->chunk == MNEM__NOWHERE) return false;
    *v = cells[walk->chunk + 2 + walk->at];
    if (++walk->at == cells[walk->chunk + 1]) *walk = (mnem__pickle_walk){cells[walk->chunk], 0};
    return true;
}

bool mnem__pickle_fields(const mnem__pickle *p, mnem__value dict, mnem__fields *fields) {
    *fields = (mnem__fields){{0}};
    if (mnem__value_tag_of(dict) != MNEM__VALUE_DICT) return false;
    mnem__pickle_walk walk = mnem__pickle_walk_begin(p, dict);
    int keys = 0;
    for (mnem__value key, v; mnem__pickle_walk_next(p, &walk, &key);) {
        if (++keys > KEYS_MAX || !mnem__pickle_walk_next(p, &walk, &v)) return false;
        const mnem__word word = mnem__pickle_word(key);
        if (word) fields->of[word] = v;
    }
    return true;
}

uint64_t mnem__pickle_elements(const mnem__pickle *p) {
    return p->cells.count;
}

void mnem__pickle_free(mnem__pickle *p) {
    if (!p) return;
    mnem__free(p->cells.p);
    mnem__free(p->containers.p);
    mnem__free(p->large.p);
    mnem__free(p->text.p);
    mnem__free(p->stack.p);
    mnem__free(p->marks.p);
    mnem__free(p->memo.p);
    mnem__free(p);
}
