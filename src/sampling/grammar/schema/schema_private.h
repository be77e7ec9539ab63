/* schema_private.h: what the writers of a schema's parts know of each other. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_PRIVATE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_PRIVATE_H

#include "model/json/json_tree.h"
#include "sampling/grammar/draft/gbnf.h"
#include "sampling/grammar/schema/schema_write.h"
#include "sampling/grammar/schema/twins/schema_twins.h"

/* X(NAME, word): words that constrain. */
#define MNEM__SCHEMA_WORDS(X)                                                                      \
    X(TYPE, "type")                                                                                \
    X(ENUM, "enum")                                                                                \
    X(CONST, "const")                                                                              \
    X(REF, "$ref")                                                                                 \
    X(ALL_OF, "allOf")                                                                             \
    X(ANY_OF, "anyOf")                                                                             \
    X(ONE_OF, "oneOf")                                                                             \
    X(IF, "if")                                                                                    \
    X(NOT, "not")                                                                                  \
    X(DEPENDENCIES, "dependencies")                                                                \
    X(DEPENDENT_REQUIRED, "dependentRequired")                                                     \
    X(DEPENDENT_SCHEMAS, "dependentSchemas")                                                       \
    X(THEN, "then")                                                                                \
    X(ELSE, "else")                                                                                \
    X(PROPERTIES, "properties")                                                                    \
    X(REQUIRED, "required")                                                                        \
    X(ADDITIONAL, "additionalProperties")                                                          \
    X(PATTERN_PROPERTIES, "patternProperties")                                                     \
    X(PROPERTY_NAMES, "propertyNames")                                                             \
    X(MIN_PROPERTIES, "minProperties")                                                             \
    X(MAX_PROPERTIES, "maxProperties")                                                             \
    X(ITEMS, "items")                                                                              \
    X(PREFIX_ITEMS, "prefixItems")                                                                 \
    X(ADDITIONAL_ITEMS, "additionalItems")                                                         \
    X(MIN_ITEMS, "minItems")                                                                       \
    X(MAX_ITEMS, "maxItems")                                                                       \
    X(UNIQUE_ITEMS, "uniqueItems")                                                                 \
    X(CONTAINS, "contains")                                                                        \
    X(MIN_LENGTH, "minLength")                                                                     \
    X(MAX_LENGTH, "maxLength")                                                                     \
    X(PATTERN, "pattern")                                                                          \
    X(FORMAT, "format")                                                                            \
    X(MINIMUM, "minimum")                                                                          \
    X(MAXIMUM, "maximum")                                                                          \
    X(ABOVE, "exclusiveMinimum")                                                                   \
    X(BELOW, "exclusiveMaximum")                                                                   \
    X(MULTIPLE_OF, "multipleOf")                                                                   \
    X(NOT_ENUM, "\1notEnum")           /* of negations: strings that are none of these */          \
    X(NOT_PATTERN, "\1notPattern")     /* strings that have no such part */                        \
    X(NOT_FORMAT, "\1notFormat")       /* strings that haven't the format */                       \
    X(NOT_MULTIPLE, "\1notMultipleOf") /* numbers that aren't multiples */                         \
    X(UNEVALUATED_ITEMS, "unevaluatedItems")                                                       \
    X(UNEVALUATED_PROPERTIES, "unevaluatedProperties")                                             \
    X(DYNAMIC_REF, "$dynamicRef")                                                                  \
    X(RECURSIVE_REF, "$recursiveRef")

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
    X(ESCAPED, "escaped")                                                                          \
    X(DISTANT, "distant") /* \uXXXX of no character from U+0020 to U+007F */                       \
    X(WS, "ws")

typedef enum mnem__schema_rule {
#define MNEM__SCHEMA_ENUM(name, text) MNEM__RULE_##name,
    MNEM__SCHEMA_RULES(MNEM__SCHEMA_ENUM)
#undef MNEM__SCHEMA_ENUM
        MNEM__RULE_COUNT
} mnem__schema_rule;

