/* schema.c: a JSON schema to a draft: one rule for each conjunction of schemas in it.
 *
 * The idea: schemas within schemas are rules that are written later, from a list, so that nothing
 * recurses, whatever the depth. What a schema says together with its $ref and allOf is one
 * conjunction (schema_merge.c); a word that leaves a choice is chosen first (schema_cases.c), so
 * that what remains are the plain words of each type.
 * What constrains and isn't known is refused by its name: a schema that is read half would promise
 * what isn't kept.
 * Cost: linear in the schema, but for finding the targets of $refs and for the products of
 * choices, both of which are bounded. */
#include <stdarg.h>
#include <stdio.h>

#include "base/heap.h"
#include "sampling/grammar/schema/schema_private.h"

enum { PATH_BYTES = MNEM__WAY_PLACE, STEPS_MAX = 40000000 };

/* ---- what is wrong ---- */

/* Appends the way from node to wanted; false: it isn't there. As deep as a JSON file may be. */
static bool find_path(const mnem__node *node, const mnem__node *wanted, char *path, size_t at) {
    uint32_t i = 0;
    if (node == wanted) return true;
    for (const mnem__node *n = node->first; n; n = n->next, i++) {
        size_t more = at;
        if (n->key)
            more += (size_t)snprintf(path + at, PATH_BYTES - at, "/%s", n->key);
        else
            more += (size_t)snprintf(path + at, PATH_BYTES - at, "/%u", i);
        if (find_path(n, wanted, path, more < PATH_BYTES ? more : PATH_BYTES - 1)) return true;
    }
    path[at] = 0;
    return false;
}

bool mnem__schema_fail(mnem__schema *s, mnem_status status, const char *format, ...) {
    char path[PATH_BYTES] = "#", text[256];
    va_list args;
    if (s->status != MNEM_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->node) find_path(s->top, s->node, path, 1);
    s->status = mnem__fail(status, "schema: %s: %s", path, text);
    return false;
}

/* Notes where the schema of a rule stands that a message asks for; the last of the way counts. Of
 * what stands nowhere in the text, cases and opposites, the schema before is named. */
static void note_place(mnem__schema *s, const mnem__schema_all *all) {
    mnem__draft_way *way = s->d->way;
    uint32_t at = way->found;
    char path[PATH_BYTES] = "#";
    while (at < way->count && way->rule[at] != all->rule) at++;
    if (at == way->count) return;
    for (uint32_t i = 0; i < all->count; i++) {
        if (!find_path(s->top, all->part[i].node, path, 1)) continue;
        memcpy(way->place, path, sizeof path);
        way->found = at + 1;
        return;
    }
}

bool mnem__schema_spend(mnem__schema *s, uint64_t steps) {
    s->steps += steps;
    if (s->steps <= STEPS_MAX) return true;
    return mnem__schema_fail(s, MNEM_OVER_BUDGET,
                             "compiling the whole schema takes more than %d steps, the limit, "
                             "which is reached here: use "
                             "fewer \"$ref\", definitions, enum values, or allOf and anyOf",
                             STEPS_MAX);
}

bool mnem__schema_no_memory(mnem__schema *s) {
    if (s->status == MNEM_OK) s->status = mnem__heap_status();
    if (s->status == MNEM_OK) s->status = MNEM_NO_MEMORY;
    return false;
}

bool mnem__schema_is_fine(mnem__schema *s) {
    if (s->status == MNEM_OK && s->d->status == MNEM_OVER_BUDGET)
        return mnem__schema_fail(
            s, MNEM_OVER_BUDGET,
            "compiling the schema up to here exceeds the memory limit; simplify it");
    if (s->status == MNEM_OK) s->status = s->d->status;
    return s->status == MNEM_OK;
}

