/* gbnf.c: GBNF to a draft, in one pass.
 *
 *     grammar   = { NAME "::=" choice NEWLINE }           a name's rule may come later
 *     choice    = sequence { "|" sequence }
 *     sequence  = { item [ "*" | "+" | "?" | "{" m [ "," [ n ] ] "}" ] }
 *     item      = "text" | [class] | "." | NAME | "(" choice ")"
 *
 * A line's end ends a rule, but in parentheses and behind ::= and |. Groups nest at most DEPTH_MAX
 * deep, which bounds the stack.
 * Cost: linear. 16 bytes for each name, and 3 for each byte of the text, while it is read. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/text/id_table.h"
#include "base/text/utf8.h"
#include "sampling/grammar/draft/gbnf.h"

enum { DEPTH_MAX = 100, COUNT_MAX = 100000000 };

typedef struct name {
    uint32_t at, length; /* in the text, where it is first seen */
    uint32_t rule;
    bool defined;
} name;

typedef struct reader {
    const char *text;
    size_t length, at;
    int depth;
    mnem__draft *d;
    mnem__id_table table; /* of names */
    name *names;
    uint32_t count, room;
    const mnem__gbnf_given *given; /* rules that others have written; ends with a NULL name */
    mnem__range range[2 * MNEM__RANGES_MAX]; /* of the class at hand */
    mnem_status status;
} reader;

/* ---- what is wrong ---- */

