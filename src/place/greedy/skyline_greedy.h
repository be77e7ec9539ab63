/* skyline_greedy.h: a greedy placement in one pass, for instances of any size. */
#ifndef MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H
#define MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H

#include "place/greedy/cliques.h"

typedef struct mnem__skyline_greedy mnem__skyline_greedy;

/* Allocates about 80 bytes per item. Borrows cliques, and doesn't use their members. */
mnem_status mnem__skyline_greedy_create(const mnem__cliques *cliques,
                                        mnem__skyline_greedy **valley);
void mnem__skyline_greedy_destroy(mnem__skyline_greedy *valley);

/* Places every item. rank[items] is a permutation: of several items that fit, the one of the
 * highest rank is placed first. offsets: [items] out. Returns the peak; INT64_MAX: offsets
 * overflow. */
int64_t mnem__skyline_greedy_place(mnem__skyline_greedy *valley, const uint32_t *rank,
                                   int64_t *offsets);

#endif
