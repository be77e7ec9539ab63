/* schema_pattern.c: regular expressions of a schema as the JSON strings that they admit.
 *
 * Of ECMA-262's (and Python's) syntax: characters, classes, ., \d \w \s and their opposites,
 * groups, |, and the repetitions; ^ and $ at the two ends. A character is written as JSON writes
 * it. What two dialects read differently is narrowed to what both admit: \d, \w and \s are ASCII's,
 * their opposites and classes that leave them out stay within ASCII, and . is no control character.
 * Assertions and references to groups are refused by name. */
#include <stdio.h>

#include "base/heap.h"
#include "engine/grammar/schema_private.h"
#include "model/text/utf8.h"

enum { DEPTH_MAX = 64, COUNT_MAX = 100000, ASCII_MAX = 0x7F };

typedef struct pattern {
    mnem__schema *s;
    const char *text;
    size_t length, at;
    int depth;
    uint32_t n; /* of range */
    mnem__range range[MNEM__RANGES_MAX + 64], other[MNEM__RANGES_MAX + 64];
} pattern;

static bool unsupported(pattern *p, const char *what) {
    return mnem__schema_fail(p->s, MNEM_UNSUPPORTED, "\"pattern\": character %zu: %s", p->at + 1,
                             what);
}

static bool bad(pattern *p, const char *what) {
    return mnem__schema_fail(p->s, MNEM_BAD_FILE, "\"pattern\": character %zu: %s", p->at + 1,
                             what);
}

static char peek(const pattern *p) {
    return p->at < p->length ? p->text[p->at] : 0;
}

static bool take(pattern *p, char c) {
    if (p->at == p->length || p->text[p->at] != c) return false;
    p->at++;
    return true;
}

/* ---- characters as JSON writes them ---- */

/* Of n normalised ranges the part in [low, high], into out; returns how many. */
static uint32_t cut(const mnem__range *range, uint32_t n, uint32_t low, uint32_t high,
                    mnem__range *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        mnem__range r = range[i];
        if (r.low < low) r.low = low;
        if (r.high > high) r.high = high;
        if (r.low <= r.high) out[count++] = r;
    }
    return count;
}

static bool put_escape(pattern *p, uint32_t code, bool any, mnem__choice *choice) {
    const char byte = (char)code;
    if (any) mnem__draft_other(p->s->d, choice);
    /* The quotes around it are none of the character. */
    char text[8];
    static const char letters[] = "\"\\bfnrt", chars[] = "\"\\\b\f\n\r\t";
    const char *found = byte ? strchr(chars, byte) : NULL;
    if (found)
        snprintf(text, sizeof text, "\\%c", letters[found - chars]);
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)(uint8_t)byte);
    mnem__schema_put(p->s, text);
    return true;
}

/* One character of p->range, which is normalised. */
static bool put_set(pattern *p) {
    static const mnem__range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, MNEM__CHARACTER_MAX}};
    mnem__choice choice = mnem__draft_choose(p->s->d);
    bool any = false;
    uint32_t n = 0;
    for (int i = 0; i < 3; i++) n += cut(p->range, p->n, plain[i].low, plain[i].high, p->other + n);
    if (n) mnem__draft_class(p->s->d, p->other, n);
    any = n > 0;
    for (uint32_t code = 0; code <= '\\'; code++) {
        mnem__range one;
        const bool escaped = code < 0x20 || code == '"' || code == '\\';
        if (escaped && cut(p->range, p->n, code, code, &one))
            any = put_escape(p, code, any, &choice);
    }
    mnem__draft_chosen(p->s->d, &choice);
    return any ? mnem__schema_is_fine(p->s) : bad(p, "a class of nothing");
}

static void negate(pattern *p, uint32_t high) {
    p->n = mnem__ranges_normalise(p->range, p->n);
    p->n = mnem__ranges_negate(p->range, p->n, p->other);
    p->n = cut(p->other, p->n, 0x20, high, p->range);
}

static bool add_range(pattern *p, uint32_t low, uint32_t high) {
    if (p->n >= MNEM__RANGES_MAX / 2) return unsupported(p, "a class of so many ranges");
    p->range[p->n++] = (mnem__range){low, high};
    return true;
}

