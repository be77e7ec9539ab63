/* schema_pattern.c: regular expressions of a schema as the JSON strings that they admit.
 *
 * Of ECMA-262's syntax: characters, classes, ., \d \w \s and their opposites, groups, |, and the
 * repetitions; ^ and $ at the ends of the whole or of a side of |. A character is written as JSON
 * writes it. \d, \w and \s are ASCII's, which all dialects admit; their opposites are all of
 * Unicode but for what a dialect counts among them. Control characters other than tabs and line
 * breaks are written only where they are named. (?=...) and (?!...) are supported at the beginning,
 * and (?!...) before a . that is repeated; other assertions, and references to groups, are refused
 * by name. */
#include <stdio.h>

#include "base/heap.h"
#include "base/text/utf8.h"
#include "sampling/grammar/schema/categories/categories.h"
#include "sampling/grammar/schema/schema_language.h"

enum {
    DEPTH_MAX = 64,
    COUNT_MAX = 100000,
    RANGES_MAX = MNEM__RANGES_MAX - 8 /* of a class; its opposite and what JSON escapes part some */
};

typedef struct pattern {
    mnem__schema *s;
    const char *text;
    size_t length, at;
    int depth;
    uint32_t n;          /* of range */
    uint32_t categories; /* that are in the class beside these */
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

static bool skip_char(pattern *p, char c) {
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
    static const char names[] = "\"\\bfnrt", chars[] = "\"\\\b\f\n\r\t";
    const char *found = byte ? strchr(chars, byte) : NULL;
    if (found)
        snprintf(text, sizeof text, "\\%c", names[found - chars]);
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
    return any ? mnem__schema_is_fine(p->s) : bad(p, "the class [...] contains no character");
}

/* What is printed, and tabs and line breaks, of n normalised ranges. */
static uint32_t cut_printed(const mnem__range *range, uint32_t n, mnem__range *out) {
    uint32_t count = cut(range, n, '\t', '\n', out);
    count += cut(range, n, '\r', '\r', out + count);
    return count + cut(range, n, 0x20, MNEM__CHARACTER_MAX, out + count);
}

static void negate(pattern *p) {
    p->n = mnem__ranges_normalise(p->range, p->n);
    p->n = mnem__ranges_negate(p->range, p->n, p->other);
    p->n = cut_printed(p->other, p->n, p->range);
}

static bool add_range(pattern *p, uint32_t low, uint32_t high) {
    if (p->n >= RANGES_MAX)
        return unsupported(p, "a class [...] of more than 1016 ranges is not supported");
    p->range[p->n++] = (mnem__range){low, high};
    return true;
}

/* \s of ECMA-262: what \S mustn't admit. */
static const mnem__range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const mnem__range numerals[] = {{'0', '9'}};
static const mnem__range letters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
enum { SPACES_OF_ASCII = 2 };

/* The letter of \d, \D and so on; *is: it is one. */
static bool add_kind(pattern *p, char letter, bool *is) {
    const char kind = (char)(letter | 0x20);
    const mnem__range *own = kind == 'd' ? numerals : kind == 'w' ? letters : spaces;
    uint32_t n = kind == 'd' ? 1 : kind == 'w' ? 4 : SPACES_OF_ASCII;
    mnem__range opposite[12], printed[16];
    *is = kind == 'd' || kind == 'w' || kind == 's';
    if (*is && letter < 'a') {
        if (kind == 's') n = sizeof spaces / sizeof *spaces;
        n = mnem__ranges_negate(own, n, opposite);
        n = cut_printed(opposite, n, printed);
        own = printed;
    }
    for (uint32_t i = 0; *is && i < n; i++)
        if (!add_range(p, own[i].low, own[i].high)) return false;
    return true;
}

static bool take_hex(pattern *p, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        const char c = peek(p), low = (char)(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(low >= 'a' && low <= 'f'))
            return bad(p, "the escapes \\x and \\u need 2 and 4 hexadecimal digits");
        *code = *code << 4 | (uint32_t)(digit ? c - '0' : low - 'a' + 10);
    }
    return (*code < 0xD800 || *code > 0xDFFF) ||
           unsupported(p, "an escape that is a surrogate (U+D800 to U+DFFF) is not supported");
}

