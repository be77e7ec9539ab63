/* op_key.h: a descriptor as words: equal descriptors have equal words, regardless of the padding of
 * their structs. */
#ifndef MNEM_SRC_OPS_QUEUE_OP_KEY_H
#define MNEM_SRC_OPS_QUEUE_OP_KEY_H

#include "mnem/ops.h"

enum { MNEM__OP_KEY_WORDS = 168 };

typedef struct mnem__op_key_words {
    uint64_t hash;
    uint32_t count;
    uint64_t word[MNEM__OP_KEY_WORDS];
} mnem__op_key_words;

void mnem__op_key_make(const mnem_op_desc *desc, mnem__op_key_words *key);
bool mnem__op_key_equal(const mnem__op_key_words *a, const mnem__op_key_words *b);

#endif
