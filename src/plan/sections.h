/* sections.h: buffers with lifetimes, seen as intervals over the largest sets alive together. */
#ifndef MNEM_SRC_PLAN_SECTIONS_H
#define MNEM_SRC_PLAN_SECTIONS_H

#include "mnem/plan.h"

/* What holds for every instance (the statuses of mnem_plan_place); clears *result and sums up. */
mnem_status mnem__plan_check(const mnem_plan_buffer *buffers, size_t n, mnem_plan_result *result);

/* One buffer: sections [first, end) are those that it lives in. */
typedef struct mnem__item {
    int64_t bytes, alignment;
    int32_t first, end;
    int32_t source; /* its index in the caller's array */
    int32_t twin;   /* the item before it with the same sections, size and alignment; or -1 */
} mnem__item;

/* Items in the order of their first section; those without bytes are left out.
 * Section s holds members[begin[s] .. begin[s + 1]); the items that start in it are
 * [starts[s], starts[s + 1]). */
typedef struct mnem__sections {
    int32_t item_count, count;
    mnem__item *items;
    int32_t *starts;
    int32_t *begin, *members; /* NULL when they would be too many */
    int64_t bound;            /* the largest sum of sizes alive at one time */
} mnem__sections;

/* The sizes' sum must fit int64_t. Up to members_max members are listed (dense instances have
 * n^2 / 2). MNEM_NO_MEMORY. */
mnem_status mnem__sections_create(const mnem_plan_buffer *buffers, size_t n, size_t members_max,
                                  mnem__sections *sections);
void mnem__sections_destroy(mnem__sections *sections);

#endif