/* \p{...}: added when the class ends, so that those that touch are one range. */
static bool take_categories(pattern *p, bool negated, bool *kind) {
    uint32_t set;
    if (!mnem__categories_read(p->text, p->length, &p->at, negated, &set))
        return unsupported(p,
                           "this \\p{...} is not supported; use a general category such as \\p{L}");
    p->categories |= set;
    return *kind = true;
}

/* What is not assigned is in no opposite of a category. */
static bool add_categories(pattern *p, bool negated) {
    mnem__range *range = p->other;
    if (!p->categories) return true;
    const uint32_t open = negated ? MNEM__CATEGORIES_OPEN : 0;
    const uint32_t n = mnem__categories_ranges(p->categories | open, range, RANGES_MAX);
    if (n > RANGES_MAX - p->n)
        return unsupported(p, "a class [...] of more than 1016 ranges is not supported");
    memcpy(p->range + p->n, range, n * sizeof *range);
    p->n = mnem__ranges_normalise(p->range, p->n + n);
    p->categories = 0;
    return true;
}

/* Behind a backslash: a character, or a kind that is added at once. */
static bool take_escape(pattern *p, uint32_t *code, bool *kind) {
    static const char names[] = "tnrfv", chars[] = "\t\n\r\f\v";
    const char c = peek(p);
    if (c == 0) return bad(p, "the pattern ends in a backslash, which needs a character behind it");
    p->at++;
    if (!add_kind(p, c, kind)) return false;
    if (*kind) return true;
    const char *found = strchr(names, c);
    *code = (uint8_t)(found ? chars[found - names] : c);
    if (found) return true;
    if (c == 'x' || c == 'u') return take_hex(p, c == 'x' ? 2 : 4, code);
    if (c == 'p' || c == 'P') return take_categories(p, c == 'P', kind);
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return (!word && (uint8_t)c < 0x80) ||
           unsupported(
               p,
               "this escape is not supported; use \\d \\w \\s \\t \\n \\r \\f \\v \\x \\u or \\p");
}

static bool take_character(pattern *p, uint32_t *code, bool *kind) {
    *kind = false;
    if (skip_char(p, '\\')) return take_escape(p, code, kind);
    const size_t n = mnem__utf8_length(p->text + p->at, p->length - p->at);
    *code = mnem__utf8_code(p->text + p->at, n);
    p->at += n;
    return true;
}

static bool read_class(pattern *p) {
    const bool negated = skip_char(p, '^');
    bool kind, spaced = false;
    p->n = 0;
    while (!skip_char(p, ']')) {
        uint32_t low, high;
        if (p->at == p->length) return bad(p, "expected ']', which closes a class");
        if (!take_character(p, &low, &kind)) return false;
        spaced |= kind && p->text[p->at - 1] == 's';
        high = low;
        if (!kind && peek(p) == '-' && p->at + 1 < p->length && p->text[p->at + 1] != ']') {
            p->at++;
            if (!take_character(p, &high, &kind)) return false;
            if (!kind && high < low)
                return bad(p, "a range in [...] ends before it begins; swap its ends");
            if (kind && (!add_range(p, low, low) || !add_range(p, '-', '-'))) return false;
        }
        if (!kind && !add_range(p, low, high)) return false;
    }
    for (uint32_t i = SPACES_OF_ASCII; negated && spaced && i < sizeof spaces / sizeof *spaces; i++)
        if (!add_range(p, spaces[i].low, spaces[i].high)) return false;
    if (!add_categories(p, negated)) return false;
    if (negated)
        negate(p);
    else
        p->n = mnem__ranges_normalise(p->range, p->n);
    return put_set(p);
}

static bool read_one(pattern *p) {
    uint32_t code;
    bool kind;
    p->n = 0;
    if (skip_char(p, '.')) {
        add_range(p, '\n', '\n');
        add_range(p, '\r', '\r');
        add_range(p, 0x2028, 0x2029);
        negate(p);
        return put_set(p);
    }
    if (!take_character(p, &code, &kind)) return false;
    if (!kind) add_range(p, code, code);
    if (!add_categories(p, false)) return false;
    p->n = mnem__ranges_normalise(p->range, p->n);
    return put_set(p);
}

