/* device.c: opens backends by name, checks arguments, counts bytes and handles.
 *
 * The idea: everything that is the same for every backend is here, so that a backend is only its
 * table. Bytes are reserved in one counter before the backend is asked, and given back when it
 * refuses; no lock is needed.
 * Invariant: bytes_live <= capacity; what is counted is what mnem_device_alloc_bytes says. */
#include "mnem/device.h"

#include <sched.h>
#include <string.h>

#include "base/checked.h"
#include "base/event.h"
#include "base/fail_point.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/pages.h"
#include "device/backend/backend.h"

enum { ALIGNMENT_MAX = 2 << 20 };

static const mnem__backend *const backends[] = {&mnem__backend_host, &mnem__backend_null,
                                                &mnem__backend_cuda, &mnem__backend_ascend};

static const mnem__backend *added;

void mnem__device_add_backend(const mnem__backend *backend) {
    added = backend;
}

static const mnem__backend *backend_find(const char *name) {
    if (added && !strcmp(added->name, name)) return added;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(backends[i]->name, name)) return backends[i];
    return NULL;
}

static size_t device_bytes(const mnem__backend *backend) {
    return sizeof(mnem_device) + backend->state_bytes;
}

size_t mnem__device_bytes(const char *name) {
    const mnem__backend *backend = backend_find(name);
    return backend && backend->alloc ? device_bytes(backend) : 0;
}

mnem_status mnem_device_open(const char *name, const mnem_device_options *options,
                             mnem_device **out) {
    static const mnem_device_options defaults;
    if (!options) options = &defaults;
    *out = NULL;
    const mnem__backend *backend = backend_find(name);
    if (!backend)
        return mnem__fail(
            MNEM_NOT_FOUND,
            "device: \"%.40s\" is not a device of this build; available are host and null", name);
    if (!backend->alloc)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "device: this build does not include device %s; use host or null",
                          backend->name);
    uint64_t unit = options->granularity ? options->granularity : backend->granularity();
    if (unit & (unit - 1))
        return mnem__fail(MNEM_INVALID,
                          "device: options.granularity is %llu bytes, expected a power of two",
                          (unsigned long long)unit);
    if (backend->host_visible && unit < mnem__page_size()) unit = mnem__page_size();
    mnem_device *device = mnem__calloc("device", 1, device_bytes(backend));
    if (!device) return mnem__heap_status();
    device->backend = backend;
    device->granularity = unit;
    device->capacity = options->capacity_bytes ? options->capacity_bytes : backend->capacity();
    device->hidden = options->host_hidden && backend->host_visible;
    const mnem_status status = backend->open ? backend->open(device) : MNEM_OK;
    if (status != MNEM_OK) {
        mnem__free(device);
        return status;
    }
    pthread_mutex_init(&device->lock, NULL);
    *out = device;
    return MNEM_OK;
}

mnem_status mnem_device_close(mnem_device *device) {
    if (!device) return MNEM_OK;
    uint64_t blocks = atomic_load(&device->blocks), handles = atomic_load(&device->handles);
    if (blocks || handles || device->granules_live)
        return mnem__fail(
            MNEM_BUSY,
            "device %s: can't be closed: %llu blocks and %llu granules (%llu bytes in all) and "
            "%llu streams, events and ranges are live; free all of them first",
            device->backend->name, (unsigned long long)blocks,
            (unsigned long long)device->granules_live,
            (unsigned long long)atomic_load(&device->bytes_live), (unsigned long long)handles);
    if (device->backend->close) device->backend->close(device);
    pthread_mutex_destroy(&device->lock);
    mnem__free(device->granules);
    mnem__free(device);
    return MNEM_OK;
}

void mnem_device_info_get(mnem_device *device, mnem_device_info *info) {
    uint64_t left = device->capacity - atomic_load(&device->bytes_live);
    const mnem__backend *backend = device->backend;
    uint64_t machine = backend->available ? backend->available() : left;
    const uint8_t store = atomic_load_explicit(&device->granule_store, memory_order_relaxed);
    pthread_mutex_lock(&device->lock);
    uint64_t granules = device->granules_live;
    pthread_mutex_unlock(&device->lock);
    *info = (mnem_device_info){.name = backend->name,
                               .capacity_bytes = device->capacity,
                               .available_bytes = mnem__min_u64(left, machine),
                               .granularity = device->granularity,
                               .host_visible = backend->host_visible && !device->hidden,
                               .immediate_default = backend->immediate_default,
                               .immediate_streams = backend->immediate_streams,
                               .granule_bytes = backend->ranges.granule_bytes,
                               .granules_live = granules,
                               .granule_pages =
                                   backend->ranges.pages ? backend->ranges.pages(store) : "none",
                               .bytes_zero_copy = atomic_load(&device->bytes_zero_copy),
                               .bytes_staged = atomic_load(&device->bytes_staged)};
}

/* ---- failures for tests ---- */

static mnem__fail_point fail_point;

