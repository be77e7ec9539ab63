/* grammar_private.h: the parts of grammars. Each file uses only those above it:
 *
 *     draft/            drafts, written item by item; GBNF to drafts; JSON strings of drafts
 *                       to their contents
 *     schema/           JSON schemas to drafts: schema_refs, _merge, _negate, _cases, _validate
 *                       find the schemas that a value must fit; _pattern, _lookahead, _language,
 *                       _formats, _keys, _strings, _trie, _numbers, _decimals, _columns, _objects,
 *                       _arrays and schema write them
 *     grammar_link      a draft to a program
 *     grammar_work      positions in a program, byte after byte
 *     token_set         a vocabulary in the order of its bytes
 *     mask_walk         all tokens that may come next
 *     grammar           the public calls about a grammar
 *     match             the public calls about a text */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_PRIVATE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_PRIVATE_H

#include "sampling/grammar/draft/gbnf.h"
#include "sampling/grammar/mask_walk.h"
#include "sampling/grammar/schema/schema_write.h"

enum { MNEM__CACHED_WORDS = 256 }; /* larger states aren't cached: they don't recur */

/* The entry of a state; the mask follows. */
typedef struct mnem__cached_mask {
    uint32_t words; /* 0: empty */
    uint32_t state[MNEM__CACHED_WORDS];
} mnem__cached_mask;

struct mnem_grammar {
    const mnem_token_set *tokens;
    mnem_grammar_options options;
    uint64_t bytes_needed; /* of options.bytes */
    mnem__program program;
    mnem__grammar_work work;
    mnem__mask_walk *walk; /* NULL without tokens */
    uint32_t mask_words;
    uint64_t *mask; /* of the last result that isn't cached */
    uint8_t *cache; /* slots of slot_bytes: a mnem__cached_mask and its mask */
    uint64_t slots, slot_bytes;
    uint64_t masks, masks_cached;
};

#endif
