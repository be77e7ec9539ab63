/* clique_load.h: the bytes that what is alive at one time needs, alignment counted. */
#ifndef MNEM_SRC_PLACE_GREEDY_CLIQUE_LOAD_H
#define MNEM_SRC_PLACE_GREEDY_CLIQUE_LOAD_H

#include "mnem/place.h"

/* Each buffer but the highest ends below an aligned offset, so it takes its bytes rounded up; the
 * highest doesn't, and that may be the one with the most to round. Rounding is by the least
 * alignment of all. */
typedef struct mnem__load {
    int64_t alignment, unit; /* slacks are counted in classes this wide */
    int64_t plain, rounded;  /* sums */
    uint64_t slots;          /* a bit for each class that isn't empty */
    uint32_t count[64];
} mnem__load;

/* Nothing alive. The sizes' sum must fit int64_t; where the rounded ones' wouldn't, nothing is
 * rounded. O(n) time. */
void mnem__load_init(mnem__load *load, const mnem_place_buffer *buffers, size_t n);
void mnem__load_clear(mnem__load *load);
/* A buffer begins to live, or ends. */
void mnem__load_add(mnem__load *load, int64_t bytes);
void mnem__load_take(mnem__load *load, int64_t bytes);
/* No placement of what is alive takes less; if all have one alignment, up to 64, some placement
 * takes just this. O(1). */
int64_t mnem__load_need(const mnem__load *load);

#endif
