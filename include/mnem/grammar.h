/* mnem/grammar.h: constrained answers: GBNF or a JSON schema as an automaton over bytes, which is
 * walked along the tokens of a vocabulary.
 *
 * A match holds the state of a text in the grammar, and so the set of tokens that may come next: a
 * text of allowed tokens only is always a prefix of a text of the grammar, and a complete text
 * wherever it may end. Grammars are untrusted input: compiling and matching have limits of bytes
 * and steps, and exceeding a limit returns a status instead of taking a long time.
 * Not here: prompts. A grammar excludes tokens; it doesn't make the model prefer the format.
 * Threads: a grammar and its matches belong to one thread at a time; a token set is constant and
 * may be shared by all threads.
 *
 *     mnem_token_set *tokens;
 *     mnem_grammar *grammar;
 *     mnem_match *match;
 *     const char text[] = "root ::= \"yes\" | \"no\"";
 *     mnem_status status = mnem_token_set_create(tokenizer, -1, &tokens);
 *     if (status == MNEM_OK)
 *         status = mnem_grammar_create(tokens, text, strlen(text), NULL, &grammar);
 *     if (status == MNEM_OK) status = mnem_match_create(grammar, &match);
 *     while (status == MNEM_OK && !mnem_match_is_done(match)) {
 *         const float *logits = next_logits();
 *         int32_t id;
 *         status = mnem_match_choose(match, sampler, logits, &id);
 *         if (status != MNEM_OK || id < 0 || mnem_tokenizer_is_end(tokenizer, id)) break;
 *         status = mnem_match_accept(match, id);
 *     }
 */
#ifndef MNEM_GRAMMAR_H
#define MNEM_GRAMMAR_H

#include "mnem/sampler.h"
#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a vocabulary's tokens, ordered by their bytes ---- */

typedef struct mnem_token_set mnem_token_set;
/* Created once for a tokenizer, which must outlive it; takes 19 bytes a token, and 36 more while it
 * is created. end: a further token that ends a text, besides those of the tokenizer (that of a
 * template); -1: none. Tokens that print nothing, and tokens of more than 255 bytes, are never
 * allowed: other tokens print the same bytes. */
mnem_status mnem_token_set_create(const mnem_tokenizer *tokenizer, int32_t end,
                                  mnem_token_set **set);
void mnem_token_set_destroy(mnem_token_set *set); /* NULL is fine */

/* ---- a grammar ---- */

typedef struct mnem_grammar mnem_grammar;

/* Zero means default. */
typedef struct mnem_grammar_options {
    uint64_t bytes;       /* limit for the grammar, and for compiling it (16 MiB) */
    uint64_t state_bytes; /* limit for the state of a text, which grows with its nesting depth (32
                             KiB: about 600 nested JSON values); matching takes 12 times that */
    uint64_t cache_bytes; /* of the cache of masks, by state (256 KiB) */
    uint64_t steps;       /* limit of steps of one call, so that a highly ambiguous grammar can't
                             block a server (100 million, about a second) */
    /* [mark_count] control tokens that are allowed where the grammar has their texts
     * ("[TOOL_CALLS]" as models write it); all other control tokens are never allowed. Borrowed
     * until the grammar is destroyed. */
    const int32_t *marks;
    uint32_t mark_count;
} mnem_grammar_options;

/* Compiles GBNF, as llama.cpp's grammars/README.md describes it: rules NAME ::= ..., "text", [a-z],
 * [^a-z], ., ( | ), *, +, ?, {m}, {m,}, {m,n}, comments, the escapes \n \r \t \" \\ \[ \] \- \xXX
 * \uXXXX \UXXXXXXXX; the text begins at the rule root. Characters are Unicode's, in UTF-8. Left
 * recursion is fine. Not here: <tokens>. tokens NULL: only bytes are matched
 * (mnem_match_accept_text). options NULL: the defaults. tokens must outlive the grammar.
 * MNEM_BAD_FILE: a mistake, with its line and column, counted from 1 in bytes; MNEM_UNSUPPORTED:
 * what isn't here, by its name; MNEM_OVER_BUDGET: a bound of options, or the ledger's;
 * MNEM_NO_MEMORY. *grammar is NULL then. */