enum {
    MNEM__TYPE_OBJECT,
    MNEM__TYPE_ARRAY,
    MNEM__TYPE_STRING,
    MNEM__TYPE_NUMBER,
    MNEM__TYPE_INTEGER,
    MNEM__TYPE_BOOLEAN,
    MNEM__TYPE_NULL,
    MNEM__TYPE_COUNT,
    MNEM__TYPE_ALL = 0x6F
};
enum { MNEM__FORMATS = 24 };
enum { MNEM__POWERS = 28 }; /* powers of ten of bounded numbers: 1e-9 to 1e18 */

/* A schema of a conjunction. done: a bit for each word (from ANY_OF on) whose case has been chosen:
 * the case is a part of its own. parent: the part that brought this one; itself: none did.
 * negated: its "not" did. */
typedef struct mnem__schema_part {
    const mnem__node *node;
    uint32_t done, parent;
    bool negated;
} mnem__schema_part;

/* Schemas all of which a value fits: what a schema, its $ref and its allOf say together. Each is
 * made once, so that schemas that contain themselves end. */
typedef struct mnem__schema_all mnem__schema_all;
struct mnem__schema_all {
    mnem__schema_part *part;
    uint32_t count, rule;
    uint64_t hash;
    bool never;             /* no value fits */
    mnem__schema_all *same; /* the next of one hash */
    mnem__schema_all *todo; /* the next whose rule is yet to be written */
};

enum { MNEM__SCHEMA_PARTS_MAX = 200, MNEM__SCHEMA_HASHES = 1024, MNEM__SCHEMA_ALLS = 4096 };
/* A conjunction while it is put together. */
typedef struct mnem__schema_parts {
    mnem__schema_part part[MNEM__SCHEMA_PARTS_MAX];
    uint32_t count;
    bool never;
} mnem__schema_parts;

/* Whole numbers that are written with a point: none, those that the schema writes so, all. */
enum { MNEM__POINTS_NONE, MNEM__POINTS_OWN, MNEM__POINTS_ALL };

/* The cases of a word, which are made once. */
typedef struct mnem__schema_cases mnem__schema_cases;
struct mnem__schema_cases {
    const mnem__node *node, *list;
    mnem__schema_word word;
    mnem__schema_cases *same;
};

/* A schema that is made of one or two, once. */
typedef struct mnem__schema_made mnem__schema_made;
struct mnem__schema_made {
    const mnem__node *a, *b; /* b NULL: the negation of a */
    const mnem__node *node;
    mnem__schema_made *next;
};

/* A rule of strings of so many characters. */
enum { MNEM__LENGTHS = 64 };
typedef struct mnem__schema_length {
    uint32_t least, most, rule;
} mnem__schema_length;

/* A pattern or a format that texts were matched with. */
enum { MNEM__MATCHERS = 8, MNEM__MATCHER_BYTES = 256 << 10 };
typedef struct mnem__language mnem__language;
typedef struct mnem__schema_matcher {
    mnem__language *language; /* NULL: none */
    const char *text;
    size_t bytes;
    bool format;
} mnem__schema_matcher;

enum { MNEM__EXTENDED = 8 };
typedef struct mnem__schema {
    mnem__draft *d;
    mnem__arena arena;
    mnem__node *top;
    uint32_t common[MNEM__RULE_COUNT];
    uint32_t power[MNEM__POWERS]; /* rules of schema_decimals.c; 0: not used */
    mnem__schema_all *all_of_hash[MNEM__SCHEMA_ALLS], *todo;
    mnem__schema_cases *cases_of_hash[MNEM__SCHEMA_HASHES];
    mnem__schema_made *made;
    mnem__twins twins;
    mnem__schema_matcher matcher[MNEM__MATCHERS];
    uint32_t matchers_made;
    uint32_t refs, alls;
    uint64_t steps;
    uint32_t format[MNEM__FORMATS]; /* rules of schema_formats.c; 0: not used */
    mnem__schema_length length[MNEM__LENGTHS];
    uint32_t lengths;
    uint32_t of_type[MNEM__TYPE_COUNT]; /* rules of schemas that say only that; 0: not used */
    uint32_t never;                     /* a rule without a text */
    bool within;                        /* a grammar: it stands for a name there */
    bool documents;                     /* schemas within have an $id of their own */
    const mnem__node *extended[MNEM__EXTENDED]; /* where a $dynamicRef leads; NULL: no more */
    bool ref_alone;   /* drafts up to 7: what stands beside $ref is ignored */
    bool unevaluated; /* a schema within says what is left to it is */
    uint8_t points;   /* which whole numbers are written with a point */
    bool draft_2019;  /* items that a "contains" wants are left unevaluated */
    /* of the schema at hand */
    const mnem__schema_all *all;
    const mnem__node *node;                   /* the first of all, for messages */
    const mnem__node *word[MNEM__WORD_COUNT]; /* the strictest of each; NULL: isn't there */
    mnem_status status;
} mnem__schema;

