/* grammar_private.h: a grammar's parts. Each file below uses those above it only:
 *
 *     grammar_draft     what is written, item by item
 *     gbnf              text to a draft
 *     schema_refs, schema_merge, schema_negate, schema_cases, schema_validate
 *                       which schemas a value has to fit
 *     schema_pattern, schema_strings, schema_numbers, schema_objects, schema_arrays, schema
 *                       JSON to one
 *     grammar_link      a draft to a program
 *     grammar_work      places in a program, byte after byte          token_set
 *     grammar           the public calls about a grammar
 *     match             those about a text */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_GRAMMAR_PRIVATE_H
#define MNEM_SRC_ENGINE_GRAMMAR_GRAMMAR_PRIVATE_H

#include "engine/grammar/grammar_work.h"
#include "engine/grammar/token_set.h"

enum { MNEM__CACHED_WORDS = 256 }; /* a state of more isn't cached: it won't come again */

/* Of the state at hand; the mask follows. */
typedef struct mnem__cached_mask {
    uint32_t words; /* 0: nothing here */
    uint32_t state[MNEM__CACHED_WORDS];
} mnem__cached_mask;

struct mnem_grammar {
    const mnem_token_set *tokens;
    mnem_grammar_options options;
    mnem__program program;
    mnem__grammar_work work;
    uint32_t mask_words;
    uint64_t *mask; /* of the last answer that isn't cached */
    uint8_t *cache; /* slots of slot_bytes: a mnem__cached_mask and its mask */
    uint64_t slots, slot_bytes;
    uint64_t masks, masks_cached;
};

/* A rule of the draft that a text may use by a name, where it has none of that name itself. */
typedef struct mnem__gbnf_given {
    const char *name; /* NULL ends a list */
    uint32_t rule;
} mnem__gbnf_given;
/* Writes GBNF into a draft, and finds the rules of count names. given: NULL, or a list. A failure
 * has its line and column. */
mnem_status mnem__gbnf_write(mnem_text text, mnem__draft *draft, const mnem__gbnf_given *given,
                             const char *const *names, uint32_t count, uint32_t *rules);
/* Writes a schema into a draft. A failure has its place. */
mnem_status mnem__schema_write(mnem_text json, mnem__draft *draft, uint32_t *root);

#endif
