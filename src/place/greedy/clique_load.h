/* clique_load.h: the bytes that buffers alive at the same time need, including alignment. */
#ifndef MNEM_SRC_PLACE_GREEDY_CLIQUE_LOAD_H
#define MNEM_SRC_PLACE_GREEDY_CLIQUE_LOAD_H

#include "mnem/place.h"

/* Above each buffer except the highest lies an aligned offset, so it needs its size rounded up. The
 * highest isn't rounded, and may be the one that rounding would enlarge most. Sizes are rounded to
 * the smallest alignment of all buffers. */
typedef struct mnem__load {
    int64_t alignment, unit; /* unit: width of a class in which slacks are counted */
    int64_t plain, rounded;  /* sums of sizes */
    uint64_t slots;          /* a bit for each non-empty class */
    uint32_t count[64];
} mnem__load;

/* Starts with no buffer alive. The sum of sizes must fit int64_t; if the sum of rounded sizes
 * doesn't, sizes aren't rounded. O(n) time. */
void mnem__load_init(mnem__load *load, const mnem_place_buffer *buffers, size_t n);
void mnem__load_clear(mnem__load *load);
/* Adds or removes a live buffer. */
void mnem__load_add(mnem__load *load, int64_t bytes);
void mnem__load_take(mnem__load *load, int64_t bytes);
/* A lower bound of the bytes that live buffers need; exact if all have the same alignment of at
 * most 64. O(1). */
int64_t mnem__load_need(const mnem__load *load);

#endif
