/* schema_strings.c: what of JSON needs no schema, strings, and values word for word.
 *
 * The rules that every schema shares are GBNF. A string with one pattern, one format or lengths
 * only is written as it is; several of them at once are a language (schema_language.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "sampling/grammar/schema/schema_language.h"

static const char common_rules[] =
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (member (\",\" ws member)* ws)? \"}\"\n"
    "member ::= string \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)* ws)? \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" escaped)* \"\\\"\"\n"
    "escaped ::= [\"\\\\/bfnrt] | \"u\" ([0-9a-cA-CeEfF] hex{3} | [dD] [0-7] hex{2})\n"
    "distant ::= \"u\" (\"00\" [0189a-fA-F] hex | \"0\" [1-9a-fA-F] hex{2}"
    " | [1-9a-cA-CeEfF] hex{3} | [dD] [0-7] hex{2})\n"
    "hex ::= [0-9a-fA-F]\n"
    "number ::= integral (\".\" [0-9]{1,27})? ([eE] [-+]? [0-9]{1,2})?\n"
    "integral ::= \"-\"? (\"0\" | [1-9] [0-9]{0,18})\n"
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n";

bool mnem__schema_write_common(mnem__schema *s) {
    static const char *const names[] = {
#define NAME(name, text) text,
        MNEM__SCHEMA_RULES(NAME)
#undef NAME
    };
    const mnem_text text = {common_rules, sizeof common_rules - 1};
    _Static_assert((int)MNEM__RULE_COUNT <= (int)MNEM__SHARED_RULES, "room in the draft");
    if (!s->d->has_shared)
        s->status = mnem__gbnf_write(text, s->d, NULL, names, MNEM__RULE_COUNT, s->d->shared);
    if (s->status != MNEM_OK) return false;
    s->d->has_shared = true;
    memcpy(s->common, s->d->shared, sizeof s->common);
    return true;
}

/* ---- values word for word ---- */

static void put_escaped(mnem__schema *s, const char *text, size_t n) {
    static const char letters[] = "\"\\bfnrt", chars[] = "\"\\\b\f\n\r\t";
    for (size_t i = 0; i < n; i++) {
        char escape[8];
        const char c = text[i], *found = c ? strchr(chars, c) : NULL;
        if (found)
            snprintf(escape, sizeof escape, "\\%c", letters[found - chars]);
        else if ((uint8_t)c < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            snprintf(escape, sizeof escape, "%c", c);
        mnem__schema_put(s, escape);
    }
}

void mnem__schema_put_quoted(mnem__schema *s, const char *text, size_t n) {
    mnem__schema_put(s, "\"");
    put_escaped(s, text, n);
    mnem__schema_put(s, "\"");
}

static bool put_number(mnem__schema *s, const mnem__node *value) {
    char text[40];
    if (value->digits) {
        mnem__schema_put(s, value->digits);
        return true;
    }
    if (!isfinite(value->number))
        return mnem__schema_bad(s, "a number of the schema is too large for a 64-bit float");
    if (value->is_integer)
        snprintf(text, sizeof text, "%" PRId64, value->integer);
    else
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value->number);
            if (strtod(text, NULL) == value->number) break;
        }
    mnem__schema_put(s, text);
    const bool point = value->is_integer ? s->points == MNEM__POINTS_ALL : s->points;
    if (point && !strpbrk(text, ".e")) mnem__schema_put(s, ".0");
    return true;
}

/* As deep as a JSON file may be. */
bool mnem__schema_put_value(mnem__schema *s, const mnem__node *value) {
    const bool object = value->kind == MNEM__JSON_OBJECT;
    switch (value->kind) {
    case MNEM__JSON_TRUE: mnem__schema_put(s, "true"); return true;
    case MNEM__JSON_FALSE: mnem__schema_put(s, "false"); return true;
    case MNEM__JSON_NULL: mnem__schema_put(s, "null"); return true;
    case MNEM__JSON_NUMBER: return put_number(s, value);
    case MNEM__JSON_TEXT: mnem__schema_put_quoted(s, value->text, value->text_bytes); return true;
    default: break;
    }
    mnem__schema_put(s, object ? "{" : "[");
    for (const mnem__node *n = value->first; n; n = n->next) {
        if (n != value->first) mnem__schema_put(s, ",");
        if (object) mnem__schema_put_quoted(s, n->key, strlen(n->key));
        if (object) mnem__schema_put(s, ":");
        if (!mnem__schema_put_value(s, n)) return false;
    }
    mnem__schema_put(s, object ? "}" : "]");
    return true;
}