/* "schema: #/properties/a: text"; false. */
bool mnem__schema_fail(mnem__schema *schema, mnem_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool mnem__schema_bad(mnem__schema *schema, const char *text) {
    return mnem__schema_fail(schema, MNEM_BAD_FILE, "%s", text);
}
/* Counts work, so that no schema takes long; false: it is too much. */
bool mnem__schema_spend(mnem__schema *schema, uint64_t steps);
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

extern const char *const mnem__schema_words[MNEM__WORD_COUNT];
/* The tag of a word, and of all that a tree holds: before any is asked for. */
uint8_t mnem__schema_tag(const char *key);
void mnem__schema_mark(mnem__node *node);
/* A word of a schema, null included; NULL: it isn't there. */
const mnem__node *mnem__schema_get(const mnem__node *node, mnem__schema_word word);
/* The same where drafts up to 7 have what stands beside $ref ignored. */
const mnem__node *mnem__schema_says(const mnem__schema *schema, const mnem__node *node,
                                    mnem__schema_word word);
/* The types that a "type" names, a bit for each; all but integers, which are numbers, for NULL. */
bool mnem__schema_types(mnem__schema *schema, const mnem__node *type, uint32_t *bits);
/* A whole number of at least 0, capped at a thousand million; otherwise where there is none. */
bool mnem__schema_count(mnem__schema *schema, mnem__schema_word word, uint32_t otherwise,
                        uint32_t *count);

/* ---- schema_refs.c ---- */
/* Where a $ref leads; NULL with a failure. */
const mnem__node *mnem__schema_target(mnem__schema *schema, const mnem__node *ref);
/* Makes a $ref of each $dynamicRef and $recursiveRef that can lead to one place only. */
void mnem__schema_settle_refs(mnem__schema *schema);
/* Whether a $dynamicRef leads there: such a schema is one that others extend by members. */
bool mnem__schema_is_extended(const mnem__schema *schema, const mnem__node *node);
/* What a schema of nothing but a $ref stands for. */
const mnem__node *mnem__schema_resolved(mnem__schema *schema, const mnem__node *node);
/* ---- schema_merge.c ---- */
/* Adds a schema with its $ref and allOf. */
bool mnem__schema_gather(mnem__schema *schema, mnem__schema_parts *parts, const mnem__node *node,
                         uint32_t parent);
enum { MNEM__SCHEMA_NO_PARENT = UINT32_MAX };
/* The rule of a value that fits all parts, which is written later. */
uint32_t mnem__schema_rule_of(mnem__schema *schema, const mnem__schema_parts *parts);
void mnem__schema_put_never(mnem__schema *schema);
/* Reads the words of the conjunction at hand, the strictest of each. */
bool mnem__schema_read_words(mnem__schema *schema);
/* Whether a schema has a word of what is left unevaluated, at any depth. */
bool mnem__schema_has_unevaluated(const mnem__node *top);
/* Adds what the parts at hand say of a member (an item) that is left to their
 * unevaluatedProperties (unevaluatedItems). taken: of each part, whether its own words reach it. */
bool mnem__schema_gather_unevaluated(mnem__schema *schema, mnem__schema_word word,
                                     const bool *taken, mnem__schema_parts *parts);
/* ---- schema_cases.c ---- */
/* A word of a part at hand whose cases are yet to be chosen, MNEM__WORD_COUNT: there is none. */
mnem__schema_word mnem__schema_open_word(const mnem__schema *schema, uint32_t *part);
/* Schemas of which at least one must fit; NULL with a failure. */
const mnem__node *mnem__schema_cases_of(mnem__schema *schema, const mnem__node *node,
                                        mnem__schema_word word);
/* ---- schema_negate.c ---- */
/* Schemas of which one fits what a schema doesn't admit, some of it where it can't be said whole.
 * NULL with a failure. */
mnem__node *mnem__schema_negation(mnem__schema *schema, const mnem__node *node);
mnem__node *mnem__schema_new(mnem__schema *schema, int kind);
/* Adds a copy that shares what it holds. */
mnem__node *mnem__schema_add(mnem__schema *schema, mnem__node *to, const char *key,
                             const mnem__node *node);
/* {"not": a}, {"anyOf": [a, b]}: the same node whenever it is asked for; NULL with a failure. */
const mnem__node *mnem__schema_not(mnem__schema *schema, const mnem__node *a);
const mnem__node *mnem__schema_either(mnem__schema *schema, const mnem__node *a,
                                      const mnem__node *b);
/* ---- schema_validate.c ---- */
/* Whether a value fits a schema; false with a failure, too. */
bool mnem__schema_admits(mnem__schema *schema, const mnem__node *node, const mnem__node *value);
bool mnem__schema_same(const mnem__node *a, const mnem__node *b);
/* Below, at or above 0 as a is below, equal to or above b, both numbers: exact for whole ones. */
int mnem__schema_compare(const mnem__node *a, const mnem__node *b);
/* Whether no value fits both, as far as that is easy to see; objects: whether no object does. */
bool mnem__schema_differ(mnem__schema *schema, const mnem__node *a, const mnem__node *b,
                         bool objects);
/* Whether a pattern is found in a text. */
bool mnem__schema_matches(mnem__schema *schema, const mnem__node *pattern, const char *text);
/* Whether a text has a format; formats that no draft defines constrain nothing. */
bool mnem__schema_is_format(mnem__schema *schema, const mnem__node *format, const char *text);
void mnem__schema_drop_matchers(mnem__schema *schema);

/* ---- schema_strings.c ---- */
bool mnem__schema_write_common(mnem__schema *schema);
/* Any character of a string. */
void mnem__schema_put_character(mnem__schema *schema);
/* A string of so many characters. */
void mnem__schema_put_text(mnem__schema *schema, uint32_t least, uint32_t most);
/* A JSON text of these bytes, quotes included. */
void mnem__schema_put_quoted(mnem__schema *schema, const char *text, size_t n);
/* A value exactly. */
bool mnem__schema_put_value(mnem__schema *schema, const mnem__node *value);
/* Its bytes, in the arena. */
bool mnem__schema_written(mnem__schema *schema, const mnem__node *value, mnem_text *text);
/* A string as the words at hand want it. */
bool mnem__schema_write_string(mnem__schema *schema);
/* What the parts at hand say of strings, as grammars of a language. */
bool mnem__schema_add_string(mnem__schema *schema, mnem__language *language);
/* ---- schema_trie.c ---- */
/* A text of JSON with its characters from U+007F on by their numbers; of no bytes: it has none. */
bool mnem__schema_in_ascii(mnem__schema *schema, mnem_text from, mnem_text *text);
/* In how many orders the members of a value may come: 1 but for an object of two or three. */
enum { MNEM__ORDERED = 3, MNEM__ORDERS = 6 };
uint32_t mnem__schema_orders(const mnem__node *value);
/* Adds the texts of a value, MNEM__FORMS at most for each of its orders, two of a string; types:
 * those that the words at hand allow. */
enum { MNEM__FORMS = 12 };
bool mnem__schema_add_forms(mnem__schema *schema, const mnem__node *value, uint32_t types,
                            uint32_t orders, mnem_text *text, uint32_t *n);
/* One of n texts, none of which is empty; n > 0. */
bool mnem__schema_put_one_of(mnem__schema *schema, const mnem_text *text, uint32_t n);
/* The root of a tree that has a text more, which leads to a place; root is left as it is. No text
 * is the beginning of another one. path: room for as many as the text has bytes. */
enum { MNEM__TRIE_EMPTY = UINT32_MAX };
uint32_t mnem__schema_add_text(mnem__schema *schema, uint32_t root, mnem_text text, uint32_t to,
                               uint32_t *path);
/* ---- schema_formats.c ---- */
bool mnem__schema_has_format(const char *name);
/* Characters of its longest string; 0: there is none. */
uint32_t mnem__schema_format_length(const char *name);
/* A string of a format: its rule is called, or it is written here. */
bool mnem__schema_call_format(mnem__schema *schema, const char *name);
bool mnem__schema_put_format(mnem__schema *schema, const char *name);
/* ---- schema_keys.c ---- */
/* Keys that a schema does not name: they match patterns, and are what propertyNames says. */
enum { MNEM__KEY_PATTERNS = 6 };
typedef struct mnem__schema_keys {
    const char *const *name; /* those that it names */
    uint32_t names, patterns;
    const char *pattern[MNEM__KEY_PATTERNS];
    mnem__schema_parts *of_names; /* propertyNames */
} mnem__schema_keys;
/* A quoted key that matches patterns, a bit for each, and no others. *any: there is such a key. */
bool mnem__schema_write_matched_key(mnem__schema *schema, const mnem__schema_keys *keys,
                                    uint32_t matched, bool *any);
/* A quoted key that is none of n names. */
bool mnem__schema_write_other_key(mnem__schema *schema, const char *const *name, uint32_t n);
/* ---- schema_unique.c ---- */
/* Different items; false in *done: their values aren't few enough. */
bool mnem__schema_write_unique(mnem__schema *schema, const mnem__schema_parts *item, uint32_t least,
                               uint32_t most, bool *done);
/* ---- schema_objects.c ---- */
/* The member of an object, null included. */
const mnem__node *mnem__schema_member(const mnem__node *object, const char *key);
bool mnem__schema_write_object(mnem__schema *schema);
/* ---- schema_arrays.c ---- */
bool mnem__schema_write_array(mnem__schema *schema);
/* What the parts at hand say of item i. */
bool mnem__schema_gather_item(mnem__schema *schema, uint32_t i, mnem__schema_parts *parts);
/* ---- schema_contains.c ---- */
/* The counts of a schema's "contains": of 1 at least where it says nothing. */
bool mnem__schema_contained(mnem__schema *schema, const mnem__node *node, uint32_t *least,
                            uint32_t *most);
/* The items of an array, the first `named` of which have schemas of their own, where a part at hand
 * counts some; *done false: none does, and nothing is written. */
bool mnem__schema_put_contained(mnem__schema *schema, uint32_t named, uint32_t least, uint32_t most,
                                bool *done);
/* ---- schema_numbers.c ---- */
bool mnem__schema_write_number(mnem__schema *schema, bool integer);
/* ---- schema_multiples.c ---- */
/* Numbers that are multiples of a decimal, as a flat grammar; without exponents. */
bool mnem__schema_put_multiples(mnem__schema *schema, const mnem__node *of);
bool mnem__schema_is_multiple(mnem__schema *schema, const mnem__node *of, const mnem__node *value);
/* ---- schema_decimals.c ---- */
/* Cases of bounded numbers with a point or an exponent, behind others if there are any; returns
 * whether there are any now. */
bool mnem__schema_put_decimals(mnem__schema *schema, mnem__choice *choice, bool any);
/* The rules that these call; after all schemas. */
void mnem__schema_write_powers(mnem__schema *schema);
/* ---- schema_pattern.c ---- */
bool mnem__schema_write_pattern(mnem__schema *schema, const char *pattern, size_t n);
/* The same; begins: as if ^ stood before it. */
bool mnem__schema_write_side(mnem__schema *schema, const char *pattern, size_t n, bool begins);
/* Where the side of | that begins there ends, and where the ')' of the group stands; n: nowhere. */
size_t mnem__pattern_side_end(const char *pattern, size_t from, size_t n);
size_t mnem__pattern_group_end(const char *pattern, size_t from, size_t n);
/* ---- schema_lookahead.c ---- */
/* Whether it has what only a language can keep: assertions about what follows. */
bool mnem__schema_looks_ahead(const char *pattern);
/* As grammars of a language; wanted false: the pattern isn't found. */
bool mnem__schema_add_pattern(mnem__schema *schema, mnem__language *language, const char *pattern,
                              size_t n, bool wanted);

#endif
