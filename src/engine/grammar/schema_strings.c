/* schema_strings.c: what of JSON needs no schema, strings, and values word for word.
 *
 * The rules that every schema shares are GBNF. Dates are only ones that calendars have, but for the
 * 29th of February. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "engine/grammar/schema_private.h"
#include "model/text/utf8.h"

enum { KEY_BYTES_MAX = 512, KEYS_MAX = 512 };

static const char common_rules[] =
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (member (\",\" ws member)* ws)? \"}\"\n"
    "member ::= string \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)* ws)? \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" escaped)* \"\\\"\"\n"
    "escaped ::= [\"\\\\/bfnrt] | \"u\" ([0-9a-cA-CeEfF] hex{3} | [dD] [0-7] hex{2})\n"
    "hex ::= [0-9a-fA-F]\n"
    "number ::= integral (\".\" [0-9]{1,27})? ([eE] [-+]? [0-9]{1,2})?\n"
    "integral ::= \"-\"? (\"0\" | [1-9] [0-9]{0,18})\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17} | \"1\" \"0\"{18})\n"
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
    "date ::= [1-9] [0-9]{3} \"-\" (\"02-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8])\n"
    "  | (\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\")\n"
    "  | (\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]))\n"
    "clock ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]\n"
    "time ::= clock \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | [-+] clock)\n"
    "date-time ::= date \"T\" time\n"
    "uuid ::= hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}\n";

bool mnem__schema_write_common(mnem__schema *s) {
    static const char *const names[] = {
#define NAME(name, text) text,
        MNEM__SCHEMA_RULES(NAME)
#undef NAME
    };
    const mnem_text text = {common_rules, sizeof common_rules - 1};
    s->status = mnem__gbnf_write(text, s->d, NULL, names, MNEM__RULE_COUNT, s->common);
    return s->status == MNEM_OK;
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
    if (!isfinite(value->number)) return mnem__schema_bad(s, "a number that isn't finite");
    if (value->is_integer)
        snprintf(text, sizeof text, "%" PRId64, value->integer);
    else
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value->number);
            if (strtod(text, NULL) == value->number) break;
        }
    mnem__schema_put(s, text);
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

void mnem__schema_put_character(mnem__schema *s) {
    mnem__choice choice = mnem__draft_choose(s->d);
    mnem__draft_class(s->d, plain, 3);
    mnem__draft_other(s->d, &choice);
    mnem__schema_put(s, "\\");
    mnem__schema_call(s, MNEM__RULE_ESCAPED);
    mnem__draft_chosen(s->d, &choice);
}

static bool write_length(mnem__schema *s) {
    uint32_t least, most;
    if (!mnem__schema_count(s, MNEM__WORD_MIN_LENGTH, 0, &least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_LENGTH, MNEM__ENDLESS, &most))
        return false;
    if (least > most) return mnem__schema_bad(s, "minLength is more than maxLength");
    mnem__schema_put(s, "\"");
    const uint32_t item = mnem__draft_item(s->d);
    mnem__schema_put_character(s);
    mnem__draft_repeat(s->d, item, least, most);
    mnem__schema_put(s, "\"");
    return mnem__schema_is_fine(s);
}

static bool write_format(mnem__schema *s) {
    static const struct {
        const char *name;
        mnem__schema_rule rule;
    } formats[] = {{"date", MNEM__RULE_DATE},
                   {"time", MNEM__RULE_TIME},
                   {"date-time", MNEM__RULE_DATE_TIME},
                   {"uuid", MNEM__RULE_UUID}};
    const char *name = mnem__node_text(s->word[MNEM__WORD_FORMAT], "");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) != 0) continue;
        mnem__schema_put(s, "\"");
        mnem__schema_call(s, formats[i].rule);
        mnem__schema_put(s, "\"");
        return mnem__schema_is_fine(s);
    }
    return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"format\": \"%.40s\" is not supported", name);
}

bool mnem__schema_write_string(mnem__schema *s) {
    const mnem__node *pattern = s->word[MNEM__WORD_PATTERN];
    const bool length = s->word[MNEM__WORD_MIN_LENGTH] || s->word[MNEM__WORD_MAX_LENGTH];
    const bool format = s->word[MNEM__WORD_FORMAT];
    if (length + format + (pattern != NULL) > 1)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "of lengths, \"pattern\" and \"format\" one is supported, not "
                                 "several together");
    if (pattern && pattern->kind != MNEM__JSON_TEXT)
        return mnem__schema_bad(s, "\"pattern\" is no string");
    if (pattern) return mnem__schema_write_pattern(s, pattern->text, pattern->text_bytes);
    if (format) return write_format(s);
    if (length) return write_length(s);
    mnem__schema_call(s, MNEM__RULE_STRING);
    return mnem__schema_is_fine(s);
}

bool mnem__schema_matches(mnem__schema *s, const mnem__node *pattern, const char *text) {
    (void)pattern;
    (void)text;
    return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"pattern\" beside \"enum\"");
}
bool mnem__schema_is_format(mnem__schema *s, const mnem__node *pattern, const char *text) {
    (void)pattern;
    (void)text;
    return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"pattern\" beside \"enum\"");
}

/* ---- keys that aren't named ---- */

/* A tree of the names, a character at a time: the text leaves it by a character that no name goes
 * on with, or ends where no name does. Names that need an escape can't be met: keys have none. */
typedef struct key_writer {
    mnem__schema *s;
    const char *name[KEYS_MAX];
    mnem__range range[MNEM__RANGES_MAX], negated[MNEM__RANGES_MAX + 1];
} key_writer;

static uint32_t next_code(const char *name, size_t at, size_t *length) {
    *length = mnem__utf8_length(name + at, strlen(name + at) + 1);
    return mnem__utf8_code(name + at, *length);
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
    mnem__draft_class(w->s->d, w->negated, count);
    const uint32_t item = mnem__draft_item(w->s->d);
    mnem__draft_class(w->s->d, plain, 3);
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
        if (*n == KEYS_MAX || strlen(name[i]) > KEY_BYTES_MAX)
            return mnem__schema_fail(w->s, MNEM_UNSUPPORTED,
                                     "\"additionalProperties\" beside more than %d properties, or "
                                     "beside a name of more than %d bytes",
                                     KEYS_MAX, KEY_BYTES_MAX);
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