static bool fail_at(reader *r, size_t at, mnem_status status, const char *what) {
    size_t line = 1, begin = 0;
    if (r->status != MNEM_OK) return false;
    for (size_t i = 0; i < at && i < r->length; i++)
        if (r->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    r->status = mnem__fail(status, "grammar: line %zu, column %zu: %s", line, at - begin + 1, what);
    return false;
}

static bool bad(reader *r, const char *what) {
    return fail_at(r, r->at, MNEM_BAD_FILE, what);
}

/* The draft's failure, told where it is noticed. */
static bool is_fine(reader *r) {
    if (r->status == MNEM_OK && r->d->status == MNEM_OVER_BUDGET)
        return fail_at(
            r, r->at, MNEM_OVER_BUDGET,
            "the grammar up to here exceeds the memory limit (mnem_grammar_options.bytes)");
    if (r->status == MNEM_OK) r->status = r->d->status;
    return r->status == MNEM_OK;
}

static bool bad_name(reader *r, const name *n, const char *what) {
    char text[96];
    snprintf(text, sizeof text, what, (int)(n->length < 40 ? n->length : 40), r->text + n->at);
    return fail_at(r, n->at, MNEM_BAD_FILE, text);
}

/* ---- characters ---- */

/* 0 at the end; a zero in the text is no UTF-8 of a grammar either. */
static char peek(const reader *r) {
    return r->at < r->length ? r->text[r->at] : 0;
}

static bool skip_char(reader *r, char c) {
    if (peek(r) != c || r->at == r->length) return false;
    r->at++;
    return true;
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static bool is_line_end(char c) {
    return c == '\n' || c == '\r';
}

static void skip_comment(reader *r) {
    while (r->at < r->length && !is_line_end(peek(r))) r->at++;
}

static void skip_space(reader *r, bool lines) {
    for (;; r->at++) {
        if (peek(r) == '#') skip_comment(r);
        const char c = peek(r); /* 0 at the end, behind a comment too */
        if (c != ' ' && c != '\t' && !(lines && is_line_end(c))) return;
    }
}

static bool take_hex(reader *r, int digits, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const char c = peek(r), low = (char)(c | 0x20);
        const bool digit = c >= '0' && c <= '9';
        if (!digit && !(low >= 'a' && low <= 'f'))
            return bad(r, "the escapes \\x, \\u and \\U need 2, 4 and 8 hexadecimal digits");
        *code = *code << 4 | (uint32_t)(digit ? c - '0' : low - 'a' + 10);
    }
    return *code <= MNEM__CHARACTER_MAX ||
           bad(r, "the escape is beyond U+10FFFF, the last character");
}

static bool take_escape(reader *r, uint32_t *code) {
    static const char letters[] = "nrt\\\"[]-", chars[] = "\n\r\t\\\"[]-";
    const char c = peek(r);
    const char *found = c ? strchr(letters, c) : NULL;
    if (!found && c != 'x' && c != 'u' && c != 'U')
        return bad(r, "a backslash must be followed by one of n r t x u U \\ \" [ ] -");
    r->at++;
    if (!found) return take_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
    *code = (uint8_t)chars[found - letters];
    return true;
}

static bool take_character(reader *r, uint32_t *code) {
    if (r->at == r->length)
        return bad(r, "the grammar ends inside of \"...\" or [...], which must be closed");
    if (skip_char(r, '\\')) return take_escape(r, code);
    const size_t n = mnem__utf8_length(r->text + r->at, r->length - r->at);
    if (n == 0) return bad(r, "the text is not valid UTF-8");
    *code = mnem__utf8_code(r->text + r->at, n);
    r->at += n;
    return true;
}

/* ---- items ---- */

static bool read_text(reader *r) {
    uint32_t code;
    char bytes[4];
    while (!skip_char(r, '"')) {
        const size_t at = r->at;
        if (!take_character(r, &code)) return false;
        if (code >= 0xD800 && code <= 0xDFFF)
            return fail_at(
                r, at, MNEM_BAD_FILE,
                "the escape is a surrogate (U+D800 to U+DFFF), which is not a character");
        mnem__draft_text(r->d, bytes, mnem__utf8_put(code, bytes));
        if (!is_fine(r)) return false;
    }
    return true;
}

static bool read_range(reader *r, mnem__range *range) {
    const size_t at = r->at;
    if (!take_character(r, &range->low)) return false;
    range->high = range->low;
    const bool more = peek(r) == '-' && r->at + 1 < r->length && r->text[r->at + 1] != ']';
    if (!more) return true;
    r->at++;
    if (!take_character(r, &range->high)) return false;
    return range->low <= range->high ||
           fail_at(r, at, MNEM_BAD_FILE, "a range in [...] ends before it begins; swap its ends");
}

static bool read_class(reader *r) {
    const bool negated = skip_char(r, '^');
    uint32_t n = 0;
    while (!skip_char(r, ']')) {
        if (n == MNEM__RANGES_MAX - 1)
            return bad(r, "the class [...] has more than 1023 ranges, the limit");
        if (!read_range(r, &r->range[n])) return false;
        n++;
    }
    if (n == 0) return bad(r, "the class [] is empty; put a character into it");
    n = mnem__ranges_normalise(r->range, n);
    mnem__range *range = r->range;
    if (negated) {
        range += MNEM__RANGES_MAX;
        n = mnem__ranges_negate(r->range, n, range);
    }
    mnem__draft_class(r->d, range, n);
    return is_fine(r);
}

/* The name at hand, which is put into the table if it isn't there. */
static name *read_name(reader *r) {
    const size_t at = r->at;
    uint32_t i;
    while (r->at < r->length && is_name(peek(r))) r->at++;
    const uint32_t length = (uint32_t)(r->at - at);
    const uint64_t hash = mnem__hash_bytes(r->text + at, length);
    mnem__id_probe probe = mnem__id_table_find(&r->table, hash);
    while (mnem__id_table_next(&r->table, &probe, &i)) {
        const name *n = &r->names[i];
        if (n->length == length && memcmp(r->text + n->at, r->text + at, length) == 0)
            return &r->names[i];
    }
    if (r->count == r->room) {
        const uint32_t room = r->room ? 2 * r->room : 32;
        name *more = mnem__realloc(MNEM__GRAMMAR_TAG, r->names, room * sizeof *more);
        if (!more) r->status = mnem__heap_status();
        if (!more) return NULL;
        r->names = more;
        r->room = room;
    }
    r->names[r->count] = (name){(uint32_t)at, length, mnem__draft_rule(r->d), false};
    if (!is_fine(r)) return NULL;
    r->status = mnem__id_table_put(&r->table, hash, r->count);
    return r->status == MNEM_OK ? &r->names[r->count++] : NULL;
}

static bool read_choice(reader *r, bool nested);

static bool read_group(reader *r) {
    if (++r->depth > DEPTH_MAX)
        return fail_at(r, r->at - 1, MNEM_BAD_FILE,
                       "parentheses are nested more than 100 deep, the limit");
    skip_space(r, true);
    if (!read_choice(r, true)) return false;
    if (!skip_char(r, ')')) return bad(r, "expected ')', which closes a group");
    r->depth--;
    return true;
}

/* *is: whether an item stands here. */
static bool read_item(reader *r, bool *is) {
    const char c = peek(r);
    *is = true;
    if (skip_char(r, '"')) return read_text(r);
    if (skip_char(r, '[')) return read_class(r);
    if (skip_char(r, '(')) return read_group(r);
    if (skip_char(r, '.')) {
        const mnem__range any = {0, MNEM__CHARACTER_MAX};
        mnem__draft_class(r->d, &any, 1);
        return is_fine(r);
    }
    if (c == '<' || c == '!')
        return fail_at(
            r, r->at, MNEM_UNSUPPORTED,
            "tokens by name (<...>) are not supported: write the token's text in quotes, "
            "such as \"<think>\"");
    if (!(*is = is_name(c))) return true;
    const name *n = read_name(r);
    if (!n) return false;
    mnem__draft_call(r->d, n->rule);
    return is_fine(r);
}

/* ---- repetitions ---- */

static bool read_count(reader *r, uint32_t *count) {
    *count = 0;
    if (peek(r) < '0' || peek(r) > '9')
        return bad(r, "expected a number of repetitions, as in {2} or {1,3}");
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++) {
        *count = *count * 10 + (uint32_t)(peek(r) - '0');
        if (*count > COUNT_MAX)
            return bad(r, "the number of repetitions is more than 100000000, the limit");
    }
    return true;
}

