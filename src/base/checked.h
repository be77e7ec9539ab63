/* checked.h: arithmetic on untrusted sizes; functions return false on overflow. */
#ifndef MNEM_SRC_BASE_CHECKED_H
#define MNEM_SRC_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool mnem__add_u64(uint64_t a, uint64_t b, uint64_t *sum) {
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool mnem__mul_u64(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

/* Rounds n up to a multiple of alignment, a power of two. */
static inline bool mnem__align_u64(uint64_t n, uint64_t alignment, uint64_t *aligned) {
    if (!mnem__add_u64(n, alignment - 1, aligned)) return false;
    *aligned &= ~(alignment - 1);
    return true;
}

/* The same for numbers that are known to be small. */
static inline uint64_t mnem__align_up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) & ~(alignment - 1);
}

static inline uint64_t mnem__div_up(uint64_t n, uint64_t d) {
    return n / d + (n % d != 0);
}

#endif
