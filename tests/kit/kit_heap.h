/* kit_heap.h: the same call again and again, one allocation later failing each time, until none
 * does. What a failing call leaves behind is found.
 *
 *     heap_sweep sweep = {.most = 100};
 *     mnem_status status;
 *     do {
 *         heap_sweep_begin(&sweep, false);
 *         status = call();
 *     } while (heap_sweep_next(&sweep, status)); */
#ifndef MNEM_TESTS_KIT_KIT_HEAP_H
#define MNEM_TESTS_KIT_KIT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "mnem/base.h"

typedef struct heap_sweep {
    uint64_t most; /* more allocations than this are none that end */
    uint64_t nth;  /* which one fails */
    uint64_t bytes_live;
} heap_sweep;

/* From here on the next allocation but nth - 1 fails; sticky: those behind it too. */
void heap_sweep_begin(heap_sweep *sweep, bool sticky);
/* Nothing fails any more. Asserts that as much is live as at the beginning, and that the status is
 * MNEM_OK, which ends it (false), or MNEM_NO_MEMORY. */
bool heap_sweep_next(heap_sweep *sweep, mnem_status status);

#endif