/* ---- strings ---- */

static const mnem__range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, MNEM__CHARACTER_MAX}};

/* Each character as JSON writes it, in one way; p->canonical: of a language. */
static void put_written(mnem__schema *s, mnem__choice *choice) {
    static const char letters[] = "\"\\bfnrt";
    char pairs[2 * sizeof letters] = "";
    for (size_t i = 0; letters[i]; i++) pairs[2 * i] = pairs[2 * i + 1] = letters[i];
    mnem__schema_put(s, "\\");
    mnem__draft_letters(s->d, pairs);
    mnem__draft_other(s->d, choice);
    mnem__schema_put(s, "\\u00");
    mnem__choice half = mnem__draft_choose(s->d);
    mnem__schema_put(s, "0");
    mnem__draft_letters(s->d, "17bbef");
    mnem__draft_other(s->d, &half);
    mnem__schema_put(s, "1");
    mnem__draft_letters(s->d, "09af");
    mnem__draft_chosen(s->d, &half);
}

void mnem__schema_put_character(mnem__schema *s) {
    mnem__choice choice = mnem__draft_choose(s->d);
    mnem__draft_class(s->d, plain, 3);
    mnem__draft_other(s->d, &choice);
    if (s->d->flat)
        put_written(s, &choice);
    else {
        mnem__schema_put(s, "\\");
        mnem__schema_call(s, MNEM__RULE_ESCAPED);
    }
    mnem__draft_chosen(s->d, &choice);
}

void mnem__schema_put_text(mnem__schema *s, uint32_t least, uint32_t most) {
    mnem__schema_put(s, "\"");
    const uint32_t item = mnem__draft_item(s->d);
    mnem__schema_put_character(s);
    mnem__draft_repeat(s->d, item, least, most);
    mnem__schema_put(s, "\"");
}

/* ---- what strings must fit ---- */

/* A length beyond that is none: no answer is as long. */
enum {
    LENGTH_MAX = 1000000,
    SHORTER_MAX = 1000 /* most characters of a string with a pattern or a format and a maxLength */
};

/* Words about the text of a string. */
enum { WORDS = 5 };
static const mnem__schema_word words[WORDS] = {MNEM__WORD_PATTERN, MNEM__WORD_FORMAT,
                                               MNEM__WORD_NOT_PATTERN, MNEM__WORD_NOT_ENUM,
                                               MNEM__WORD_NOT_FORMAT};

/* What the parts say of strings. */
typedef struct rules {
    uint32_t least, most, words; /* words: patterns, formats and their opposites */
    bool length, language;       /* language: an automaton has to be made */
    const mnem__node *format, *pattern;
} rules;

static bool count_word(mnem__schema *s, rules *r, mnem__schema_word word, const mnem__node *n) {
    const bool opposite = word >= MNEM__WORD_NOT_ENUM;
    if (word == MNEM__WORD_NOT_FORMAT && !mnem__schema_has_format(mnem__node_text(n, "")))
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"not\" of the \"format\" \"%.40s\" is not supported",
                                 mnem__node_text(n, ""));
    if (word == MNEM__WORD_FORMAT) {
        if (!mnem__schema_has_format(mnem__node_text(n, ""))) return true;
        if (r->format && strcmp(r->format->text, n->text) == 0) return true;
        r->format = n;
    }
    if (word == MNEM__WORD_PATTERN || word == MNEM__WORD_NOT_PATTERN) {
        if (n->kind != MNEM__JSON_TEXT) return mnem__schema_bad(s, "\"pattern\" must be a string");
        r->pattern = n;
        r->language |= mnem__schema_looks_ahead(n->text);
    }
    r->words++;
    r->language |= opposite || r->words > 1;
    return true;
}

static bool read_rules(mnem__schema *s, rules *r) {
    *r = (rules){.least = 0};
    if (!mnem__schema_count(s, MNEM__WORD_MIN_LENGTH, 0, &r->least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_LENGTH, MNEM__ENDLESS, &r->most))
        return false;
    if (r->most > LENGTH_MAX) r->most = MNEM__ENDLESS;
    for (uint32_t i = 0; i < s->all->count; i++)
        for (int w = 0; w < WORDS; w++) {
            const mnem__node *n = mnem__schema_says(s, s->all->part[i].node, words[w]);
            if (n && !count_word(s, r, words[w], n)) return false;
        }
    const uint32_t longest = r->format ? mnem__schema_format_length(r->format->text) : 0;
    if (longest && r->most >= longest) r->most = MNEM__ENDLESS;
    r->length = r->least > 0 || r->most != MNEM__ENDLESS;
    r->language |= r->words && r->length;
    return true;
}