bool mnem__schema_count(mnem__schema *s, mnem__schema_word word, uint32_t otherwise,
                        uint32_t *count) {
    static const double most = 1e9;
    const mnem__node *node = s->word[word];
    *count = otherwise;
    if (!node) return true;
    const bool number = node->kind == MNEM__JSON_NUMBER && node->number >= 0;
    const double value = !number ? 0 : node->number < most ? node->number : most;
    if (!number || value != (double)(uint32_t)value)
        return mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" must be an integer of at least 0",
                                 mnem__schema_words[word]);
    *count = (uint32_t)value;
    return true;
}

/* ---- types ---- */

bool mnem__schema_types(mnem__schema *s, const mnem__node *type, uint32_t *bits) {
    static const char *const types[] = {"object",  "array",   "string", "number",
                                        "integer", "boolean", "null"};
    *bits = type ? 0 : MNEM__TYPE_ALL;
    const bool list = type && type->kind == MNEM__JSON_LIST;
    for (const mnem__node *n = list ? type->first : type; n; n = list ? n->next : NULL) {
        int i = 0;
        while (i < MNEM__TYPE_COUNT && !mnem__node_is(n, types[i])) i++;
        if (i == MNEM__TYPE_COUNT && n->kind != MNEM__JSON_TEXT)
            return mnem__schema_fail(
                s, MNEM_BAD_FILE,
                "\"type\" has a value that isn't a text; expected \"object\", \"array\", "
                "\"string\", \"number\", \"integer\", \"boolean\" or \"null\" (in quotes), or a "
                "list of these");
        if (i == MNEM__TYPE_COUNT)
            return mnem__schema_fail(s, MNEM_BAD_FILE,
                                     "\"type\" is \"%.40s\", expected object, array, string, "
                                     "number, integer, boolean or null",
                                     mnem__node_text(n, ""));
        *bits |= UINT32_C(1) << i;
    }
    if (*bits >> MNEM__TYPE_NUMBER & 1) *bits &= ~(UINT32_C(1) << MNEM__TYPE_INTEGER);
    return *bits || mnem__schema_bad(s, "\"type\" is an empty list; name a type in it");
}

/* The types where none is named: all, as every word constrains values of its own type only. The
 * whole of a schema that stands for a name in a grammar (arguments, say) is what its words mean. */
static uint32_t meant_types(const mnem__schema *s) {
    bool object = false;
    for (int i = MNEM__WORD_PROPERTIES; i <= MNEM__WORD_MAX_PROPERTIES; i++)
        object |= s->word[i] != NULL;
    const bool whole = s->within && s->all->part[0].node == s->top;
    return object && whole ? UINT32_C(1) << MNEM__TYPE_OBJECT : MNEM__TYPE_ALL;
}

/* The types that all parts allow. */
static bool read_types(mnem__schema *s, uint32_t *bits) {
    const uint32_t number = UINT32_C(1) << MNEM__TYPE_NUMBER;
    const uint32_t integer = UINT32_C(1) << MNEM__TYPE_INTEGER;
    *bits = s->word[MNEM__WORD_TYPE] ? MNEM__TYPE_ALL : meant_types(s);
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *type = mnem__schema_says(s, s->all->part[i].node, MNEM__WORD_TYPE);
        uint32_t own;
        if (!type) continue;
        if (!mnem__schema_types(s, type, &own)) return false;
        const bool whole = (own | *bits) & integer;
        const bool both = (own & (number | integer)) && (*bits & (number | integer));
        *bits &= own;
        if (both) *bits = (*bits & ~(number | integer)) | (whole ? integer : number);
    }
    return true;
}

static bool write_type(mnem__schema *s, int type) {
    switch (type) {
    case MNEM__TYPE_OBJECT: return mnem__schema_write_object(s);
    case MNEM__TYPE_ARRAY: return mnem__schema_write_array(s);
    case MNEM__TYPE_STRING: return mnem__schema_write_string(s);
    case MNEM__TYPE_NUMBER: return mnem__schema_write_number(s, false);
    case MNEM__TYPE_INTEGER: return mnem__schema_write_number(s, true);
    case MNEM__TYPE_NULL: mnem__schema_put(s, "null"); return true;
    default: break;
    }
    mnem__choice choice = mnem__draft_choose(s->d);
    mnem__schema_put(s, "true");
    mnem__draft_other(s->d, &choice);
    mnem__schema_put(s, "false");
    mnem__draft_chosen(s->d, &choice);
    return true;
}