/* ---- the rest ---- */

static bool read_choice(pattern *p);

/* <name>, which says nothing. */
static bool take_name(pattern *p) {
    const size_t at = p->at;
    if (!skip_char(p, '<') || peek(p) == '=' || peek(p) == '!') {
        p->at = at;
        return false;
    }
    while (p->at < p->length && peek(p) != '>') p->at++;
    return skip_char(p, '>');
}

static bool read_group(pattern *p) {
    if (++p->depth > DEPTH_MAX)
        return unsupported(p, "groups are nested more than 64 deep, which is not supported");
    if (skip_char(p, '?') && !skip_char(p, ':') && !take_name(p))
        return unsupported(
            p, "this kind of group is not supported; use (...), (?:...) or (?<name>...)");
    if (!read_choice(p)) return false;
    if (!skip_char(p, ')')) return bad(p, "expected ')', which closes a group");
    p->depth--;
    return true;
}

static bool read_count(pattern *p, uint32_t *count) {
    const size_t at = p->at;
    *count = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        *count = *count * 10 + (uint32_t)(peek(p) - '0');
        if (*count > COUNT_MAX)
            return unsupported(p, "a repetition of more than 100,000 times is not supported");
    }
    return p->at > at || bad(p, "expected a number of repetitions, as in {2} or {1,3}");
}

/* Whether a repetition follows; other braces are characters. */
static bool is_repetition(const pattern *p) {
    size_t at = p->at + 1;
    const char c = peek(p);
    if (c != '{') return c && strchr("*+?", c);
    const size_t first = at;
    while (at < p->length && p->text[at] >= '0' && p->text[at] <= '9') at++;
    if (at == first) return false;
    if (at < p->length && p->text[at] == ',') at++;
    while (at < p->length && p->text[at] >= '0' && p->text[at] <= '9') at++;
    return at < p->length && p->text[at] == '}';
}

static bool read_repetition(pattern *p, uint32_t item) {
    uint32_t least = 0, most = MNEM__ENDLESS;
    const char c = peek(p);
    if (!is_repetition(p)) return true;
    p->at++;
    if (c == '+') least = 1;
    if (c == '?') most = 1;
    if (c == '{') {
        if (!read_count(p, &least)) return false;
        if (!skip_char(p, ','))
            most = least;
        else if (peek(p) != '}' && !read_count(p, &most))
            return false;
        if (!skip_char(p, '}')) return bad(p, "expected '}' after the number of repetitions");
        if (least > most)
            return bad(p, "the least number of repetitions is above the most; swap them");
    }
    mnem__draft_repeat(p->s->d, item, least, most);
    skip_char(p, '?'); /* how eager it is changes what is found, not what fits */
    if (is_repetition(p))
        return unsupported(p, "two repetitions follow each other: put the first into (?:...)");
    return mnem__schema_is_fine(p->s);
}

static bool read_item(pattern *p) {
    const char c = peek(p);
    if (c == '^' || c == '$')
        return unsupported(p,
                           "^ and $ are supported only at the ends of a pattern or of a side of |");
    if (is_repetition(p))
        return bad(p, "a repetition (*, +, ? or {) has nothing before it to repeat");
    if (skip_char(p, '(')) return read_group(p);
    return skip_char(p, '[') ? read_class(p) : read_one(p);
}