static bool read_braces(reader *r, bool nested, uint32_t *least, uint32_t *most) {
    skip_space(r, nested);
    if (!read_count(r, least)) return false;
    *most = *least;
    skip_space(r, nested);
    if (peek(r) != ',' && peek(r) != '}')
        return bad(r, "expected ',' or '}' after the number of repetitions, as in {2} or {2,5}");
    if (skip_char(r, ',')) {
        *most = MNEM__ENDLESS;
        skip_space(r, nested);
        if (peek(r) != '}' && !read_count(r, most)) return false;
        skip_space(r, nested);
    }
    if (!skip_char(r, '}')) return bad(r, "expected '}' after the number of repetitions");
    return *least <= *most ||
           bad(r, "the minimum number of repetitions is greater than the maximum; swap them");
}

static bool is_repetition(char c) {
    return c && strchr("*+?{", c);
}

static bool read_repetition(reader *r, uint32_t item, bool nested) {
    const size_t at = r->at;
    uint32_t least = 0, most = MNEM__ENDLESS;
    if (!is_repetition(peek(r))) return true;
    const char c = r->text[r->at++];
    if (c == '+') least = 1;
    if (c == '?') most = 1;
    if (c == '{' && !read_braces(r, nested, &least, &most)) return false;
    mnem__draft_repeat(r->d, item, least, most);
    if (r->d->status == MNEM_OVER_BUDGET)
        return fail_at(
            r, at, MNEM_OVER_BUDGET,
            "this repetition makes the grammar exceed its memory limit; repeat fewer times");
    skip_space(r, nested);
    if (is_repetition(peek(r)))
        return bad(r, "two repetitions follow each other: put the first into parentheses");
    return is_fine(r);
}

static bool read_sequence(reader *r, bool nested) {
    for (;;) {
        bool is;
        if (is_repetition(peek(r)))
            return bad(r, "a repetition (*, +, ? or {) has nothing before it to repeat");
        const uint32_t item = mnem__draft_item(r->d);
        if (!is_fine(r) || !read_item(r, &is)) return false;
        if (!is) return true;
        skip_space(r, nested);
        if (!read_repetition(r, item, nested)) return false;
    }
}

