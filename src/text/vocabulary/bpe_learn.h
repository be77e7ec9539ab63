/* bpe_learn.h: the words of a text with their counts, and the merges learned from them.
 *
 * Both share one limit of bytes. The text of all words is contiguous, with a byte between words
 * and around all of them:
 *
 *     text  | . t h e . h e . a n d . |      words[1] = {at 5, length 2, count} */
#ifndef MNEM_SRC_TEXT_VOCABULARY_BPE_LEARN_H
#define MNEM_SRC_TEXT_VOCABULARY_BPE_LEARN_H

#include "base/error.h"

#define MNEM__LEARN_TAG "vocabulary"

/* Bytes taken while learning. */
typedef struct mnem__learn_memory {
    uint64_t live, peak, max;
} mnem__learn_memory;
/* Resizes *block from `had` to `room` elements (0: frees it). MNEM_OVER_BUDGET: past max. */
mnem_status mnem__learn_resize(mnem__learn_memory *memory, void **block, uint64_t had,
                               uint64_t room, size_t size);

/* ---- bpe_words.c ---- */

typedef struct mnem__word {
    uint64_t count;
    uint32_t at, length;
} mnem__word;

typedef struct mnem__words {
    mnem__learn_memory *memory;
    char *text;
    mnem__word *word;
    uint32_t *slots; /* open addressing: index + 1; 0: empty */
    uint32_t text_bytes, text_room, count, room, slot_count;
    uint32_t text_max; /* the rarest words are dropped at a quarter as many words, or at this */
    uint64_t total, dropped; /* words of the text; of those, dropped */
} mnem__words;

mnem_status mnem__words_init(mnem__words *words, mnem__learn_memory *memory);
void mnem__words_fini(mnem__words *words); /* zeroed ones are fine */
mnem_status mnem__words_add(mnem__words *words, const char *bytes, size_t n);
/* Frees the memory that only adding needs; accepts zeros. */
void mnem__words_seal(mnem__words *words);

/* ---- bpe_learn.c ---- */

typedef struct mnem__merge {
    int32_t left, right; /* ids: bytes, then 256 + index of a merge */
    uint32_t at, length; /* of the merged token's bytes in the text of the words */
} mnem__merge;

/* Learns up to `wanted` merges; *count: their number. */
mnem_status mnem__bpe_learn(const mnem__words *words, uint32_t wanted, mnem__merge *merges,
                            uint32_t *count, const mnem_progress *progress);

#endif
