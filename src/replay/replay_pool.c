/* replay_pool.c: mnem's pool as a target: all of it, on a device without memory.
 *
 * The idea: the workload's streams are streams of the null device, so that order between them is
 * kept and the pool passes memory from one to the other by its own rules; the first one is the
 * default stream. A capacity that stays is taken at once, otherwise the pool grows by segments as
 * it does on a real device. The pool's blocks lie in a table of as many slots as blocks are live at
 * one time, so that what is timed isn't a walk over a table of all blocks.
 *
 *     block of the workload --slot_of--> slot --blocks--> block of the pool
 *
 * Invariant: spare[spare_count..] are the slots in use.
 * Cost: beside the pool's, two look-ups of 4 bytes. A hit is what the pool's first rung served. */
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "mnem/pool.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

enum {
    STREAMS_MAX = 128, /* more of them share these in turn */
    ALIGNMENT_MOST = 2 << 20,
};
#define UNIT       ((uint64_t)2 << 20)
#define BYTES_MOST ((uint64_t)1 << 46) /* of a table with a row for each unit */

typedef struct pooled {
    mnem_replay_target base;
    uint64_t alignment;
    mnem_device *device;
    mnem_pool *pool; /* NULL: the capacity is less than one unit */
    mnem_stream *streams[STREAMS_MAX];
    uint32_t stream_count;
    uint64_t first_address;
    uint32_t *slot_of;       /* [blocks] */
    mnem_pool_block *blocks; /* [slots] */
    uint32_t *spare;         /* [slots] */
    uint32_t spare_count;
} pooled;

static mnem_status pooled_alloc(mnem_replay_target *self, uint32_t block, uint64_t bytes,
                                uint32_t stream) {
    pooled *p = (pooled *)self;
    const mnem_pool_request request = {.bytes = bytes,
                                       .kind = MNEM_KIND_ACTIVATION,
                                       .tag = tag,
                                       .stream = p->streams[stream % STREAMS_MAX]};
    if (!p->pool) return MNEM_OVER_BUDGET;
    const uint32_t slot = p->spare[p->spare_count - 1];
    MNEM__TRY(mnem_pool_alloc(p->pool, &request, &p->blocks[slot]));
    p->spare_count--;
    p->slot_of[block] = slot;
    return MNEM_OK;
}

static void pooled_free(mnem_replay_target *self, uint32_t block, uint32_t stream) {
    pooled *p = (pooled *)self;
    const uint32_t slot = p->slot_of[block];
    (void)mnem_pool_free(p->pool, &p->blocks[slot], p->streams[stream % STREAMS_MAX]);
    p->spare[p->spare_count++] = slot;
}

static void pooled_close(mnem_replay_target *self) {
    pooled *p = (pooled *)self;
    if (p->pool) mnem_pool_destroy_forced(p->pool);
    for (uint32_t i = 1; i < p->stream_count; i++) mnem_stream_destroy(p->streams[i]);
    if (p->device) mnem_device_close(p->device);
    mnem__free(p->slot_of);
    mnem__free(p->blocks);
    mnem__free(p->spare);
    p->device = NULL;
    p->pool = NULL;
    p->slot_of = p->spare = NULL;
    p->blocks = NULL;
}

/* Addresses of the null device only go up: all that follow are above this one. */
static mnem_status first_address(pooled *p) {
    mnem_block block;
    MNEM__TRY(mnem_device_alloc(p->device, MNEM_SPACE_DEVICE, 1, UNIT, &block));
    p->first_address = block.address + block.bytes;
    mnem_device_free(&block);
    return MNEM_OK;
}

static mnem_status device_make(pooled *p, uint32_t streams) {
    const mnem_device_options options = {.capacity_bytes = 2 * BYTES_MOST, .granularity = UNIT};
    mnem_status status = mnem_device_open("null", &options, &p->device);
    if (status == MNEM_OK) status = first_address(p);
    p->stream_count = 1; /* streams[0] stays NULL: the default stream */
    while (status == MNEM_OK && p->stream_count < streams && p->stream_count < STREAMS_MAX) {
        status = mnem_stream_create(p->device, &p->streams[p->stream_count]);
        if (status == MNEM_OK) p->stream_count++;
    }
    return status;
}

