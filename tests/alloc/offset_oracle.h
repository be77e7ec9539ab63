/* offset_oracle.h: what an offset allocator must agree with, after every call.
 *
 * The oracle is a map of the range, one owner per unit of the alignment: it knows what overlaps,
 * what is free, and the largest gap, and shares nothing with the allocators. */
#ifndef MNEM_TESTS_ALLOC_OFFSET_ORACLE_H
#define MNEM_TESTS_ALLOC_OFFSET_ORACLE_H

#include <stdlib.h>
#include <string.h>

#include "alloc/offset_case.h"
#include "kit/kit_random.h"

/* Whether an allocation can have every free run (all but buddy and bump), so that what a gap holds
 * is never refused. */
static inline bool exact(mnem_offset_policy policy) {
    return policy != MNEM_OFFSET_BUDDY && policy != MNEM_OFFSET_BUMP;
}

typedef struct live {
    uint64_t offset, bytes; /* as rounded */
    uint32_t handle;
} live;

typedef struct oracle {
    mnem_offset_allocator *a;
    mnem_offset_policy policy;
    uint64_t units, bytes_live;
    uint8_t *owned; /* [units] */
    live *blocks;   /* [units] of which count are live */
    uint32_t count;
} oracle;

static inline oracle oracle_make(mnem_offset_policy policy, uint64_t units) {
    oracle o = {.a = make(policy, units * UNIT), .policy = policy, .units = units};
    o.owned = calloc(units, 1);
    o.blocks = calloc(units, sizeof *o.blocks);
    assert_true(o.owned && o.blocks);
    return o;
}

static inline void oracle_free(oracle *o) {
    mnem_offset_destroy(o->a);
    free(o->owned);
    free(o->blocks);
}

static inline void oracle_gaps(const oracle *o, uint64_t *largest, uint32_t *count) {
    uint64_t run = 0;
    *largest = *count = 0;
    for (uint64_t i = 0; i < o->units; i++) {
        run = o->owned[i] ? 0 : run + 1;
        if (run == 1) ++*count;
        if (run > *largest) *largest = run;
    }
    *largest *= UNIT;
}

static inline void oracle_add(oracle *o, uint64_t asked, mnem_offset_block b) {
    const uint64_t bytes = mnem_offset_block_bytes(o->a, b.handle);
    assert_true(bytes >= asked && b.offset % UNIT == 0 && bytes % UNIT == 0);
    assert_true(b.offset < o->units * UNIT && bytes <= o->units * UNIT - b.offset);
    if (exact(o->policy) && o->policy != MNEM_OFFSET_BUCKET) assert_true(bytes < asked + UNIT);
    uint8_t *owned = o->owned + b.offset / UNIT;
    if (memchr(owned, 1, bytes / UNIT))
        fail_msg("%llu bytes at %llu overlap a live block", (unsigned long long)bytes,
                 (unsigned long long)b.offset);
    memset(owned, 1, bytes / UNIT);
    o->blocks[o->count++] = (live){b.offset, bytes, b.handle};
    o->bytes_live += bytes;
}

static inline void oracle_drop(oracle *o, uint32_t i) {
    const live block = o->blocks[i];
    assert_int_equal(mnem_offset_block_bytes(o->a, block.handle), block.bytes);
    mnem_offset_free(o->a, block.handle);
    memset(o->owned + block.offset / UNIT, 0, block.bytes / UNIT);
    o->bytes_live -= block.bytes;
    o->blocks[i] = o->blocks[--o->count];
}

/* What the allocator says of itself, what its structure is, and what the map shows. */
static inline void oracle_check(const oracle *o) {
    const mnem_offset_info info = info_of(o->a);
    uint64_t largest;
    uint32_t gaps;
    must(mnem_offset_check(o->a));
    oracle_gaps(o, &largest, &gaps);
    assert_int_equal(info.bytes, o->units * UNIT);
    assert_int_equal(info.bytes_live, o->bytes_live);
    assert_int_equal(info.blocks_live, o->count);
    if (exact(o->policy)) {
        assert_int_equal(info.bytes_largest_free, largest);
        assert_int_equal(info.runs_free, gaps);
    } else {
        assert_true(info.bytes_largest_free <= largest);
    }
}

/* One random call. check: the outcome is compared with what the allocator said before. */
static inline void oracle_step(oracle *o, uint64_t fill, uint64_t size_max, bool check) {
    const bool below = o->bytes_live < fill;
    if (o->count && random_below(100) < (below ? 40 : 60)) {
        oracle_drop(o, (uint32_t)random_below(o->count));
        return;
    }
    const int log = 64 - __builtin_clzll(size_max);
    const uint64_t bytes = 1 + random_below(UINT64_C(1) << random_below((uint64_t)log));
    const uint64_t largest = check ? info_of(o->a).bytes_largest_free : 0;
    mnem_offset_block b;
    const mnem_status status = mnem_offset_alloc(o->a, bytes, &b);
    if (check) assert_int_equal(status, bytes <= largest ? MNEM_OK : MNEM_OVER_BUDGET);
    if (status == MNEM_OK)
        oracle_add(o, bytes, b);
    else
        assert_int_equal(status, MNEM_OVER_BUDGET);
}

#endif
