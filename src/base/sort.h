/* sort.h: sorts indices in place, in O(n log n) for every input, without allocation. */
#ifndef MNEM_SRC_BASE_SORT_H
#define MNEM_SRC_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool mnem__sort_less(const void *context, uint32_t a, uint32_t b);

/* Sorts index[n] by less. Not stable: less should compare the indices last. */
void mnem__sort(uint32_t *index, size_t n, mnem__sort_less *less, const void *context);

#endif
