/* cliques.h: buffers with lifetimes, seen as intervals over the largest sets alive together. */
#ifndef MNEM_SRC_PLACE_GREEDY_CLIQUES_H
#define MNEM_SRC_PLACE_GREEDY_CLIQUES_H

#include "mnem/place.h"

/* What holds for every instance (the statuses of mnem_place_greedy); clears *result and sums up. */
mnem_status mnem__place_check(const mnem_place_buffer *buffers, size_t n,
                              mnem_place_result *result);

/* When each buffer lives: pieces[begin[i]] to [begin[i + 1] - 1], in order, apart, within [lower,
 * upper) of the buffer. */
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

/* One buffer: it lives in the cliques [first, end), or where it has gaps in some of them. */
typedef struct mnem__item {
    int64_t bytes, alignment;
    int32_t first, end;
    int32_t source;      /* its index in the caller's array */
    int32_t twin;        /* the item before it with the same cliques, size and alignment; or -1 */
    int32_t span, spans; /* it lives in these of the table; 0: in all of [first, end) */
} mnem__item;

/* Items in the order of their first clique; those without bytes are left out.
 * Clique s holds members[begin[s] .. begin[s + 1]); the items that start in it are
 * [starts[s], starts[s + 1]). */
typedef struct mnem__cliques {
    int32_t item_count, count;
    mnem__item *items;
    int32_t *starts;
    int32_t *begin, *members; /* NULL when they would be too many */
    mnem__span *spans;        /* NULL: nothing has gaps */
    /* Where something has gaps and members are listed: item i shares a clique with the items
     * near[near_begin[i] .. near_begin[i + 1]). */
    int32_t *near_begin, *near;
    int64_t bound; /* the most that what is alive at one time needs (clique_load.h) */
} mnem__cliques;

/* lives: NULL when nothing has gaps. The sizes' sum must fit int64_t. Up to members_max members
 * and neighbours are listed (dense instances have n^2 / 2). MNEM_NO_MEMORY. */
mnem_status mnem__cliques_create(const mnem_place_buffer *buffers, const mnem__lives *lives,
                                 size_t n, size_t members_max, mnem__cliques *cliques);
void mnem__cliques_destroy(mnem__cliques *cliques);

/* The spans of an item, one or more. */
static inline int32_t mnem__spans_of(const mnem__item *item) {
    return item->spans ? item->spans : 1;
}
static inline mnem__span mnem__span_get(const mnem__cliques *s, const mnem__item *item, int32_t i) {
    return item->spans ? s->spans[item->span + i] : (mnem__span){item->first, item->end};
}

#endif
