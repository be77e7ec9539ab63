/* cliques.h: buffers with lifetimes, as intervals over cliques: the maximal sets of buffers that
 * are alive at the same time. */
#ifndef MNEM_SRC_PLACE_GREEDY_CLIQUES_H
#define MNEM_SRC_PLACE_GREEDY_CLIQUES_H

#include "mnem/place.h"

/* Checks an instance (the statuses of mnem_place_greedy); clears *result and fills in its sums. */
mnem_status mnem__place_check(const mnem_place_buffer *buffers, size_t n,
                              mnem_place_result *result);

/* The times at which buffer i is alive: pieces[begin[i]] to [begin[i + 1] - 1], ascending,
 * disjoint, inside its [lower, upper). */
typedef struct mnem__life {
    int64_t lower, upper;
} mnem__life;
typedef struct mnem__lives {
    const mnem__life *pieces;
    const uint32_t *begin; /* [buffers + 1] */
} mnem__lives;

typedef struct mnem__span { /* cliques [from, to) */
    int32_t from, to;
} mnem__span;

/* One buffer: it is alive in the cliques [first, end), or, with gaps, in some of them. */
typedef struct mnem__item {
    int64_t bytes, alignment;
    int32_t first, end;
    int32_t source;      /* its index in the caller's array */
    int32_t twin;        /* an earlier item with the same cliques, size and alignment; or -1 */
    int32_t span, spans; /* its spans in the table; spans 0: alive in all of [first, end) */
} mnem__item;

/* Items in the order of their first clique, without those of 0 bytes.
 * Clique s holds members[begin[s] .. begin[s + 1]); the items that start in it are
 * [starts[s], starts[s + 1]). */
typedef struct mnem__cliques {
    int32_t item_count, count;
    mnem__item *items;
    int32_t *starts;
    int32_t *begin, *members; /* NULL: there would be too many members */
    mnem__span *spans;        /* NULL: no item has gaps */
    /* If an item has gaps and members are listed: item i shares a clique with the items
     * near[near_begin[i] .. near_begin[i + 1]). */
    int32_t *near_begin, *near;
    int64_t bound; /* the most bytes that live buffers need at one time (clique_load.h) */
} mnem__cliques;

/* lives: NULL: no gaps. The sum of sizes must fit int64_t. At most members_max members and
 * neighbours are listed (dense instances have n^2 / 2). MNEM_NO_MEMORY. */
mnem_status mnem__cliques_create(const mnem_place_buffer *buffers, const mnem__lives *lives,
                                 size_t n, size_t members_max, mnem__cliques *cliques);
void mnem__cliques_destroy(mnem__cliques *cliques);

/* The number of an item's spans, at least 1. */
static inline int32_t mnem__spans_of(const mnem__item *item) {
    return item->spans ? item->spans : 1;
}
static inline mnem__span mnem__span_get(const mnem__cliques *s, const mnem__item *item, int32_t i) {
    return item->spans ? s->spans[item->span + i] : (mnem__span){item->first, item->end};
}

#endif