static bool read_choice(reader *r, bool nested) {
    mnem__choice choice = mnem__draft_choose(r->d);
    if (!read_sequence(r, nested)) return false;
    while (skip_char(r, '|')) {
        mnem__draft_other(r->d, &choice);
        skip_space(r, true);
        if (!read_sequence(r, nested)) return false;
    }
    mnem__draft_chosen(r->d, &choice);
    return is_fine(r);
}

/* ---- rules ---- */

static bool read_rule(reader *r) {
    const size_t at = r->at;
    if (!is_name(peek(r)))
        return bad(r, "expected the name of a rule, of letters, digits, - and _");
    name *n = read_name(r);
    if (!n) return false;
    if (n->defined)
        return fail_at(r, at, MNEM_BAD_FILE,
                       "a rule of this name was defined before; remove or rename one");
    n->defined = true;
    skip_space(r, false);
    if (r->length - r->at < 3 || memcmp(r->text + r->at, "::=", 3) != 0)
        return bad(r, "expected '::=' after the name of a rule");
    r->at += 3;
    skip_space(r, true);
    mnem__draft_begin(r->d, n->rule);
    if (!read_choice(r, false)) return false;
    mnem__draft_end(r->d);
    if (peek(r) == ')') return bad(r, "')' without '('");
    if (r->at < r->length && !is_line_end(peek(r)))
        return bad(r,
                   "expected \"text\", a [class], a (group), a rule's name or the end of the line");
    return is_fine(r);
}

/* The rules of these names. */
static bool find_rules(reader *r, const char *const *names, uint32_t count, uint32_t *rules) {
    for (uint32_t k = 0; k < count; k++) {
        const name *found = NULL;
        char text[64];
        for (uint32_t i = 0; i < r->count && !found; i++) {
            const name *n = &r->names[i];
            if (n->length == strlen(names[k]) && memcmp(r->text + n->at, names[k], n->length) == 0)
                found = n;
        }
        snprintf(text, sizeof text, "the grammar has no rule '%s'; add one", names[k]);
        if (!found) return fail_at(r, 0, MNEM_BAD_FILE, text);
        rules[k] = found->rule;
    }
    return true;
}

/* A name without a rule of its own stands for one that is given. */
static bool use_given(reader *r, const name *n) {
    for (const mnem__gbnf_given *g = r->given; g && g->name; g++) {
        if (n->length != strlen(g->name) || memcmp(r->text + n->at, g->name, n->length) != 0)
            continue;
        mnem__draft_begin(r->d, n->rule);
        mnem__draft_call(r->d, g->rule);
        mnem__draft_end(r->d);
        return is_fine(r);
    }
    return bad_name(r, n, "the rule '%.*s' is used, but not defined");
}

static bool read_rules(reader *r) {
    for (skip_space(r, true); r->at < r->length; skip_space(r, true))
        if (!read_rule(r)) return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->names[i].defined && !use_given(r, &r->names[i])) return false;
    return true;
}

mnem_status mnem__gbnf_write(mnem_text text, mnem__draft *d, const mnem__gbnf_given *given,
                             const char *const *names, uint32_t count, uint32_t *rules) {
    if (!mnem__draft_fits(d, 16 * (uint64_t)text.length))
        return mnem__fail(MNEM_OVER_BUDGET,
                          "grammar: reading a grammar of %zu bytes needs more memory than the "
                          "limit of %llu bytes (mnem_grammar_options.bytes)",
                          text.length, (unsigned long long)d->bytes_max);
    reader *r = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *r);
    if (!r) return mnem__heap_status();
    r->text = text.bytes;
    r->length = text.length;
    r->d = d;
    r->given = given;
    mnem_status status = mnem__id_table_init(&r->table, text.length / 2 + 1);
    if (status == MNEM_OK) {
        if (read_rules(r)) find_rules(r, names, count, rules);
        status = r->status;
    }
    mnem__free(r->table.slots);
    mnem__free(r->names);
    mnem__free(r);
    return status;
}
