/* sections.h: buffers with lifetimes, seen as intervals over the largest sets alive together. */
#ifndef MNEM_SRC_PLAN_SECTIONS_H
#define MNEM_SRC_PLAN_SECTIONS_H

#include "mnem/plan.h"

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
    int32_t *starts, *begin, *members;
} mnem__sections;

/* MNEM_NO_MEMORY; MNEM_UNSUPPORTED when the sections would have more than members_max members (a
 * bound on time and memory: dense instances have n^2 / 2). */
mnem_status mnem__sections_create(const mnem_plan_buffer *buffers, size_t n, size_t members_max,
                                  mnem__sections *sections);
void mnem__sections_destroy(mnem__sections *sections);

/* The largest sum of sizes alive at one time. */
int64_t mnem__sections_bound(const mnem__sections *sections);

#endif
