/* pool_subject_pool.c: mnem's pool as bench_pool measures it: the allocator with all around it.
 *
 * The device is `null`, so that no memory is touched and a map costs nothing but its bookkeeping;
 * every block has the same kind and tag, and everything happens on the default stream. */
#include <stdlib.h>

#include "mnem/mnem.h"
#include "pool_loop.h"

INLINE bool pool_take(subject *s, uint64_t bytes, uint64_t *slot) {
    mnem_pool_block *b = (mnem_pool_block *)s->blocks + (slot - s->slots);
    const mnem_pool_request request = {
        .bytes = bytes, .kind = MNEM_KIND_ACTIVATION, .tag = "bench"};
    return mnem_pool_alloc(s->allocator, &request, b) == MNEM_OK;
}

INLINE void pool_give(subject *s, uint64_t *slot) {
    mnem_pool_free(s->allocator, (mnem_pool_block *)s->blocks + (slot - s->slots), NULL);
}

static size_t pool_run(subject *s, const bench_trace *t, uint64_t *slots) {
    s->slots = slots;
    return loop(s, t, slots, pool_take, pool_give);
}

static size_t pool_run_timed(subject *s, const bench_trace *t, uint64_t *slots, uint32_t *ticks) {
    s->slots = slots;
    return loop_timed(s, t, slots, ticks, pool_take, pool_give);
}

static bool pool_open(subject *s, uint64_t bytes, uint32_t blocks_max) {
    mnem_device_options device = {.capacity_bytes = UINT64_C(1) << 44};
    mnem_pool_options o = {.growth = (mnem_pool_growth)s->growth, .bytes_max = bytes};
    mnem_pool *pool;
    if (s->at_once) o.bytes_expected = bytes;
    if (mnem_device_open("null", &device, &o.device) != MNEM_OK) return false;
    s->device = o.device;
    s->blocks = calloc(blocks_max + 1, sizeof(mnem_pool_block));
    if (!s->blocks || mnem_pool_create(&o, &pool) != MNEM_OK) {
        free(s->blocks);
        mnem_device_close(s->device);
        return false;
    }
    s->allocator = pool;
    return true;
}

static void pool_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    mnem_pool_info info;
    (void)t, (void)slots;
    mnem_pool_info_get(s->allocator, &info);
    s->device_calls = info.device_calls;
    s->bytes_remapped = info.bytes_remapped;
    s->bytes_reserved = info.bytes_reserved_peak;
    mnem_pool_destroy_forced(s->allocator);
    mnem_device_close(s->device);
    free(s->blocks);
}

bool subject_pool(subject *s, const char *name) {
    subject_init(s, name);
    s->growth = name[4] ? MNEM_POOL_RANGE : MNEM_POOL_SEGMENTS;
    s->has_capacity = true;
    s->open = pool_open;
    s->close = pool_close;
    s->run = pool_run;
    s->run_timed = pool_run_timed;
    return true;
}

static bool range_replay(const bench_trace *t, uint64_t *slots, uint64_t bytes, bool at_once,
                         subject *s, uint64_t *ns) {
    subject_pool(s, "pool-range");
    s->at_once = at_once;
    if (!s->open(s, bytes, t->slots)) return false;
    const uint64_t start = now_ns();
    const bool done = s->run(s, t, slots) == t->count;
    *ns = now_ns() - start;
    s->close(s, t, slots);
    return done;
}

bool pool_range_measure(const bench_trace *t, uint64_t *slots, uint64_t bytes, range_report *r) {
    subject s;
    uint64_t ns;
    *r = (range_report){.capacity = (double)bytes / (double)t->bytes_peak};
    if (range_replay(t, slots, bytes, true, &s, &ns)) r->calls_at_once = s.device_calls;
    if (!range_replay(t, slots, bytes, false, &s, &ns)) return false;
    r->mean = (double)ns / (double)t->count;
    r->calls = s.device_calls;
    r->remapped = (double)s.bytes_remapped / (double)t->bytes_peak;
    r->reserved = (double)s.bytes_reserved / (double)t->bytes_peak;
    return true;
}
