/* mnem/grammar.h: answers that follow a grammar: GBNF or a JSON schema as an automaton over bytes,
 * walked along the tokens of a vocabulary.
 *
 * A match knows how far a text has come, and so which tokens may come next: a text that is made of
 * allowed ones only is a beginning of a text of the grammar, and a whole one wherever it may end.
 * Grammars come from outside: what they take while compiling and while matching is bounded, and
 * what passes a bound is a status, never a long wait.
 * Not here: what a model likes to say; a grammar takes tokens away, it doesn't make them likely.
 * Threads: a grammar and its matches belong to one thread at a time; a token set, which nothing
 * changes, may be shared by all.
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

#include "mnem/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a vocabulary's tokens, ordered by their bytes ---- */

typedef struct mnem_token_set mnem_token_set;
/* Made once for a tokenizer, which must outlive it; 19 bytes a token, 36 more while it is made.
 * end: one more token that ends a text beside the tokenizer's own (a template's); -1: none. Tokens
 * that print nothing, and those of more than 255 bytes, are never allowed: what those print others
 * do, too. */
mnem_status mnem_token_set_create(const mnem_tokenizer *tokenizer, int32_t end,
                                  mnem_token_set **set);
void mnem_token_set_destroy(mnem_token_set *set); /* NULL is fine */

/* ---- a grammar ---- */

typedef struct mnem_grammar mnem_grammar;

/* Zero means default. */
typedef struct mnem_grammar_options {
    uint64_t bytes;       /* most that the grammar takes, and compiling it (16 MiB) */
    uint64_t state_bytes; /* of a text's state, which grows with how deep it stands (32 KiB: about
                             600 values of JSON inside one another); working takes 12 times that */
    uint64_t cache_bytes; /* of masks that are kept for states that come again (256 KiB) */
    uint64_t steps;       /* most of one call, so that a grammar of many meanings can't hold up a
                             server (100 million, about a second) */
    /* [mark_count] control tokens that may stand where the grammar has their texts ("[TOOL_CALLS]"
     * as models write it); all others stand nowhere. Borrowed until the grammar is destroyed. */
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
 *     maxContains), unevaluatedItems, uniqueItems (of an enum);
 *   - minLength, maxLength, pattern, format (those of 2020-12);
 *   - minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
 * Any other keyword that constrains is MNEM_UNSUPPORTED, named with its place. Keywords and formats
 * that no draft defines, annotations, and a maxLength above a million are ignored. U+0000 stands in
 * patterns and in values of enum and const only.
 * No value is written that the schema refuses, but some that it admits are not:
 *   - members come in the order of the schema; others only where additionalProperties is given or
 *     properties is absent;
 *   - between tokens there is at most one blank, or a line break and 20 blanks; in values of enum
 *     and const a blank behind each comma and colon, or none, their members in the schema's order;
 *   - whole numbers have no point where integers are asked for, as typed readers refuse 1.0; those
 *     of enum and const only where the schema writes one;
 *   - whole numbers have up to 18 digits (or are 1e18), other numbers up to 19 digits before the
 *     point, 27 behind it and exponents of two digits; multiples have no exponent;
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
 *   - host names have up to 5 labels of 30 characters, URIs no literal addresses, and the format
 *     regex is a part of it;
 *   - what is evaluated by several cases of an anyOf counts where it has up to four cases;
 *   - more than five unique items come in the order of their enum;
 *   - fractions that only a "not" admits ({"not": {"type": "integer"}}), and those beside a "not"
 *     of multipleOf, are not written.
 * Statuses as above; a mistake in the JSON has its line and column, one of the schema its place. */
mnem_status mnem_grammar_create_schema(const mnem_token_set *tokens, const char *json,
                                       size_t length, const mnem_grammar_options *options,
                                       mnem_grammar **grammar);
