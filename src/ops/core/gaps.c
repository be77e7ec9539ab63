/* gaps.c: see gaps.h. */
#include "ops/core/gaps.h"

#include <string.h>

#define GATHER(type)                                                                               \
    {                                                                                              \
        type *out = to;                                                                            \
        for (int64_t i = 0; i < n; i++) memcpy(out + i, from + i * step, sizeof *out);             \
    }

void mnem__gather(int64_t unit, int64_t n, const char *from, int64_t step, void *to) {
    if (step == unit)
        memcpy(to, from, (size_t)(n * unit));
    else if (unit == 1)
        GATHER(uint8_t)
    else if (unit == 2)
        GATHER(uint16_t)
    else if (unit == 4)
        GATHER(uint32_t)
    else
        GATHER(uint64_t)
}

#define SCATTER(type)                                                                              \
    {                                                                                              \
        const type *in = from;                                                                     \
        for (int64_t i = 0; i < n; i++) memcpy(to + i * step, in + i, sizeof *in);                 \
    }

void mnem__scatter(int64_t unit, int64_t n, const void *from, char *to, int64_t step) {
    if (step == unit)
        memcpy(to, from, (size_t)(n * unit));
    else if (unit == 1)
        SCATTER(uint8_t)
    else if (unit == 2)
        SCATTER(uint16_t)
    else if (unit == 4)
        SCATTER(uint32_t)
    else
        SCATTER(uint64_t)
}