static bool write_types(mnem__schema *s) {
    uint32_t bits;
    bool any = false;
    if (!read_types(s, &bits)) return false;
    if (!bits) mnem__schema_put_never(s);
    mnem__choice choice = mnem__draft_choose(s->d);
    for (int type = 0; type < MNEM__TYPE_COUNT; type++) {
        if (!(bits >> type & 1)) continue;
        if (any) mnem__draft_other(s->d, &choice);
        any = true;
        if (!write_type(s, type)) return false;
    }
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* ---- values word for word, and one of several cases ---- */

static bool all_admit(mnem__schema *s, const mnem__node *value) {
    for (uint32_t i = 0; i < s->all->count; i++)
        if (!mnem__schema_admits(s, s->all->part[i].node, value)) return false;
    return true;
}

/* Orders of a value's members; one in longer lists, whose texts would be too many. */
static uint32_t orders_of(const mnem__node *value, const mnem__node *list) {
    enum { ORDERED_VALUES = 32 };
    return list && list->count > ORDERED_VALUES ? 1 : mnem__schema_orders(value);
}

/* The values of an enum that all parts admit; const is an enum of one. */
static bool write_values(mnem__schema *s) {
    const mnem__node *one = s->word[MNEM__WORD_CONST];
    const mnem__node *node = one ? one : s->word[MNEM__WORD_ENUM];
    uint32_t n = 0, types;
    if (!one && node->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"enum\" must be a list");
    size_t room = 1;
    for (const mnem__node *v = one ? one : node->first; v; v = one ? NULL : v->next)
        room +=
            v->kind == MNEM__JSON_TEXT ? 2 : MNEM__FORMS * (size_t)orders_of(v, one ? NULL : node);
    mnem_text *text = mnem__arena_alloc(&s->arena, room * sizeof *text);
    if (!text) return mnem__schema_no_memory(s);
    if (!read_types(s, &types)) return false;
    for (const mnem__node *v = one ? one : node->first; v; v = one ? NULL : v->next) {
        const bool fits = all_admit(s, v);
        if (s->status != MNEM_OK) return false;
        if (fits && !mnem__schema_add_forms(s, v, types, orders_of(v, one ? NULL : node), text, &n))
            return false;
    }
    if (n) return mnem__schema_put_one_of(s, text, n);
    mnem__schema_put_never(s);
    return mnem__schema_is_fine(s);
}

/* The conjunction with each of the cases of a word of a part. */
static bool write_cases(mnem__schema *s, uint32_t part, mnem__schema_word word) {
    const mnem__node *list = mnem__schema_cases_of(s, s->all->part[part].node, word);
    bool any = false;
    if (!list) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    for (const mnem__node *n = list->first; n; n = n->next) {
        mnem__schema_parts parts = {.count = s->all->count};
        memcpy(parts.part, s->all->part, s->all->count * sizeof *parts.part);
        parts.part[part].done |= UINT32_C(1) << (word - MNEM__WORD_ANY_OF);
        if (!mnem__schema_gather(s, &parts, n, part)) return false;
        if (parts.count > s->all->count) parts.part[s->all->count].negated = word == MNEM__WORD_NOT;
        if (parts.never) continue;
        if (any) mnem__draft_other(s->d, &choice);
        any = true;
        mnem__draft_call(s->d, mnem__schema_rule_of(s, &parts));
    }
    if (!any) mnem__schema_put_never(s);
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

static bool write_all(mnem__schema *s, const mnem__schema_all *all) {
    uint32_t part = 0;
    s->all = all;
    if (!mnem__schema_read_words(s)) return false;
    if (s->word[MNEM__WORD_CONST] || s->word[MNEM__WORD_ENUM]) return write_values(s);
    const mnem__schema_word word = mnem__schema_open_word(s, &part);
    return word < MNEM__WORD_COUNT ? write_cases(s, part, word) : write_types(s);
}

static uint32_t write_never(mnem__schema *s) {
    const uint32_t rule = mnem__draft_rule(s->d);
    mnem__draft_begin(s->d, rule);
    mnem__schema_put_never(s);
    mnem__draft_end(s->d);
    return rule;
}

static bool write_root(mnem__schema *s, uint32_t *root) {
    mnem__schema_parts parts = {.count = 0};
    if (!mnem__schema_write_common(s)) return false;
    s->never = write_never(s);
    if (!mnem__schema_gather(s, &parts, s->top, MNEM__SCHEMA_NO_PARENT)) return false;
    if (parts.never)
        return mnem__schema_bad(
            s, "no value fits these rules, so no document fits the schema; relax them");
    *root = mnem__schema_rule_of(s, &parts);
    while (s->todo && mnem__schema_is_fine(s)) {
        const mnem__schema_all *all = s->todo;
        s->todo = all->todo;
        if (s->d->way) note_place(s, all);
        mnem__draft_begin(s->d, all->rule);
        if (!write_all(s, all)) return false;
        mnem__draft_end(s->d);
    }
    mnem__schema_write_powers(s);
    return mnem__schema_is_fine(s);
}

/* ---- the way in ---- */

/* At least the bytes that a text's tree takes: a node for each value, keys and texts with a zero
 * behind them, in steps of 8 bytes. */
static uint64_t tree_bytes(mnem_text text) {
    uint64_t values = 1, texts = 0;
    bool within = false;
    for (size_t i = 0; i < text.length; i++) {
        const char c = text.bytes[i];
        if (within && c == '\\')
            i++;
        else if (c == '"')
            texts += within = !within;
        else if (!within && (c == ',' || c == '[' || c == '{'))
            values++;
    }
    return values * sizeof(mnem__node) + texts * 8 + text.length;
}

static mnem_status read_tree(mnem__schema *s, mnem_text text) {
    mnem__json *json = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *json);
    mnem__json_event event;
    mnem__node *top = NULL;
    if (!json) return mnem__heap_status();
    mnem__json_open_text(json, "schema", text.bytes, text.length);
    mnem_status status = mnem__tree_read(&s->arena, json, &top);
    if (status == MNEM_OK) status = mnem__json_next(json, &event);
    if (status == MNEM_BAD_FILE) {
        const uint64_t at = mnem__cursor_position(&json->file);
        uint64_t line = 1, begin = 0;
        for (uint64_t i = 0; i + 1 < at; i++)
            if (text.bytes[i] == '\n') {
                line++;
                begin = i + 1;
            }
        mnem__fail_in(status, "line %llu, column %llu", (unsigned long long)line,
                      (unsigned long long)(at > begin ? at - begin : 1));
    }
    mnem__json_close(json);
    mnem__free(json);
    s->top = top;
    return status;
}

/* ---- U+0000 ---- */

static uint32_t count_zeros(const char *bytes, size_t n, const char *zero, size_t length) {
    uint32_t count = 0;
    for (const char *at; (at = memmem(bytes, n, zero, length)); count++) {
        n -= (size_t)(at + length - bytes);
        bytes = at + length;
    }
    return count;
}

/* A pattern as it would be with \\x00 for U+0000; false: it can't be said so. */
static bool escape_zeros(mnem__schema *s, mnem__node *pattern, uint32_t zeros) {
    char *text = mnem__arena_alloc(&s->arena, pattern->text_bytes + 3 * (size_t)zeros + 1);
    size_t used = 0;
    if (!text) return mnem__schema_no_memory(s);
    for (size_t i = 0; i < pattern->text_bytes; i++) {
        const char c = pattern->text[i];
        if (c == 0 && i && pattern->text[i - 1] == '\\') return false;
        memcpy(text + used, c ? pattern->text + i : "\\x00", c ? 1 : 4);
        used += c ? 1 : 4;
    }
    pattern->text = text;
    pattern->text_bytes = used;
    return true;
}

/* How many stand in texts that may have them: patterns, values, annotations. What else a schema
 * says, keys above all, is read up to a zero. value: of an enum, say. */
static uint32_t settle_zeros(mnem__schema *s, mnem__node *node, bool value) {
    static const char *const values[] = {"enum", "const", "default", "examples"};
    static const char *const notes[] = {"title", "description", "$comment", "pattern"};
    uint32_t count = 0;
    for (int i = 0; i < 4 && node->key; i++) value |= strcmp(node->key, values[i]) == 0;
    bool may = value;
    for (int i = 0; i < 4 && node->key; i++) may |= strcmp(node->key, notes[i]) == 0;
    if (node->kind == MNEM__JSON_TEXT && may)
        count = count_zeros(node->text, node->text_bytes, "", 1);
    const bool pattern = count && node->key && strcmp(node->key, "pattern") == 0;
    if (pattern && (value || !escape_zeros(s, node, count))) return 0; /* of a value, maybe */
    for (mnem__node *n = node->first; n; n = n->next) count += settle_zeros(s, n, value);
    return count;
}

/* Another meta-schema may leave out or add vocabularies, and one that is not known must not be read
 * as if it did not (2020-12, core, 8.1.2.1). */
static void check_dialect(mnem__schema *s) {
    static const char *const known[] = {"json-schema.org/", "spec.openapis.org/"};
    const char *name = mnem__node_text(mnem__node_get(s->top, "$schema"), "");
    bool fine = strncmp(name, "http", 4) != 0 || !strstr(name, "://");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        fine |= strstr(name, known[i]) != NULL;
    if (!fine)
        mnem__schema_fail(s, MNEM_UNSUPPORTED,
                          "\"$schema\" is \"%.80s\", which is not a known dialect; name a draft of "
                          "json-schema.org, or leave it out",
                          name);
}

/* Drafts 3 to 7 by their name. */
static bool is_ref_alone(const mnem__node *top) {
    const char *name = mnem__node_text(mnem__node_get(top, "$schema"), "");
    const char *draft = strstr(name, "draft-0");
    return draft && draft[7] >= '3' && draft[7] <= '7';
}

mnem_status mnem__schema_write(mnem_text text, bool within, mnem__draft *d, uint32_t *root) {
    static const char zero[] = "\\u0000";
    const uint64_t bytes = tree_bytes(text);
    if (!mnem__draft_fits(d, bytes))
        return mnem__fail(MNEM_OVER_BUDGET,
                          "schema: reading the schema needs %llu bytes of memory, but the limit is "
                          "%llu; use a smaller schema",
                          (unsigned long long)bytes, (unsigned long long)d->bytes_max);
    const uint32_t zeros = count_zeros(text.bytes, text.length, zero, sizeof zero - 1);
    mnem__schema *s = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->d = d;
    s->within = within;
    mnem_status status = read_tree(s, text);
    uint32_t settled = 0;
    for (mnem__node *n = status == MNEM_OK && zeros ? s->top->first : NULL; n; n = n->next)
        settled += settle_zeros(s, n, false);
    if (status == MNEM_OK && settled != zeros)
        status = mnem__fail(MNEM_UNSUPPORTED, "schema: the character U+0000 is supported only in "
                                              "patterns and in values of enum and const");
    if (status == MNEM_OK) {
        s->ref_alone = is_ref_alone(s->top);
        s->draft_2019 =
            strstr(mnem__node_text(mnem__node_get(s->top, "$schema"), ""), "2019-09") != NULL;
        mnem__schema_settle_refs(s);
        mnem__schema_mark(s->top);
        s->unevaluated = mnem__schema_has_unevaluated(s->top);
        check_dialect(s);
        if (s->status == MNEM_OK) write_root(s, root);
        status = s->status;
    }
    mnem__schema_drop_matchers(s);
    mnem__arena_free(&s->arena);
    mnem__free(s);
    return status;
}
