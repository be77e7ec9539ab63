/* sort.c: heap sort (Williams, 1964) of indices.
 *
 * Chosen because it takes no memory (glibc's qsort may) and no input, hostile or not, makes it
 * slow. */
#include "base/sort.h"

static void sift(uint32_t *index, size_t root, size_t n, mnem__sort_less *less,
                 const void *context) {
    const uint32_t value = index[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && less(context, index[child], index[child + 1])) child++;
        if (!less(context, value, index[child])) break;
        index[root] = index[child];
    }
    index[root] = value;
}

void mnem__sort(uint32_t *index, size_t n, mnem__sort_less *less, const void *context) {
    for (size_t i = n / 2; i-- > 0;) sift(index, i, n, less, context);
    for (size_t end = n; end-- > 1;) {
        const uint32_t last = index[0];
        index[0] = index[end];
        index[end] = last;
        sift(index, 0, end, less, context);
    }
}