static bool add_opposite(mnem__schema *s, mnem__language *l, const mnem__node *list) {
    if (!mnem__language_next(l, false)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    bool any = false;
    for (const mnem__node *n = list->first; n; n = n->next) {
        if (n->kind != MNEM__JSON_TEXT) continue;
        if (any) mnem__draft_other(s->d, &choice);
        any = true;
        mnem__schema_put_quoted(s, n->text, n->text_bytes);
    }
    if (!any) mnem__schema_put_never(s);
    mnem__draft_chosen(s->d, &choice);
    return true;
}

static bool add_word(mnem__schema *s, mnem__language *l, mnem__schema_word word,
                     const mnem__node *n) {
    switch (word) {
    case MNEM__WORD_PATTERN: return mnem__schema_add_pattern(s, l, n->text, n->text_bytes, true);
    case MNEM__WORD_NOT_PATTERN:
        return mnem__schema_add_pattern(s, l, n->text, n->text_bytes, false);
    case MNEM__WORD_NOT_ENUM: return add_opposite(s, l, n);
    case MNEM__WORD_NOT_FORMAT:
        return mnem__language_next(l, false) && mnem__schema_put_format(s, n->text);
    default:
        if (!mnem__schema_has_format(n->text)) return true;
        return mnem__language_next(l, true) && mnem__schema_put_format(s, n->text);
    }
}

/* All that the parts at hand say of a string, as grammars of a language; shorter than `below`. */
static bool add_string(mnem__schema *s, mnem__language *l, uint32_t below) {
    rules r;
    if (!read_rules(s, &r) || !mnem__language_next(l, true)) return false;
    if (r.least > r.most) mnem__schema_put_never(s);
    if (r.most != MNEM__ENDLESS && r.most > below) r.most = r.least > below ? r.least : below;
    mnem__schema_put_text(s, r.least, r.most);
    for (uint32_t i = 0; i < s->all->count; i++)
        for (int w = 0; w < WORDS; w++) {
            const mnem__node *n = mnem__schema_says(s, s->all->part[i].node, words[w]);
            if (n && !add_word(s, l, words[w], n)) return false;
        }
    return mnem__schema_is_fine(s);
}

bool mnem__schema_add_string(mnem__schema *s, mnem__language *l) {
    return add_string(s, l, SHORTER_MAX);
}

static const char too_large[] = "the patterns and lengths of one string are too large together; "
                                "simplify them, or leave one out";

/* *depth: the bytes up to which all of the automaton was written; UINT32_MAX: it was not begun. */
static bool try_language(mnem__schema *s, uint32_t below, uint32_t *depth) {
    bool any;
    mnem__language *l = mnem__language_open(s);
    *depth = UINT32_MAX;
    if (!l) return false;
    const bool begun = add_string(s, l, below),
               fine = begun && mnem__language_write(l, too_large, &any);
    if (begun) *depth = mnem__language_depth(l);
    mnem__language_close(l);
    return fine && mnem__schema_is_fine(s);
}

/* Where a maxLength makes the automaton too large, a smaller one holds, too: one that shortens
 * texts, and to less than the bytes for which the automaton was too large already. */
static bool write_language(mnem__schema *s, uint32_t most) {
    enum { TRIES = 3 };
    static const uint32_t shorter[TRIES] = {SHORTER_MAX, 254, 100};
    uint32_t depth;
    for (int i = 0;; s->status = MNEM_OK) {
        if (try_language(s, shorter[i], &depth)) return true;
        do i++;
        while (i < TRIES && (depth < shorter[i] || most <= shorter[i]));
        if (s->status != MNEM_OVER_BUDGET || i == TRIES || !mnem__schema_spend(s, 0)) return false;
    }
}

/* Strings of the same lengths are one rule, as far as there is room for such. */
static void call_text(mnem__schema *s, uint32_t least, uint32_t most) {
    uint32_t i = 0;
    while (i < s->lengths && (s->length[i].least != least || s->length[i].most != most)) i++;
    if (i == MNEM__LENGTHS) {
        mnem__schema_put_text(s, least, most);
        return;
    }
    if (i == s->lengths) {
        const uint32_t over = mnem__draft_jump(s->d), rule = mnem__draft_rule(s->d);
        s->length[s->lengths++] = (mnem__schema_length){least, most, rule};
        mnem__draft_begin(s->d, rule);
        mnem__schema_put_text(s, least, most);
        mnem__draft_end(s->d);
        mnem__draft_land(s->d, over);
    }
    mnem__draft_call(s->d, s->length[i].rule);
}

bool mnem__schema_write_string(mnem__schema *s) {
    rules r;
    if (!read_rules(s, &r)) return false;
    if (r.least > r.most) mnem__schema_put_never(s);
    if (r.language) return write_language(s, r.most);
    if (r.pattern) return mnem__schema_write_pattern(s, r.pattern->text, r.pattern->text_bytes);
    if (r.format) return mnem__schema_call_format(s, r.format->text);
    if (r.length)
        call_text(s, r.least, r.most);
    else
        mnem__schema_call(s, MNEM__RULE_STRING);
    return mnem__schema_is_fine(s);
}

/* ---- a text at hand ---- */

bool mnem__schema_written(mnem__schema *s, const mnem__node *value, mnem_text *text) {
    mnem__draft written = {.bytes_max = s->d->bytes_max}, *before = s->d;
    s->d = &written;
    mnem__schema_put_value(s, value);
    mnem__schema_is_fine(s);
    s->d = before;
    mnem__draft_fits(before, written.bytes_needed);
    char *bytes = mnem__arena_alloc(&s->arena, (size_t)written.edges + 1);
    for (uint32_t i = 0; bytes && i < written.edges; i++) bytes[i] = (char)written.edge[i].low;
    *text = (mnem_text){bytes, written.edges};
    mnem__draft_fini(&written);
    return bytes ? s->status == MNEM_OK : mnem__schema_no_memory(s);
}

static bool language_has(mnem__schema *s, mnem__language *l, const char *text) {
    const mnem__node value = {.kind = MNEM__JSON_TEXT, .text = text, .text_bytes = strlen(text)};
    mnem_text written;
    return mnem__schema_written(s, &value, &written) &&
           mnem__language_has(l, written.bytes, written.length);
}

/* A pattern or a format as a language that is set aside; NULL with a failure. */
static mnem__language *make_matcher(mnem__schema *s, const mnem__node *of, bool format) {
    mnem__language *l = mnem__language_open(s);
    if (!l) return NULL;
    bool fine = mnem__language_next(l, true);
    if (fine && format) fine = mnem__schema_put_format(s, of->text);
    if (fine && !format) {
        mnem__schema_put_text(s, 0, MNEM__ENDLESS);
        fine = mnem__schema_add_pattern(s, l, of->text, of->text_bytes, true);
    }
    if (mnem__language_set_aside(l) && fine) return l;
    mnem__language_close(l);
    return NULL;
}

/* Keys and values are matched one by one with the same few patterns: small matchers are kept. */
static bool matches(mnem__schema *s, const mnem__node *of, bool format, const char *text) {
    mnem__schema_matcher *m = s->matcher, *free = &s->matcher[s->matchers_made % MNEM__MATCHERS];
    for (; m < s->matcher + MNEM__MATCHERS; m++)
        if (m->language && m->format == format && m->bytes == of->text_bytes &&
            memcmp(m->text, of->text, m->bytes) == 0)
            return language_has(s, m->language, text);
    mnem__language *l = make_matcher(s, of, format);
    if (!l) return false;
    const bool has = language_has(s, l, text);
    if (mnem__language_bytes(l) > MNEM__MATCHER_BYTES) {
        mnem__language_close(l);
        return has;
    }
    s->matchers_made++;
    mnem__language_close(free->language);
    *free = (mnem__schema_matcher){l, of->text, of->text_bytes, format};
    return has;
}

bool mnem__schema_matches(mnem__schema *s, const mnem__node *pattern, const char *text) {
    return matches(s, pattern, false, text);
}

bool mnem__schema_is_format(mnem__schema *s, const mnem__node *format, const char *text) {
    if (!mnem__schema_has_format(mnem__node_text(format, ""))) return true;
    return matches(s, format, true, text);
}

void mnem__schema_drop_matchers(mnem__schema *s) {
    for (int i = 0; i < MNEM__MATCHERS; i++) mnem__language_close(s->matcher[i].language);
}
