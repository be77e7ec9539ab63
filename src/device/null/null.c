/* null.c: a device that allocates addresses without memory, for plans of other machines.
 *
 * The idea: addresses come from a counter that only goes forward in a range no host pointer has, so
 * that one that is used by mistake faults; capacity is counted by device.c. Work is done when it is
 * queued: nothing runs, events are reached at once.
 * Invariant: addresses of live blocks never overlap (none is handed out twice). */
#include "base/checked.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "device/backend/backend.h"

enum { GRANULE = 2 << 20 };

#define FIRST_ADDRESS (UINT64_C(1) << 56) /* above what processors can address */

typedef struct null_state {
    _Atomic uint64_t next_address; /* to hand out; 0: the first */
} null_state;

static uint64_t null_capacity(void) {
    return UINT64_C(80) << 30;
}

static uint64_t null_granularity(void) {
    return GRANULE;
}

static mnem_status null_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, uint64_t *address) {
    (void)space;
    null_state *state = mnem__device_state(device);
    uint64_t next = atomic_load(&state->next_address), end;
    do {
        uint64_t start = mnem__max_u64(next, FIRST_ADDRESS);
        if (!mnem__align_u64(start, alignment, address) || !mnem__add_u64(*address, bytes, &end))
            return mnem__fail(MNEM_NO_MEMORY,
                              "device null: all of its addresses are in use; free blocks first");
    } while (!atomic_compare_exchange_weak(&state->next_address, &next, end));
    return MNEM_OK;
}

static void null_free(mnem_device *device, uint64_t address, uint64_t bytes) {
    (void)device, (void)address, (void)bytes;
}

static mnem_status null_reserve(mnem_device *device, uint64_t bytes, uint64_t *address) {
    return null_alloc(device, MNEM_SPACE_DEVICE, bytes, GRANULE, address);
}

static mnem_status null_take(mnem_device *device, mnem_space space, uint64_t first, uint64_t count,
                             uint8_t *store) {
    (void)device, (void)space, (void)first, (void)count, (void)store;
    return MNEM_OK;
}

static void null_give(mnem_device *device, uint64_t first, uint64_t count, uint8_t store) {
    (void)device, (void)first, (void)count, (void)store;
}

static mnem_status null_map(mnem_device *device, uint64_t address, uint64_t first, uint64_t count,
                            uint8_t store) {
    (void)device, (void)address, (void)first, (void)count, (void)store;
    return MNEM_OK;
}

static mnem_status null_unmap(mnem_device *device, uint64_t address, uint64_t count) {
    (void)device, (void)address, (void)count;
    return MNEM_OK;
}

static mnem_status null_stream_create(mnem_device *device, mnem_stream **out) {
    mnem_stream *stream = mnem__calloc("device", 1, sizeof *stream);
    if (!stream) return mnem__heap_status();
    stream->device = device;
    *out = stream;
    return MNEM_OK;
}

static void null_stream_destroy(mnem_stream *stream) {
    mnem__free(stream);
}

static void null_submit(mnem_device *device, mnem_stream *stream, const mnem__work *work) {
    (void)device, (void)stream;
    if (work->kind == MNEM__WORK_MARK) mnem__event_reach(work->event, work->record);
    if (work->kind == MNEM__WORK_WAIT) mnem__event_await(work->event, work->record);
}

static void null_synchronize(mnem_stream *stream) {
    (void)stream;
}

const mnem__backend mnem__backend_null = {
    .name = "null",
    .immediate_default = true,
    .immediate_streams = true,
    .state_bytes = sizeof(null_state),
    .capacity = null_capacity,
    .granularity = null_granularity,
    .alloc = null_alloc,
    .free = null_free,
    .ranges = {.granule_bytes = GRANULE,
               .reserve = null_reserve,
               .release = null_free,
               .take = null_take,
               .give = null_give,
               .map = null_map,
               .unmap = null_unmap},
    .stream_create = null_stream_create,
    .stream_destroy = null_stream_destroy,
    .submit = null_submit,
    .synchronize = null_synchronize,
};
