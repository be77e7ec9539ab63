/* skyline_greedy.h: a placement made in one go, for instances of any size. */
#ifndef MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H
#define MNEM_SRC_PLACE_GREEDY_SKYLINE_GREEDY_H

#include "place/greedy/cliques.h"

typedef struct mnem__valley mnem__valley;

/* Takes about 80 bytes per item. Keeps sections, which the caller owns; their members aren't
 * used. */
mnem_status mnem__valley_create(const mnem__sections *sections, mnem__valley **valley);
void mnem__valley_destroy(mnem__valley *valley);

/* Places every item; rank[items] orders them, each number once, the largest goes first where
 * several fit. offsets: [items] out. Returns the peak, INT64_MAX when offsets overflow. */
int64_t mnem__valley_place(mnem__valley *valley, const uint32_t *rank, int64_t *offsets);

#endif