/* The same of GBNF in which names without a rule stand for schemas: a call of a tool, say, whose
 * frame is a text and whose arguments have a schema. part.name is what a failure of its schema
 * begins with. A schema that names members but no type is an object there. part.raw_end: NULL, or a
 * mark of up to 32 bytes without quotes and backslashes: then the part is the schema's strings as
 * they are, without quotes and escapes, but for those that contain the mark or U+0000; what else
 * the schema admits is left out. */
enum { MNEM_GRAMMAR_PARTS_MAX = 1024 };
typedef struct mnem_grammar_part {
    const char *name, *json;
    size_t length; /* of json */
    const char *raw_end;
} mnem_grammar_part;
mnem_status mnem_grammar_create_with(const mnem_token_set *tokens, const char *text, size_t length,
                                     const mnem_grammar_part *parts, uint32_t count,
                                     const mnem_grammar_options *options, mnem_grammar **grammar);
/* After its matches. NULL is fine. */
void mnem_grammar_destroy(mnem_grammar *grammar);

typedef struct mnem_grammar_info {
    uint32_t rules, states; /* after compiling */
    uint64_t bytes;         /* of all that the grammar holds, work and cache included */
    uint64_t masks;         /* that were asked for so far */
    uint64_t masks_cached;  /* of those: found in the cache */
} mnem_grammar_info;
void mnem_grammar_info_get(const mnem_grammar *grammar, mnem_grammar_info *info);

/* ---- how far a text has come ---- */

typedef struct mnem_match mnem_match;
/* At the beginning of a text. state_bytes are taken here, nothing later. */
mnem_status mnem_match_create(mnem_grammar *grammar, mnem_match **match);
void mnem_match_destroy(mnem_match *match); /* NULL is fine */
void mnem_match_reset(mnem_match *match);   /* to the beginning */
/* to stands where from does; both are of one grammar. */
void mnem_match_copy(mnem_match *to, const mnem_match *from);

/* The functions below allocate nothing, and leave the match as it was unless they say otherwise.
 * MNEM_OVER_BUDGET: a bound of options (state_bytes or steps). */

/* Whether the token may come next: one that ends a text where the text may end, another where its
 * bytes go on as the grammar wants. */
mnem_status mnem_match_allows(mnem_match *match, int32_t id, bool *allowed);
/* Goes on by a token that is allowed; MNEM_INVALID otherwise. An end token changes nothing. */
mnem_status mnem_match_accept(mnem_match *match, int32_t id);
/* Goes on by the longest part of n bytes that fits; *fits says how many did. */
mnem_status mnem_match_accept_text(mnem_match *match, const char *bytes, size_t n, size_t *fits);
/* A bit for every token that is allowed, bit id % 64 of word id / 64; borrowed until the next call
 * with the grammar. Costs a walk along the tokens: mostly 0.01 to 0.3 ms for 150,000. */
mnem_status mnem_match_mask(mnem_match *match, const uint64_t **bits);
/* Whether the text so far is a whole one of the grammar. */
bool mnem_match_may_end(const mnem_match *match);
/* Whether it is, and nothing can follow. */
bool mnem_match_is_done(const mnem_match *match);

/* Chooses a token that is allowed, and doesn't accept it. First the sampler chooses as if there
 * were no grammar; only where that is refused it chooses again, among all tokens that are allowed
 * (its cuts then see only those). So what is refused has probability 0. Where the sampler cuts
 * nothing off (top-k 0, top-p 1, min-p 0), and where it is greedy, the distribution is that of a
 * mask before the softmax, exactly. Otherwise what the cuts leave and the grammar allows keeps its
 * probability of without a grammar, and the rest is shared out by the second choice.
 * *id -1, with MNEM_OK: the text is whole, and no token can follow.
 * MNEM_UNSUPPORTED: the vocabulary has no token that the grammar wants here. */
mnem_status mnem_match_choose(mnem_match *match, mnem_sampler *sampler, const float *logits,
                              int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
