/* pool_debug_case.h: a pool in debug mode for tests, and the misuse that it reported. */
#ifndef MNEM_TESTS_ALLOC_POOL_POOL_DEBUG_CASE_H
#define MNEM_TESTS_ALLOC_POOL_POOL_DEBUG_CASE_H

#include "kit/kit.h"
#include "mnem/pool.h"

typedef struct fixture {
    mnem_device *device;
    mnem_pool *pool;
    unsigned told;
    mnem_misuse last;
} fixture;

/* A handler for options.on_misuse; its context is a fixture. */
void on_misuse(void *context, const mnem_misuse *misuse);

/* On a device of that name; options' device and listener are filled in. */
void fixture_open(fixture *f, const char *device, const mnem_pool_options *options);
void fixture_close(fixture *f);

extern const mnem_pool_options plain, debug, debug_range;

/* Blocks of weights "embed", taken at the line of the call. */
#define TAKE(f, size, s, block)                                                                    \
    must(mnem_pool_alloc_from(                                                                     \
        (f)->pool, "model.c", __LINE__,                                                            \
        &(mnem_pool_request){                                                                      \
            .bytes = (size), .kind = MNEM_KIND_WEIGHTS, .tag = "embed", .stream = (s)},            \
        (block)))

uint8_t *bytes_of(const mnem_pool_block *block);
/* How many the pool keeps. */
unsigned misuses(mnem_pool *pool);
/* The last error contains a text. */
void says(const char *text);

#endif