/* The letter of \d, \D and so on; *is: it is one. */
static bool add_kind(pattern *p, char letter, bool *is) {
    static const char *const kinds[] = {"d09", "wAZaz09__", "s\t\r  "};
    for (int i = 0; i < 3; i++) {
        const char *kind = kinds[i];
        if ((letter | 0x20) != *kind) continue;
        mnem__range own[8], opposite[9];
        uint32_t n = 0;
        for (const char *pair = kind + 1; *pair; pair += 2)
            own[n++] = (mnem__range){(uint8_t)pair[0], (uint8_t)pair[1]};
        n = mnem__ranges_normalise(own, n);
        const bool upper = letter < 'a';
        if (upper) n = mnem__ranges_negate(own, n, opposite);
        if (upper) n = cut(opposite, n, 0x20, ASCII_MAX, own);
        *is = true;
        for (uint32_t k = 0; k < n; k++)
            if (!add_range(p, own[k].low, own[k].high)) return false;
        return true;
    }
    *is = false;
    return true;
}

static bool take_hex(pattern *p, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        const char c = peek(p), low = (char)(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(low >= 'a' && low <= 'f')) return bad(p, "a hexadecimal digit is missing");
        *code = *code << 4 | (uint32_t)(digit ? c - '0' : low - 'a' + 10);
    }
    return (*code < 0xD800 || *code > 0xDFFF) || unsupported(p, "a surrogate");
}

/* Behind a backslash: a character, or a kind that is added at once. */
static bool take_escape(pattern *p, uint32_t *code, bool *kind) {
    static const char letters[] = "tnrfv", chars[] = "\t\n\r\f\v";
    const char c = peek(p);
    if (c == 0) return bad(p, "nothing behind a backslash");
    p->at++;
    if (!add_kind(p, c, kind)) return false;
    if (*kind) return true;
    const char *found = strchr(letters, c);
    *code = (uint8_t)(found ? chars[found - letters] : c);
    if (found) return true;
    if (c == 'x' || c == 'u') return take_hex(p, c == 'x' ? 2 : 4, code);
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return (!word && (uint8_t)c < 0x80) || unsupported(p, "this escape is not supported");
}

static bool take_character(pattern *p, uint32_t *code, bool *kind) {
    *kind = false;
    if (take(p, '\\')) return take_escape(p, code, kind);
    const size_t n = mnem__utf8_length(p->text + p->at, p->length - p->at);
    *code = mnem__utf8_code(p->text + p->at, n);
    p->at += n;
    return true;
}

static bool read_class(pattern *p) {
    const bool negated = take(p, '^');
    bool kinds = false, kind;
    p->n = 0;
    while (!take(p, ']')) {
        uint32_t low, high;
        if (p->at == p->length) return bad(p, "']' is missing");
        if (!take_character(p, &low, &kind)) return false;
        kinds |= kind;
        if (kind) continue;
        high = low;
        if (peek(p) == '-' && p->at + 1 < p->length && p->text[p->at + 1] != ']') {
            p->at++;
            if (!take_character(p, &high, &kind)) return false;
            if (kind || high < low) return bad(p, "a range that goes down, or to a kind");
        }
        if (!add_range(p, low, high)) return false;
    }
    if (negated)
        negate(p, kinds ? ASCII_MAX : MNEM__CHARACTER_MAX);
    else
        p->n = mnem__ranges_normalise(p->range, p->n);
    return put_set(p);
}

static bool read_one(pattern *p) {
    uint32_t code;
    bool kind;
    p->n = 0;
    if (take(p, '.')) {
        add_range(p, 0x2028, 0x2029);
        negate(p, MNEM__CHARACTER_MAX);
        return put_set(p);
    }
    if (!take_character(p, &code, &kind)) return false;
    if (!kind) add_range(p, code, code);
    p->n = mnem__ranges_normalise(p->range, p->n);
    return put_set(p);
}

/* ---- the rest ---- */

static bool read_choice(pattern *p);

static bool read_group(pattern *p) {
    if (++p->depth > DEPTH_MAX) return unsupported(p, "groups more than 64 deep");
    if (take(p, '?') && !take(p, ':')) return unsupported(p, "(?...) is not supported");
    if (!read_choice(p)) return false;
    if (!take(p, ')')) return bad(p, "')' is missing");
    p->depth--;
    return true;
}

