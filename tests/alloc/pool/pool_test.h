/* pool_test.h: what the tests of the pool share. */
#ifndef MNEM_TESTS_ALLOC_POOL_POOL_TEST_H
#define MNEM_TESTS_ALLOC_POOL_POOL_TEST_H

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/pool.h"

static inline mnem_device *device_open(const char *name, uint64_t capacity) {
    mnem_device *device;
    mnem_device_options options = {.capacity_bytes = capacity};
    if (!strcmp(name, "null")) options.granularity = 4096;
    must(mnem_device_open(name, &options, &device));
    return device;
}

static inline mnem_pool *pool_make(mnem_pool_options options) {
    mnem_pool *pool;
    must(mnem_pool_create(&options, &pool));
    return pool;
}

static inline mnem_pool_info info_of(mnem_pool *pool) {
    mnem_pool_info info;
    mnem_pool_info_get(pool, &info);
    return info;
}

static inline mnem_pool_block take(mnem_pool *pool, uint64_t bytes, mnem_stream *stream) {
    mnem_pool_block block = {0};
    must(mnem_pool_alloc(
        pool, &(mnem_pool_request){.bytes = bytes, .tag = "test", .stream = stream}, &block));
    return block;
}

static inline void give(mnem_pool *pool, mnem_pool_block *block, mnem_stream *stream) {
    must(mnem_pool_free(pool, block, stream));
}

/* The pool and then its device go; nothing may be live. */
static inline void pool_end(mnem_pool *pool, mnem_device *device) {
    must(mnem_pool_check(pool));
    must(mnem_pool_destroy(pool));
    must(mnem_device_close(device));
}

static inline uint32_t random_next(uint32_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

#endif
