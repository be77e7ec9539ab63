/* skyline_greedy.h: a placement made in one go, for instances of any size. */
#ifndef MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H
#define MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H

#include "place/greedy/cliques.h"

typedef struct mnem__skyline_greedy mnem__skyline_greedy;

/* Takes about 80 bytes per item. Keeps cliques, which the caller owns; their members aren't
 * used. */
mnem_status mnem__skyline_greedy_create(const mnem__cliques *cliques,
                                        mnem__skyline_greedy **valley);
void mnem__skyline_greedy_destroy(mnem__skyline_greedy *valley);

/* Places every item; rank[items] orders them, each number once, the largest goes first where
 * several fit. offsets: [items] out. Returns the peak, INT64_MAX when offsets overflow. */
int64_t mnem__skyline_greedy_place(mnem__skyline_greedy *valley, const uint32_t *rank,
                                   int64_t *offsets);

#endif
