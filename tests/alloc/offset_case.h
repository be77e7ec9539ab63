/* offset_case.h: calls of an offset allocator that must do, for tests. */
#ifndef MNEM_TESTS_ALLOC_OFFSET_CASE_H
#define MNEM_TESTS_ALLOC_OFFSET_CASE_H

#include "kit/kit.h"
#include "mnem/offset.h"

enum { UNIT = 256 };

static inline mnem_offset_allocator *make(mnem_offset_policy policy, uint64_t bytes) {
    mnem_offset_allocator *a;
    must(mnem_offset_create(&(mnem_offset_options){.policy = policy, .bytes = bytes}, &a));
    return a;
}

static inline mnem_offset_info info_of(const mnem_offset_allocator *a) {
    mnem_offset_info info;
    mnem_offset_info_get(a, &info);
    return info;
}

/* A block that must fit. */
static inline mnem_offset_block take(mnem_offset_allocator *a, uint64_t bytes) {
    mnem_offset_block b;
    must(mnem_offset_alloc(a, bytes, &b));
    return b;
}

#endif
