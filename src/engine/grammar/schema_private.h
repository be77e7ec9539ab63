/* schema_private.h: what the writers of a schema's parts know of each other. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_PRIVATE_H
#define MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_PRIVATE_H

#include "engine/grammar/grammar_private.h"
#include "model/json/json_tree.h"

/* X(NAME, word): words that constrain. */
#define MNEM__SCHEMA_WORDS(X)                                                                      \
    X(TYPE, "type")                                                                                \
    X(ENUM, "enum")                                                                                \
    X(CONST, "const")                                                                              \
    X(REF, "$ref")                                                                                 \
    X(ANY_OF, "anyOf")                                                                             \
    X(ONE_OF, "oneOf")                                                                             \
    X(ALL_OF, "allOf")                                                                             \
    X(PROPERTIES, "properties")                                                                    \
    X(REQUIRED, "required")                                                                        \
    X(ADDITIONAL, "additionalProperties")                                                          \
    X(ITEMS, "items")                                                                              \
    X(PREFIX_ITEMS, "prefixItems")                                                                 \
    X(MIN_ITEMS, "minItems")                                                                       \
    X(MAX_ITEMS, "maxItems")                                                                       \
    X(MIN_LENGTH, "minLength")                                                                     \
    X(MAX_LENGTH, "maxLength")                                                                     \
    X(PATTERN, "pattern")                                                                          \
    X(FORMAT, "format")                                                                            \
    X(MINIMUM, "minimum")                                                                          \
    X(MAXIMUM, "maximum")                                                                          \
    X(ABOVE, "exclusiveMinimum")                                                                   \
    X(BELOW, "exclusiveMaximum")

typedef enum mnem__schema_word {
#define MNEM__SCHEMA_ENUM(name, text) MNEM__WORD_##name,
    MNEM__SCHEMA_WORDS(MNEM__SCHEMA_ENUM)
#undef MNEM__SCHEMA_ENUM
        MNEM__WORD_COUNT
} mnem__schema_word;

/* Rules of JSON that need no schema (schema_strings.c). X(NAME, name) */
#define MNEM__SCHEMA_RULES(X)                                                                      \
    X(VALUE, "value")                                                                              \
    X(OBJECT, "object")                                                                            \
    X(ARRAY, "array")                                                                              \
    X(STRING, "string")                                                                            \
    X(NUMBER, "number")                                                                            \
    X(INTEGER, "integer")                                                                          \
    X(ESCAPED, "escaped")                                                                          \
    X(WS, "ws")                                                                                    \
    X(DATE, "date")                                                                                \
    X(TIME, "time")                                                                                \
    X(DATE_TIME, "date-time")                                                                      \
    X(UUID, "uuid")

typedef enum mnem__schema_rule {
#define MNEM__SCHEMA_ENUM(name, text) MNEM__RULE_##name,
    MNEM__SCHEMA_RULES(MNEM__SCHEMA_ENUM)
#undef MNEM__SCHEMA_ENUM
        MNEM__RULE_COUNT
} mnem__schema_rule;

enum { MNEM__POWERS = 28 }; /* powers of ten of bounded numbers: 1e-9 to 1e18 */

/* A schema whose rule is yet to be written, or that a $ref led to. */
typedef struct mnem__schema_todo {
    const mnem__node *node;
    uint32_t rule;
} mnem__schema_todo;

typedef struct mnem__schema {
    mnem__draft *d;
    mnem__arena arena;
    const mnem__node *top;
    uint32_t common[MNEM__RULE_COUNT];
    uint32_t power[MNEM__POWERS];     /* rules of schema_decimals.c; 0: not used */
    mnem__schema_todo *todo, *target; /* target: of $refs */
    uint32_t todos, todos_room, targets, targets_room;
    uint32_t refs;
    /* of the schema at hand */
    const mnem__node *node;
    const mnem__node *word[MNEM__WORD_COUNT]; /* NULL: isn't there */
    mnem_status status;
} mnem__schema;

/* "schema: #/properties/a: text"; false. */
bool mnem__schema_fail(mnem__schema *schema, mnem_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool mnem__schema_bad(mnem__schema *schema, const char *text) {
    return mnem__schema_fail(schema, MNEM_BAD_FILE, "%s", text);
}
/* The heap's reason; false. */
bool mnem__schema_no_memory(mnem__schema *schema);
/* The draft's failure, too. */
bool mnem__schema_is_fine(mnem__schema *schema);

static inline void mnem__schema_call(mnem__schema *schema, mnem__schema_rule rule) {
    mnem__draft_call(schema->d, schema->common[rule]);
}
static inline void mnem__schema_put(mnem__schema *schema, const char *text) {
    mnem__draft_text(schema->d, text, strlen(text));
}

/* A schema's value; NULL: any. Its rule is written later. */
void mnem__schema_call_value(mnem__schema *schema, const mnem__node *node);
/* Whether a schema's "required" names a member. */
bool mnem__schema_requires(const mnem__node *node, const char *key);
/* A whole number of at least 0; otherwise where there is none. */
bool mnem__schema_count(mnem__schema *schema, mnem__schema_word word, uint32_t otherwise,
                        uint32_t *count);

/* ---- schema_strings.c ---- */
bool mnem__schema_write_common(mnem__schema *schema);
/* Any character of a string. */
void mnem__schema_put_character(mnem__schema *schema);
/* A JSON text of these bytes, quotes included. */
void mnem__schema_put_quoted(mnem__schema *schema, const char *text, size_t n);
/* A value exactly. */
bool mnem__schema_put_value(mnem__schema *schema, const mnem__node *value);
/* A string as the words at hand want it. */
bool mnem__schema_write_string(mnem__schema *schema);
/* A quoted key that is none of the properties' names. */
bool mnem__schema_write_other_key(mnem__schema *schema, const mnem__node *properties);
/* ---- schema_objects.c ---- */
bool mnem__schema_write_object(mnem__schema *schema);
bool mnem__schema_write_array(mnem__schema *schema);
/* ---- schema_numbers.c ---- */
bool mnem__schema_write_number(mnem__schema *schema, bool whole);
/* ---- schema_decimals.c ---- */
/* Cases of bounded numbers with a point or an exponent, behind others if there are any; returns
 * whether there are any now. */
bool mnem__schema_put_decimals(mnem__schema *schema, mnem__choice *choice, bool any);
/* The rules that these call; after all schemas. */
void mnem__schema_write_powers(mnem__schema *schema);
/* ---- schema_pattern.c ---- */
bool mnem__schema_write_pattern(mnem__schema *schema, const char *pattern, size_t n);

#endif
