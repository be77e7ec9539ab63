/* mnem/device.h: where bytes live and work is queued.
 *
 * A device has memory spaces and streams. `host` is the CPU and its memory; `null` hands out
 * addresses without memory, so that a plan for a machine that isn't here can be made and tested.
 * Not here: budgets (ledger.h), kernels (ops.h).
 * Threads: a device may be used from any thread; a stream from one at a time.
 *
 *     mnem_device *device;
 *     mnem_device_open("host", NULL, &device);
 *     mnem_block block;
 *     mnem_device_alloc(device, MNEM_SPACE_DEVICE, 1 << 20, 64, &block);
 *     float *x = mnem_block_host(&block);
 *     ...
 *     mnem_device_free(&block);
 *     mnem_device_close(device);
 */
#ifndef MNEM_DEVICE_H
#define MNEM_DEVICE_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_device mnem_device;
typedef struct mnem_stream mnem_stream;
typedef struct mnem_event mnem_event;

typedef enum mnem_space {
    MNEM_SPACE_DEVICE, /* the device's own memory; on host the same as MNEM_SPACE_HOST */
    MNEM_SPACE_PINNED, /* host memory that the device reads directly */
    MNEM_SPACE_HOST,   /* ordinary host memory */
    MNEM_SPACE_COUNT
} mnem_space;

/* A piece of a device's memory. address is not a host pointer: ask mnem_block_host. */
typedef struct mnem_block {
    mnem_device *device;
    uint64_t address;
    uint64_t bytes; /* as taken from the device: what was asked, rounded up to the granularity */
    mnem_space space;
} mnem_block;

/* Zero means default. */
typedef struct mnem_device_options {
    uint64_t capacity_bytes; /* null: what the pretended device holds (default 80 GiB);
                                host: a cap on what may be taken (default none) */
    uint64_t granularity;    /* null: the unit of allocation (default 2 MiB) */
    bool host_hidden;        /* host: pretends that MNEM_SPACE_DEVICE and ranges are memory of their
                                own, which the host can't see, to test code for such devices */
} mnem_device_options;

typedef struct mnem_device_info {
    const char *name;          /* "host", "null" */
    uint64_t capacity_bytes;   /* of MNEM_SPACE_DEVICE */
    uint64_t available_bytes;  /* what could be taken now */
    uint64_t granularity;      /* allocations are rounded up to this */
    bool host_visible;         /* mnem_block_host works for MNEM_SPACE_DEVICE */
    bool immediate_default;    /* what is queued on the default stream is done when the call */
    bool immediate_streams;    /* returns; the same of the other streams */
    uint64_t granule_bytes;    /* of ranges (below); 0: the device has none */
    uint64_t granules_live;    /* taken and not given back */
    const char *granule_pages; /* host: "huge" (set aside by the machine's owner), "transparent"
                                  (asked for, the kernel decides) or "plain"; null: "none" */
    uint64_t bytes_zero_copy, bytes_staged; /* handed over by buffers (below), since the open */
} mnem_device_info;

/* Opens "host" or "null". MNEM_NOT_FOUND for another name, MNEM_UNSUPPORTED for one that this build
 * knows but can't open ("cuda", "ascend"). options may be NULL. */
mnem_status mnem_device_open(const char *name, const mnem_device_options *options,
                             mnem_device **device);
/* MNEM_BUSY while blocks, streams, events, ranges or granules of it are live. NULL is fine. */
mnem_status mnem_device_close(mnem_device *device);
void mnem_device_info_get(mnem_device *device, mnem_device_info *info);

/* Takes bytes (> 0) aligned to alignment (a power of two up to 2 MiB). Host memory comes zeroed and
 * touched: it is resident from then on. MNEM_NO_MEMORY leaves *block untouched. */
mnem_status mnem_device_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, mnem_block *block);
/* Gives it back and clears *block. A cleared or zeroed block is fine. */
void mnem_device_free(mnem_block *block);
/* What an allocation of these bytes would take: the same rounding that mnem_device_alloc does. */
uint64_t mnem_device_alloc_bytes(mnem_device *device, mnem_space space, uint64_t bytes);

/* The host's address of the block, NULL where the host can't see it. A block may also be made by
 * hand, for a piece of another one or of a range; it isn't freed then. */
void *mnem_block_host(const mnem_block *block);

/* Ranges: addresses without memory. Granules: pieces of memory of info.granule_bytes without an
 * address, that are mapped into ranges, moved elsewhere without copying, and may be mapped at
 * several places, which then alias. A granule is a number of its device. Addresses that nothing is
 * mapped at fault. host: a file in memory and mmap; null: numbers, checked alike. The calls are
 * those of GPU drivers: reserve, create, map and set access, unmap, release. Each of them may be
 * called from any thread; on one part of a range, one at a time. */
typedef struct mnem_range {
    mnem_device *device;
    uint64_t address, bytes; /* bytes: as asked, rounded up to whole granules */
    uint32_t *slots;         /* private */
} mnem_range;

