/* pool_debug_case.c: a pool in debug mode for tests, and the misuse that it reported. */
#include "alloc/pool/pool_debug_case.h"

#include <string.h>

#include "kit/kit.h"

void on_misuse(void *context, const mnem_misuse *misuse) {
    fixture *f = context;
    f->told++;
    f->last = *misuse;
}

void fixture_open(fixture *f, const char *device, const mnem_pool_options *options) {
    *f = (fixture){0};
    must(mnem_device_open(device, NULL, &f->device));
    mnem_pool_options o = *options;
    o.device = f->device;
    o.on_misuse = on_misuse;
    o.context = f;
    if (!o.bytes_max) o.bytes_max = 64 * MIB;
    must(mnem_pool_create(&o, &f->pool));
}

void fixture_close(fixture *f) {
    must(mnem_pool_destroy(f->pool));
    must(mnem_device_close(f->device));
}

const mnem_pool_options plain = {0}, debug = {.debug = true},
                        debug_range = {.debug = true, .growth = MNEM_POOL_RANGE};

uint8_t *bytes_of(const mnem_pool_block *block) {
    return mnem_block_host(&block->memory);
}

unsigned misuses(mnem_pool *pool) {
    mnem_misuse m;
    unsigned n = 0;
    while (mnem_pool_misuse_get(pool, n, &m)) n++;
    return n;
}

void says(const char *text) {
    if (!strstr(mnem_last_error(), text)) fail_msg("\"%s\" isn't in: %s", text, mnem_last_error());
}
