/* gaps.h: copies elements with gaps between them to contiguous memory, and back. */
#ifndef MNEM_SRC_OPS_CORE_GAPS_H
#define MNEM_SRC_OPS_CORE_GAPS_H

#include <stdint.h>

/* n elements of unit bytes (1, 2, 4 or 8), step bytes from one to the next: 0 repeats one. */
void mnem__gather(int64_t unit, int64_t n, const char *from, int64_t step, void *to);
void mnem__scatter(int64_t unit, int64_t n, const void *from, char *to, int64_t step);

#endif