void mnem__device_fail_at(uint64_t n, bool sticky) {
    mnem__fail_point_set(&fail_point, n, sticky);
}

mnem_status mnem__device_call(const mnem_device *device, const char *what) {
    if (!mnem__fail_point_hit(&fail_point)) return MNEM_OK;
    return mnem__fail(MNEM_NO_MEMORY, "device %s: %s fails, because a test injected this failure",
                      device->backend->name, what);
}

/* ---- blocks ---- */

uint64_t mnem_device_alloc_bytes(mnem_device *device, mnem_space space, uint64_t bytes) {
    (void)space;
    uint64_t rounded;
    return mnem__align_u64(bytes, device->granularity, &rounded) ? rounded : UINT64_MAX;
}

mnem_status mnem__device_reserve(mnem_device *device, uint64_t bytes) {
    uint64_t live = atomic_load(&device->bytes_live);
    do {
        if (bytes > device->capacity - live)
            return mnem__fail(
                MNEM_NO_MEMORY,
                "device %s: an allocation needs %llu bytes, but only %llu of the device's %llu are "
                "free; free other memory first, or plan with a smaller budget",
                device->backend->name, (unsigned long long)bytes,
                (unsigned long long)(device->capacity - live),
                (unsigned long long)device->capacity);
    } while (!atomic_compare_exchange_weak(&device->bytes_live, &live, live + bytes));
    return MNEM_OK;
}

void mnem__device_unreserve(mnem_device *device, uint64_t bytes) {
    atomic_fetch_sub(&device->bytes_live, bytes);
}

mnem_status mnem_device_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, mnem_block *block) {
    if ((unsigned)space >= MNEM_SPACE_COUNT)
        return mnem__fail(MNEM_INVALID,
                          "device %s: there is no space %d, expected a constant of mnem_space",
                          device->backend->name, (int)space);
    if (!bytes)
        return mnem__fail(MNEM_INVALID,
                          "device %s: a block of 0 bytes was requested, expected at least 1",
                          device->backend->name);
    if (!alignment || alignment & (alignment - 1) || alignment > ALIGNMENT_MAX)
        return mnem__fail(MNEM_INVALID,
                          "device %s: the alignment is %llu, expected a power of two up to 2^21",
                          device->backend->name, (unsigned long long)alignment);
    uint64_t rounded = mnem_device_alloc_bytes(device, space, bytes), address;
    MNEM__TRY(mnem__device_call(device, "alloc"));
    MNEM__TRY(mnem__device_reserve(device, rounded));
    mnem_status status = device->backend->alloc(device, space, rounded, alignment, &address);
    if (status != MNEM_OK) {
        mnem__device_unreserve(device, rounded);
        return status;
    }
    if (space == MNEM_SPACE_DEVICE) address |= mnem__hidden_bit(device);
    atomic_fetch_add(&device->blocks, 1);
    *block = (mnem_block){.device = device, .address = address, .bytes = rounded, .space = space};
    return MNEM_OK;
}

void mnem_device_free(mnem_block *block) {
    mnem_device *device = block->device;
    if (!device) return;
    device->backend->free(device, block->address & ~mnem__hidden_bit(device), block->bytes);
    mnem__device_unreserve(device, block->bytes);
    atomic_fetch_sub(&device->blocks, 1);
    *block = (mnem_block){0};
}

void *mnem_block_host(const mnem_block *block) {
    if (!block->device) return NULL;
    const mnem__backend *backend = block->device->backend;
    if (backend->host) return backend->host(block->device, block->address);
    if (!backend->host_visible) return NULL;
    if (block->address & mnem__hidden_bit(block->device)) return NULL;
    return (void *)(uintptr_t)block->address;
}

/* ---- streams ---- */

mnem_status mnem_stream_create(mnem_device *device, mnem_stream **stream) {
    *stream = NULL;
    mnem_status status = mnem__device_call(device, "stream create");
    if (status == MNEM_OK) status = device->backend->stream_create(device, stream);
    if (status == MNEM_OK) atomic_fetch_add(&device->handles, 1);
    return status;
}

void mnem_stream_destroy(mnem_stream *stream) {
    if (!stream) return;
    mnem_device *device = stream->device;
    device->backend->synchronize(stream);
    device->backend->stream_destroy(stream);
    atomic_fetch_sub(&device->handles, 1);
}

mnem_status mnem_stream_synchronize(mnem_stream *stream) {
    if (stream) stream->device->backend->synchronize(stream);
    return MNEM_OK;
}

static mnem_status submit(mnem_device *device, mnem_stream *stream, const mnem__work *work) {
    if (stream && stream->device != device)
        return mnem__fail(MNEM_INVALID, "device %s: the stream belongs to device %s",
                          device->backend->name, stream->device->backend->name);
    mnem_status status = mnem__device_call(device, "launch");
    if (status == MNEM_OK) device->backend->submit(device, stream, work);
    return status;
}

