/* pickle_values.h: the store of a pickle's values, which workload_pickle.c fills and
 * pickle_values.c reads. */
#ifndef MNEM_SRC_REPLAY_PICKLE_VALUES_H
#define MNEM_SRC_REPLAY_PICKLE_VALUES_H

#include "base/heap.h"
#include "replay/workload_pickle.h"

typedef struct mnem__container {
    uint64_t first, last; /* indices of chunks; MNEM__NOWHERE: none */
} mnem__container;
#define MNEM__NOWHERE UINT64_MAX

struct mnem__pickle {
    mnem__input *in;        /* set while reading */
    uint64_t op_at;         /* offset of the current opcode in the file */
    uint64_t opcodes;       /* opcodes executed so far */
    mnem__array cells;      /* uint64_t */
    mnem__array containers; /* container */
    mnem__array large;      /* int64_t, or the bits of a double */
    mnem__array text;       /* char: length (4 bytes), bytes, ... */
    mnem__array stack;      /* mnem__value */
    mnem__array marks;      /* size_t: depths of the stack */
    mnem__array memo;       /* mnem__value */
    uint64_t memoized;
    mnem__value top;
    bool stopped;
};

static inline mnem__value mnem__value_make(mnem__value_tag value_tag, uint64_t number) {
    return number << 4 | (uint64_t)value_tag;
}

static inline uint64_t mnem__value_index(mnem__value v) {
    return v >> 4;
}

/* Returns the word with these n bytes; NONE: they are no word. */
mnem__word mnem__word_of(const uint8_t *bytes, size_t n);

#endif