static bool read_choice(pattern *p) {
    mnem__choice choice = mnem__draft_choose(p->s->d);
    while (p->at < p->length && peek(p) != ')') {
        if (skip_char(p, '|')) {
            mnem__draft_other(p->s->d, &choice);
            continue;
        }
        const uint32_t item = mnem__draft_item(p->s->d);
        if (peek(p) == 0)
            return unsupported(p, "the pattern has the character U+0000, which is not supported");
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

/* Behind the character, the escape or the class that begins at i; that may be behind the end. */
static size_t behind(const char *text, size_t i, size_t n) {
    if (text[i] == '\\') return i + 2;
    if (text[i] == '[')
        for (i++; i < n && text[i] != ']'; i++) i += text[i] == '\\';
    return i + 1;
}

/* Where the side of | that begins at `from` ends. */
size_t mnem__pattern_side_end(const char *text, size_t from, size_t n) {
    int depth = 0;
    for (size_t i = from; i < n; i = behind(text, i, n)) {
        if (text[i] == '|' && depth == 0) return i;
        depth += (text[i] == '(') - (text[i] == ')');
    }
    return n;
}

/* Whether ^ or $ stands there as an assertion. */
static bool has_anchor(const char *text, size_t from, size_t n) {
    for (size_t i = from; i < n; i = behind(text, i, n))
        if (text[i] == '^' || text[i] == '$') return true;
    return false;
}

/* Where the ')' of the group that begins at `from` stands; n: there is none. */
size_t mnem__pattern_group_end(const char *text, size_t from, size_t n) {
    int depth = 0;
    for (size_t i = from; i < n; i = behind(text, i, n)) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0) return i;
    }
    return n;
}

/* The inside of a side that is one group and no more; false: it isn't. */
static bool group_inside(const char *text, size_t *from, size_t *end) {
    size_t at = *from;
    if (at == *end || text[at] != '(') return false;
    const size_t i = mnem__pattern_group_end(text, at, *end);
    if (i + 1 != *end) return false;
    at++;
    if (at < *end && text[at] == '?') {
        if (text[at + 1] != ':') return false;
        at += 2;
    }
    *from = at;
    *end = i;
    return true;
}

/* What has no assertion inside of it; begins, ends: one holds at that end. */
static bool write_choice(pattern *p, size_t from, size_t end, bool begins, bool ends) {
    p->at = from;
    p->length = end;
    if (!begins) put_any(p->s);
    if (!read_choice(p)) return false;
    if (p->at < p->length) return bad(p, "')' without '('");
    if (!ends) put_any(p->s);
    return true;
}

static bool write_range(pattern *p, size_t from, size_t end, bool begins, bool ends);

/* A side of |, or all where there is none; begins, ends: an assertion holds at that end already. */
static bool write_side(pattern *p, size_t from, size_t end, bool begins, bool ends) {
    size_t slashes = 0;
    for (; from < end && p->text[from] == '^'; from++) begins = true;
    while (slashes + from + 1 < end && p->text[end - 2 - slashes] == '\\') slashes++;
    if (from < end && p->text[end - 1] == '$' && slashes % 2 == 0) {
        ends = true;
        end--;
    }
    size_t inside = from, inside_end = end;
    if (has_anchor(p->text, from, end) && group_inside(p->text, &inside, &inside_end)) {
        if (++p->depth > DEPTH_MAX)
            return unsupported(p, "groups are nested more than 64 deep, which is not supported");
        return write_range(p, inside, inside_end, begins, ends);
    }
    return write_choice(p, from, end, begins, ends);
}

static bool write_range(pattern *p, size_t from, size_t end, bool begins, bool ends) {
    const size_t first = mnem__pattern_side_end(p->text, from, end);
    if (first == end) return write_side(p, from, end, begins, ends);
    if (!has_anchor(p->text, from, end)) return write_choice(p, from, end, begins, ends);
    mnem__choice choice = mnem__draft_choose(p->s->d);
    for (size_t at = from; at <= end;) {
        const size_t to = mnem__pattern_side_end(p->text, at, end);
        if (at > from) mnem__draft_other(p->s->d, &choice);
        if (!write_side(p, at, to, begins, ends)) return false;
        at = to + 1;
    }
    mnem__draft_chosen(p->s->d, &choice);
    return true;
}

bool mnem__schema_write_side(mnem__schema *s, const char *text, size_t n, bool begins) {
    pattern *p = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *p);
    if (!p) return mnem__schema_no_memory(s);
    p->s = s;
    p->text = text;
    mnem__schema_put(s, "\"");
    const bool fine = write_range(p, 0, n, begins, false);
    mnem__schema_put(s, "\"");
    mnem__free(p);
    return fine && mnem__schema_is_fine(s);
}

bool mnem__schema_write_pattern(mnem__schema *s, const char *text, size_t n) {
    return mnem__schema_write_side(s, text, n, false);
}
