/* skyline_dive.h: one dive of the exact search for a placement within a capacity. */
#ifndef MNEM_SRC_PLACE_EXACT_SKYLINE_DIVE_H
#define MNEM_SRC_PLACE_EXACT_SKYLINE_DIVE_H

#include "place/exact/search_limits.h"
#include "place/greedy/cliques.h"

/* Which valley is filled next. */
typedef enum mnem__valley_rule {
    MNEM__VALLEY_FEWEST,  /* the clique with the fewest choices, then the least slack */
    MNEM__VALLEY_NEAREST, /* the fewest choices, then nearest to the last one */
    MNEM__VALLEY_LOWEST,  /* the lowest, then the fewest choices */
    MNEM__VALLEY_RULES
} mnem__valley_rule;

typedef enum mnem__dive_end {
    MNEM__DIVE_FOUND,
    MNEM__DIVE_EXHAUSTED, /* there is no placement within the capacity: a proof */
    MNEM__DIVE_LIMIT,     /* failures are used up, or it is late */
    MNEM__DIVE_NO_MEMORY,
} mnem__dive_end;

typedef struct mnem__skyline mnem__skyline;

/* Keeps cliques, which the caller owns. */
mnem_status mnem__skyline_create(const mnem__cliques *cliques, mnem__skyline **skyline);
void mnem__skyline_destroy(mnem__skyline *skyline);

typedef struct mnem__dive {
    int64_t capacity;
    int32_t from, to; /* the cliques to place; nothing crosses their ends */
    mnem__valley_rule rule;
    const double *priority; /* [items]: candidates are tried from the largest */
    uint64_t failures_max;
    mnem__search_limits *limits;
    uint64_t nodes; /* out: decisions, added to */
} mnem__dive;

/* Starts from nothing placed in [from, to). */
mnem__dive_end mnem__skyline_dive(mnem__skyline *skyline, mnem__dive *dive);

/* [items]: where the last dive that found a placement put them. */
const int64_t *mnem__skyline_offsets(const mnem__skyline *skyline);
/* [items]: how often an item was part of a failure; the caller may lower them. */
double *mnem__skyline_blame(mnem__skyline *skyline);

#endif
