/* fail_point.h: makes the n-th call fail, for tests of error handling. */
#ifndef MNEM_SRC_BASE_FAIL_POINT_H
#define MNEM_SRC_BASE_FAIL_POINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mnem__fail_point {
    _Atomic uint64_t left; /* calls until the failing one; 0: off */
    atomic_bool sticky;    /* later calls fail too */
} mnem__fail_point;

static inline void mnem__fail_point_set(mnem__fail_point *point, uint64_t n, bool sticky) {
    atomic_store(&point->sticky, sticky);
    atomic_store(&point->left, n);
}

/* Counts one call; true if it must fail. */
static inline bool mnem__fail_point_hit(mnem__fail_point *point) {
    uint64_t left = atomic_load_explicit(&point->left, memory_order_relaxed);
    while (left) {
        uint64_t next = left == 1 && atomic_load(&point->sticky) ? 1 : left - 1;
        if (atomic_compare_exchange_weak(&point->left, &left, next)) return left == 1;
    }
    return false;
}

#endif