/* MNEM_INVALID for 0 bytes, MNEM_NO_MEMORY when there are no such addresses, MNEM_UNSUPPORTED where
 * the device has no ranges. *range is untouched then. */
mnem_status mnem_range_reserve(mnem_device *device, uint64_t bytes, mnem_range *range);
/* Unmaps what is mapped and clears *range; granules stay taken. A cleared range is fine. */
void mnem_range_release(mnem_range *range);
/* The host's address of the range, NULL where the host can't see it. */
void *mnem_range_host(const mnem_range *range);

/* Takes count granules, counted against the capacity. All or none: MNEM_NO_MEMORY. They are
 * resident and zero from then on, mapped or not; the kernel counts them as the process's (VmRSS)
 * while they are mapped, once for each mapping. */
mnem_status mnem_granules_take(mnem_device *device, mnem_space space, uint64_t *granules,
                               size_t count);
/* Gives them back; their memory goes back to the machine. MNEM_BUSY when one is still mapped,
 * MNEM_INVALID when one isn't taken: none is given then. */
mnem_status mnem_granules_give(mnem_device *device, const uint64_t *granules, size_t count);

/* Maps count granules from offset on, a multiple of the granule; what was mapped there must be gone
 * (MNEM_INVALID). MNEM_NO_MEMORY: the machine has no further mapping (Linux: vm.max_map_count).
 * Nothing is mapped on failure. Granules with numbers in a row, such as those taken together, are
 * one mapping. */
mnem_status mnem_range_map(const mnem_range *range, uint64_t offset, const uint64_t *granules,
                           size_t count);
/* MNEM_INVALID when something there isn't mapped; MNEM_NO_MEMORY when the machine can't split a
 * mapping. Everything is still mapped then. */
mnem_status mnem_range_unmap(const mnem_range *range, uint64_t offset, size_t count);

/* Streams: work in order. stream = NULL is the device's default stream, which runs at once in the
 * calling thread on `host`. The others have a thread each and a queue of MNEM_STREAM_DEPTH; a full
 * queue makes the caller wait. */
enum { MNEM_STREAM_DEPTH = 256 };
mnem_status mnem_stream_create(mnem_device *device, mnem_stream **stream);
void mnem_stream_destroy(mnem_stream *stream); /* finishes its work first */
mnem_status mnem_stream_synchronize(mnem_stream *stream);
/* Queues function(context); context stays the caller's until it ran. */
mnem_status mnem_stream_launch(mnem_device *device, mnem_stream *stream,
                               void (*function)(void *context), void *context);
/* Queues a copy of bytes between two blocks (offsets checked), one of them on this device. */
mnem_status mnem_stream_copy(mnem_device *device, mnem_stream *stream, const mnem_block *to,
                             uint64_t to_offset, const mnem_block *from, uint64_t from_offset,
                             uint64_t bytes);
mnem_status mnem_stream_fill(mnem_device *device, mnem_stream *stream, const mnem_block *block,
                             uint64_t offset, uint64_t bytes, uint8_t value);

/* Buffers: bytes that host and device exchange. Where the device's memory is the host's, both use
 * one allocation (zero-copy); elsewhere the host has a copy of its own, and bytes are copied when
 * they are handed over (staged). Host memory is locked into memory where the process may.
 * null: no memory and no host address; handing over is counted, as staged. */
typedef struct mnem_buffer {
    mnem_block host;   /* what the host reads and writes (MNEM_SPACE_PINNED) */
    mnem_block device; /* what work on the device reads and writes; equal to host for zero-copy */
    uint64_t bytes;    /* as asked */
    bool zero_copy;
    bool locked; /* false: RLIMIT_MEMLOCK or the device didn't allow it; works all the same */
} mnem_buffer;

/* bytes > 0, aligned as in mnem_device_alloc. *buffer is untouched on failure. */
mnem_status mnem_buffer_alloc(mnem_device *device, uint64_t bytes, uint64_t alignment,
                              mnem_buffer *buffer);
void mnem_buffer_free(mnem_buffer *buffer); /* finish the work on it first; a cleared one is fine */
/* What it takes of the device, to charge it before. */
uint64_t mnem_buffer_alloc_bytes(mnem_device *device, uint64_t bytes);
/* Hands bytes over in stream order: to the device for work that is queued later; to the host, who
 * sees them once the stream (or an event recorded after) is done. */
mnem_status mnem_buffer_to_device(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                  uint64_t bytes);
mnem_status mnem_buffer_to_host(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                uint64_t bytes);

mnem_status mnem_event_create(mnem_device *device, mnem_event **event);
void mnem_event_destroy(mnem_event *event);
mnem_status mnem_event_record(mnem_event *event, mnem_stream *stream);
/* The work queued after this on stream waits for event's last record. */
mnem_status mnem_event_wait(mnem_event *event, mnem_stream *stream);
mnem_status mnem_event_query(mnem_event *event); /* MNEM_OK done, MNEM_NOT_READY not yet */
mnem_status mnem_event_synchronize(mnem_event *event);

#ifdef __cplusplus
}
#endif
#endif
