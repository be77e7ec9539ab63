/* skyline_dive.h: one dive of the exact search for a placement within a capacity. */
#ifndef MNEM_SRC_PLACE_EXACT_SKYLINE_DIVE_H
#define MNEM_SRC_PLACE_EXACT_SKYLINE_DIVE_H

#include "place/exact/search_limits.h"
#include "place/greedy/cliques.h"

/* The rule that chooses the next valley to fill. */
typedef enum mnem__valley_rule {
    MNEM__VALLEY_FEWEST,  /* the clique with the fewest choices, then the least slack */
    MNEM__VALLEY_NEAREST, /* the fewest choices, then nearest to the last one */
    MNEM__VALLEY_LOWEST,  /* the lowest, then the fewest choices */
    MNEM__VALLEY_RULES
} mnem__valley_rule;

typedef enum mnem__dive_end {
    MNEM__DIVE_FOUND,
    MNEM__DIVE_EXHAUSTED, /* proved: there is no placement within the capacity */
    MNEM__DIVE_LIMIT,     /* the failure limit or a search limit is reached */
    MNEM__DIVE_NO_MEMORY,
} mnem__dive_end;

typedef struct mnem__skyline mnem__skyline;

/* Borrows cliques. */
mnem_status mnem__skyline_create(const mnem__cliques *cliques, mnem__skyline **skyline);
void mnem__skyline_destroy(mnem__skyline *skyline);

typedef struct mnem__dive {
    int64_t capacity;
    int32_t from, to; /* the cliques to place; no item crosses the ends of this range */
    mnem__valley_rule rule;
    const double *priority; /* [items]: candidates are tried in descending order */
    uint64_t failures_max;
    mnem__search_limits *limits;
    uint64_t nodes; /* in, out: the number of decisions is added */
} mnem__dive;

/* Starts with no item of [from, to) placed. */
mnem__dive_end mnem__skyline_dive(mnem__skyline *skyline, mnem__dive *dive);

/* [items]: offsets of the last dive that found a placement. */
const int64_t *mnem__skyline_offsets(const mnem__skyline *skyline);
/* [items]: how often an item took part in a failure; the caller may lower these numbers. */
double *mnem__skyline_blame(mnem__skyline *skyline);

#endif