static bool read_count(pattern *p, uint32_t *count) {
    const size_t at = p->at;
    *count = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        *count = *count * 10 + (uint32_t)(peek(p) - '0');
        if (*count > COUNT_MAX) return unsupported(p, "more than 100,000 times");
    }
    return p->at > at || bad(p, "a number is missing");
}

static bool read_repetition(pattern *p, uint32_t item) {
    uint32_t least = 0, most = MNEM__ENDLESS;
    const char c = peek(p);
    if (!c || !strchr("*+?{", c)) return true;
    p->at++;
    if (c == '+') least = 1;
    if (c == '?') most = 1;
    if (c == '{') {
        if (!read_count(p, &least)) return false;
        if (!take(p, ','))
            most = least;
        else if (peek(p) != '}' && !read_count(p, &most))
            return false;
        if (!take(p, '}')) return bad(p, "'}' is missing");
        if (least > most) return bad(p, "more times at least than at most");
    }
    mnem__draft_repeat(p->s->d, item, least, most);
    take(p, '?'); /* how eager it is changes what is found, not what fits */
    if (peek(p) && strchr("*+?{", peek(p))) return unsupported(p, "repeated twice");
    return mnem__schema_is_fine(p->s);
}

static bool read_item(pattern *p) {
    const char c = peek(p);
    if (c == '^' || c == '$') return unsupported(p, "^ and $ are supported at the two ends only");
    if (strchr("*+?{", c)) return bad(p, "nothing stands before, to be repeated");
    if (take(p, '(')) return read_group(p);
    return take(p, '[') ? read_class(p) : read_one(p);
}

static bool read_choice(pattern *p) {
    mnem__choice choice = mnem__draft_choose(p->s->d);
    while (p->at < p->length && peek(p) != ')') {
        if (take(p, '|')) {
            mnem__draft_other(p->s->d, &choice);
            continue;
        }
        const uint32_t item = mnem__draft_item(p->s->d);
        if (peek(p) == 0) return unsupported(p, "U+0000");
        if (!read_item(p) || !read_repetition(p, item)) return false;
    }
    mnem__draft_chosen(p->s->d, &choice);
    return mnem__schema_is_fine(p->s);
}

static void put_any(mnem__schema *s) {
    const uint32_t item = mnem__draft_item(s->d);
    mnem__schema_put_character(s);
    mnem__draft_repeat(s->d, item, 0, MNEM__ENDLESS);
}

/* Whether a | stands outside of groups and classes: then ^ and $ belong to one side of it. */
static bool has_sides(const char *text, size_t n) {
    int depth = 0;
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            i++;
        else if (in_class)
            in_class = text[i] != ']';
        else if (text[i] == '[')
            in_class = true;
        else if (text[i] == '|' && depth == 0)
            return true;
        else
            depth += (text[i] == '(') - (text[i] == ')');
    }
    return false;
}

static bool write_pattern(pattern *p, const char *text, size_t n) {
    size_t slashes = 0;
    while (slashes + 1 < n && text[n - 2 - slashes] == '\\') slashes++;
    const bool begins = n > 0 && text[0] == '^';
    const bool ends = n > begins && text[n - 1] == '$' && slashes % 2 == 0;
    p->text = text;
    p->length = n - ends;
    p->at = begins;
    if ((begins || ends) && has_sides(text, n))
        return unsupported(p, "^ or $ beside |; put parentheses between");
    mnem__schema_put(p->s, "\"");
    if (!begins) put_any(p->s);
    if (!read_choice(p)) return false;
    if (p->at < p->length) return bad(p, "')' without '('");
    if (!ends) put_any(p->s);
    mnem__schema_put(p->s, "\"");
    return mnem__schema_is_fine(p->s);
}

bool mnem__schema_write_pattern(mnem__schema *s, const char *text, size_t n) {
    pattern *p = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *p);
    if (!p) return mnem__schema_no_memory(s);
    p->s = s;
    const bool fine = write_pattern(p, text, n);
    mnem__free(p);
    return fine;
}