mnem_status mnem_grammar_create(const mnem_token_set *tokens, const char *text, size_t length,
                                const mnem_grammar_options *options, mnem_grammar **grammar);

/* The same of a JSON schema (drafts 4 to 2020-12): the texts are JSON values that it admits, as
 * UTF-8. Keywords that count, also beside one another:
 *   - type, enum, const, $ref within the schema (with $id and $anchor; $dynamicRef and
 *     $recursiveRef where they can lead to one place only), allOf, anyOf, oneOf, if,
 *     then, else, dependencies and its successors, not (of what can be negated);
 *   - properties, required, additionalProperties, patternProperties, propertyNames, minProperties,
 *     maxProperties, unevaluatedProperties;
 *   - items, prefixItems, additionalItems, minItems, maxItems, contains (with minContains and
 *     maxContains), unevaluatedItems, uniqueItems (where enum, const, boolean, null or the
 *     bounds of an integer list up to 200 values of an item, also by cases of anyOf and oneOf);
 *   - minLength, maxLength, pattern, format (those of 2020-12);
 *   - minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
 * Any other keyword that constrains is MNEM_UNSUPPORTED, named with its place. Keywords and formats
 * that no draft defines, annotations, and a maxLength above a million are ignored; a $schema that
 * is neither a draft nor OpenAPI's is refused. U+0000 stands in patterns and in values of enum and
 * const only.
 * No value is written that the schema refuses, but some that it admits are not:
 *   - members come in the order of the schema, up to three in any where no type is named; others
 *     only where additionalProperties is given, properties is absent, a $dynamicRef leads there, or
 *     no type is named and there are few of them; these count as one towards minProperties;
 *   - between tokens there is at most one blank, or a line break and 20 blanks; in values of enum
 *     and const a blank behind each comma and colon, or none; their members come in the schema's
 *     order, two or three of an object of up to 1,000 bytes in any, in lists of up to 32 values;
 *   - whole numbers have no point where integers are asked for, as typed readers refuse 1.0; in
 *     values of enum and const all have one, those that the schema writes so, or none;
 *   - integers lie between -2^63 and 2^63 - 1; those of the format uint64 or uint, and those that a
 *     bound beyond 2^63 asks for, reach up to 2^64 - 1 in magnitude; other numbers have up to 19
 *     digits before the point, 27 behind it and exponents of two digits; multiples have no
 *     exponent;
 *   - a bounded number with a point or an exponent has up to 15 significant digits, a magnitude of
 *     1e-9 to 1e19 (or is 0), and the forms of Python's json.dumps and of JavaScript's
 *     JSON.stringify, with up to 6 zeros more: exponents below 1e-4 and from 1e16 on;
 *   - surrogates are not escaped but in names of properties and in values of enum and const; there
 *     each character has its shortest form, or all from U+007F on are escaped in lower case, as
 *     json.dumps writes them; beside a pattern, a format or a "not" each character has its shortest
 *     form, and beside a maxLength too a string has up to 1,000 characters (254 or 100 where the
 *     automaton would be too large);
 *   - names that no property has are not written with an escape for a character that some
 *     property has in that place, nor with \uXXXX where one has a character beyond ASCII there;
 *   - of \p{...} there are the general categories; what Unicode 14 has not assigned, or later
 *     versions have moved, is in none of them;
 *   - host names have up to 5 labels of 30 characters, internationalised ones none in Punycode,
 *     URIs no literal addresses, and the format regex is a part of it;
 *   - what is evaluated by several cases of an anyOf counts where it has up to four cases;
 *   - unique items of more than seven values come in the order of the schema;
 *   - fractions that a "not" admits ({"not": {"type": "integer"}}, or of multipleOf) have no
 *     exponent, and the digits of bounded numbers.
 * Statuses as above; a mistake in the JSON has its line and column, one of the schema its place. */
mnem_status mnem_grammar_create_schema(const mnem_token_set *tokens, const char *json,
                                       size_t length, const mnem_grammar_options *options,
                                       mnem_grammar **grammar);