static mnem_status tables_make(pooled *p, const mnem_workload_info *info) {
    const uint32_t slots = info->blocks_peak;
    p->slot_of = mnem__calloc(tag, info->allocations, sizeof *p->slot_of);
    p->blocks = mnem__calloc(tag, slots, sizeof *p->blocks);
    p->spare = mnem__alloc(tag, slots * sizeof *p->spare);
    if (!p->slot_of || !p->blocks || !p->spare) return mnem__heap_status();
    for (uint32_t i = 0; i < slots; i++) p->spare[i] = slots - 1 - i;
    p->spare_count = slots;
    return MNEM_OK;
}

static mnem_status pooled_open(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                               uint64_t most) {
    pooled *p = (pooled *)self;
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    p->spare_count = 0;
    const bool too_much = start > BYTES_MOST || info.bytes_peak > BYTES_MOST / 4;
    if (too_much || p->alignment > ALIGNMENT_MOST)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "replay: a pool of %llu bytes with an alignment of %llu is not supported: expected at "
            "most 2^46 bytes, a peak of at most 2^44, and an alignment of at most 2 MiB",
            (unsigned long long)(start ? start : info.bytes_peak),
            (unsigned long long)p->alignment);
    mnem_status status = device_make(p, info.streams);
    if (status == MNEM_OK) status = tables_make(p, &info);
    const mnem_pool_options options = {.device = p->device,
                                       .alignment = p->alignment,
                                       .unit_bytes = UNIT,
                                       .bytes_max = most && most < BYTES_MOST ? most : BYTES_MOST,
                                       .bytes_expected = start};
    if (status == MNEM_OK && (!most || most >= UNIT)) status = mnem_pool_create(&options, &p->pool);
    if (status != MNEM_OK) pooled_close(self);
    return status;
}

static void pooled_usage(const mnem_replay_target *self, mnem_replay_usage *usage) {
    const pooled *p = (const pooled *)self;
    mnem_pool_info info;
    mnem_device_info device;
    *usage = (mnem_replay_usage){0};
    if (!p->pool) return;
    mnem_pool_info_get(p->pool, &info);
    mnem_device_info_get(p->device, &device);
    usage->bytes_reserved = info.bytes_reserved;
    usage->bytes_reserved_peak = info.bytes_reserved_peak;
    usage->upstream_calls = info.device_calls;
    for (int i = 0; i < MNEM_POOL_RUNGS; i++)
        if (i != MNEM_POOL_RUNG_REUSE && i != MNEM_POOL_RUNG_REFUSE) usage->misses += info.rungs[i];
    usage->bytes_zero_copy = device.bytes_zero_copy;
    usage->bytes_staged = device.bytes_staged;
}

static uint64_t pooled_place(const mnem_replay_target *self, uint32_t block, uint64_t *bytes) {
    const pooled *p = (const pooled *)self;
    const mnem_block *memory = &p->blocks[p->slot_of[block]].memory;
    *bytes = mnem__align_up(memory->bytes, p->alignment);
    return memory->address - p->first_address;
}

mnem_status mnem__pool_target_create(const mnem_replay_settings *settings,
                                     mnem_replay_target **out) {
    pooled *p = mnem__calloc(tag, 1, sizeof *p);
    if (!p) return mnem__heap_status();
    p->base = (mnem_replay_target){.name = "pool",
                                   .open = pooled_open,
                                   .alloc = pooled_alloc,
                                   .free = pooled_free,
                                   .close = pooled_close,
                                   .usage = pooled_usage,
                                   .place = pooled_place,
                                   .destroy = mnem__replay_target_free};
    p->alignment = settings && settings->alignment ? settings->alignment : 256;
    *out = &p->base;
    return MNEM_OK;
}
