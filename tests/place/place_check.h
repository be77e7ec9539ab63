/* place_check.h: whether boxes in time and bytes overlap; shares no code with the planner. */
#ifndef MNEM_TESTS_PLACE_PLACE_CHECK_H
#define MNEM_TESTS_PLACE_PLACE_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes [bottom, top) during [lower, upper). */
typedef struct plan_box {
    int64_t lower, upper;
    uint64_t bottom, top;
} plan_box;

/* Index of a box that overlaps another, or n when none does. Empty boxes overlap nothing. Boxes are
 * sorted by bottom. O(n log n). Memory comes from malloc; SIZE_MAX without any. */
size_t plan_boxes_check(plan_box *boxes, size_t n);

#endif