/* Compiles GBNF in which names without a rule stand for schemas, such as a call of a tool whose
 * frame is a text and whose arguments have a schema. An error in a schema begins with part.name. A
 * schema that names members but no type describes an object here. part.raw_end: NULL, or a mark of
 * up to 32 bytes without quotes and backslashes: then the part is a string of the schema, written
 * without quotes and escapes; strings that contain the mark or U+0000, and all other values of the
 * schema, are excluded. */
enum { MNEM_GRAMMAR_PARTS_MAX = 1024 };
typedef struct mnem_grammar_part {
    const char *name, *json;
    size_t length; /* of json */
    const char *raw_end;
} mnem_grammar_part;
mnem_status mnem_grammar_create_with(const mnem_token_set *tokens, const char *text, size_t length,
                                     const mnem_grammar_part *parts, uint32_t count,
                                     const mnem_grammar_options *options, mnem_grammar **grammar);
/* Destroys the grammar; destroy its matches before. NULL is fine. */
void mnem_grammar_destroy(mnem_grammar *grammar);

typedef struct mnem_grammar_info {
    uint32_t rules, states; /* after compiling */
    uint64_t bytes;         /* held by the grammar, working memory and cache included */
    uint64_t masks;         /* requested so far */
    uint64_t masks_cached;  /* of these, found in the cache */
    uint64_t bytes_needed;  /* least mnem_grammar_options.bytes with which it compiles the same */
} mnem_grammar_info;
void mnem_grammar_info_get(const mnem_grammar *grammar, mnem_grammar_info *info);

/* ---- the state of a text ---- */

typedef struct mnem_match mnem_match;
/* Creates a match at the beginning of a text. state_bytes are allocated here, nothing later. */
mnem_status mnem_match_create(mnem_grammar *grammar, mnem_match **match);
void mnem_match_destroy(mnem_match *match); /* NULL is fine */
void mnem_match_reset(mnem_match *match);   /* to the beginning */
/* Copies the state of from to to; both must be of one grammar. */
void mnem_match_copy(mnem_match *to, const mnem_match *from);

/* The functions below allocate nothing, and leave the match unchanged unless stated otherwise.
 * MNEM_OVER_BUDGET: a limit of options (state_bytes or steps). */

/* Whether the token may come next: a token that ends a text, if the text may end here; any other,
 * if its bytes continue the text as the grammar requires. */
mnem_status mnem_match_allows(mnem_match *match, int32_t id, bool *allowed);
/* Advances the match by an allowed token; MNEM_INVALID for any other. A token that ends a text
 * changes nothing. */
mnem_status mnem_match_accept(mnem_match *match, int32_t id);
/* Advances the match by the longest prefix of the n bytes that fits; *fits is its length. */
mnem_status mnem_match_accept_text(mnem_match *match, const char *bytes, size_t n, size_t *fits);
/* Sets *bits to a bit for every allowed token: bit id % 64 of word id / 64; borrowed until the next
 * call with the grammar. Walks along all tokens: usually 0.01 to 0.3 ms for 150,000. */
mnem_status mnem_match_mask(mnem_match *match, const uint64_t **bits);
/* Whether the text so far is a complete text of the grammar. */
bool mnem_match_may_end(const mnem_match *match);
/* Whether the text so far is complete, and no token can follow. */
bool mnem_match_is_done(const mnem_match *match);

/* Chooses an allowed token, without accepting it. First the sampler chooses as if there were no
 * grammar; only if that token is not allowed, it chooses again among all allowed tokens (its
 * filters then see only these). So tokens that are not allowed have probability 0. If the sampler
 * filters nothing (top-k 0, top-p 1, min-p 0), or is greedy, the distribution is exactly that of a
 * mask before the softmax. Otherwise the tokens that pass the filters and are allowed keep their
 * probability of sampling without a grammar, and the second choice distributes the rest. *id -1,
 * with MNEM_OK: the text is complete, and no token can follow. MNEM_UNSUPPORTED: the vocabulary has
 * no token that the grammar requires here. */
mnem_status mnem_match_choose(mnem_match *match, mnem_sampler *sampler, const float *logits,
                              int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