mnem_status mnem_stream_launch(mnem_device *device, mnem_stream *stream,
                               void (*function)(void *context), void *context) {
    return submit(device, stream,
                  &(mnem__work){.kind = MNEM__WORK_CALL, .function = function, .context = context});
}

static mnem_status block_check(const mnem_block *block, uint64_t offset, uint64_t bytes) {
    if (block->device && offset <= block->bytes && bytes <= block->bytes - offset) return MNEM_OK;
    return mnem__fail(
        MNEM_INVALID,
        "stream: bytes from %llu to %llu + %llu are not all in the block, which has %llu bytes",
        (unsigned long long)offset, (unsigned long long)offset, (unsigned long long)bytes,
        (unsigned long long)block->bytes);
}

mnem_status mnem_stream_copy(mnem_device *device, mnem_stream *stream, const mnem_block *to,
                             uint64_t to_offset, const mnem_block *from, uint64_t from_offset,
                             uint64_t bytes) {
    MNEM__TRY(block_check(to, to_offset, bytes));
    MNEM__TRY(block_check(from, from_offset, bytes));
    if (to->device != device && from->device != device)
        return mnem__fail(MNEM_INVALID,
                          "stream: neither block is on device %s, which the stream belongs to; use "
                          "a stream of a device that has one of the blocks",
                          device->backend->name);
    if (device->backend->host_visible &&
        !(to->device->backend->host_visible && from->device->backend->host_visible))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "stream: device %s can't copy between devices %s and %s; use a stream of "
                          "device %s",
                          device->backend->name, from->device->backend->name,
                          to->device->backend->name,
                          (to->device == device ? from : to)->device->backend->name);
    const mnem_status status = submit(device, stream,
                                      &(mnem__work){.kind = MNEM__WORK_COPY,
                                                    .to = to->address + to_offset,
                                                    .from = from->address + from_offset,
                                                    .bytes = bytes});
    /* Between spaces: from one side to the other. Within one it's the device's own. */
    if (status == MNEM_OK && (to->space != from->space || to->device != from->device))
        mnem__event_say(MNEM__EVENT_MARK, MNEM__OWNER_FIXED, MNEM__FIXED_COPIED, MNEM__SPAN_STREAM,
                        "copied over", NULL, bytes);
    return status;
}

mnem_status mnem_stream_fill(mnem_device *device, mnem_stream *stream, const mnem_block *block,
                             uint64_t offset, uint64_t bytes, uint8_t value) {
    MNEM__TRY(block_check(block, offset, bytes));
    if (block->device != device)
        return mnem__fail(MNEM_INVALID,
                          "stream: the block is not on device %s, which the stream belongs to; use "
                          "a stream of the block's device",
                          device->backend->name);
    return submit(device, stream,
                  &(mnem__work){.kind = MNEM__WORK_FILL,
                                .to = block->address + offset,
                                .bytes = bytes,
                                .value = value});
}

/* ---- events ---- */

mnem_status mnem_event_create(mnem_device *device, mnem_event **out) {
    *out = NULL;
    MNEM__TRY(mnem__device_call(device, "event create"));
    mnem_event *event = mnem__calloc("device", 1, sizeof *event);
    if (!event) return mnem__heap_status();
    event->device = device;
    atomic_fetch_add(&device->handles, 1);
    *out = event;
    return MNEM_OK;
}

void mnem_event_destroy(mnem_event *event) {
    if (!event) return;
    while (atomic_load(&event->uses)) sched_yield(); /* rare: work in a queue still points here */
    atomic_fetch_sub(&event->device->handles, 1);
    mnem__free(event);
}

mnem_status mnem_event_record(mnem_event *event, mnem_stream *stream) {
    mnem_device *device = stream ? stream->device : event->device;
    MNEM__TRY(mnem__device_call(device, "event record"));
    atomic_fetch_add(&event->uses, 1);
    uint32_t record = atomic_fetch_add(&event->recorded, 1) + 1;
    device->backend->submit(
        device, stream, &(mnem__work){.kind = MNEM__WORK_MARK, .event = event, .record = record});
    return MNEM_OK;
}

mnem_status mnem_event_wait(mnem_event *event, mnem_stream *stream) {
    mnem_device *device = stream ? stream->device : event->device;
    MNEM__TRY(mnem__device_call(device, "event wait"));
    atomic_fetch_add(&event->uses, 1);
    uint32_t record = atomic_load(&event->recorded);
    device->backend->submit(
        device, stream, &(mnem__work){.kind = MNEM__WORK_WAIT, .event = event, .record = record});
    return MNEM_OK;
}

mnem_status mnem_event_query(mnem_event *event) {
    return mnem__event_is_reached(event, atomic_load(&event->recorded)) ? MNEM_OK : MNEM_NOT_READY;
}

mnem_status mnem_event_synchronize(mnem_event *event) {
    atomic_fetch_add(&event->uses, 1);
    mnem__event_await(event, atomic_load(&event->recorded));
    return MNEM_OK;
}
