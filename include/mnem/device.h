/* mnem/device.h: devices: their memory, and streams of queued work.
 *
 * A device has memory spaces and streams. `host` is the CPU and its memory; `null` allocates
 * addresses without memory, to make and test plans for other machines.
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
    uint64_t bytes; /* as requested, rounded up to the granularity */
    mnem_space space;
} mnem_block;

/* Zero means default. */
typedef struct mnem_device_options {
    uint64_t capacity_bytes; /* null: capacity of the simulated device (default 80 GiB);
                                host: limit of all allocations (default none) */
    uint64_t granularity;    /* null: the unit of allocation (default 2 MiB) */
    bool host_hidden;        /* host: simulates a device whose memory (MNEM_SPACE_DEVICE, ranges)
                                the host can't access, to test code for such devices */
} mnem_device_options;

typedef struct mnem_device_info {
    const char *name;          /* "host", "null" */
    uint64_t capacity_bytes;   /* of MNEM_SPACE_DEVICE */
    uint64_t available_bytes;  /* what could be taken now */
    uint64_t granularity;      /* allocations are rounded up to this */
    bool host_visible;         /* mnem_block_host works for MNEM_SPACE_DEVICE */
    bool immediate_default;    /* work on the default stream is done when the call returns */
    bool immediate_streams;    /* the same for all other streams */
    uint64_t granule_bytes;    /* of ranges (below); 0: the device has none */
    uint64_t granules_live;    /* allocated and not freed */
    const char *granule_pages; /* host: "huge" (set aside by the machine's owner), "transparent"
                                  (asked for, the kernel decides) or "plain"; null: "none" */
    uint64_t bytes_zero_copy, bytes_staged; /* transferred by buffers (below) since the open */
} mnem_device_info;

/* Opens "host" or "null". MNEM_NOT_FOUND for another name, MNEM_UNSUPPORTED for one that this build
 * knows but can't open ("cuda", "ascend"). options may be NULL. */
mnem_status mnem_device_open(const char *name, const mnem_device_options *options,
                             mnem_device **device);
/* MNEM_BUSY while blocks, streams, events, ranges or granules of it are live. NULL is fine. */
mnem_status mnem_device_close(mnem_device *device);
void mnem_device_info_get(mnem_device *device, mnem_device_info *info);

/* Allocates bytes (> 0), aligned to alignment (a power of two up to 2 MiB). Host memory is zeroed
 * and touched, hence resident. MNEM_NO_MEMORY leaves *block unchanged. */
mnem_status mnem_device_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, mnem_block *block);
/* Frees the block and clears *block. A cleared or zeroed block is fine. */
void mnem_device_free(mnem_block *block);
/* The bytes that such an allocation takes, rounded as mnem_device_alloc rounds. */
uint64_t mnem_device_alloc_bytes(mnem_device *device, mnem_space space, uint64_t bytes);

/* The host's address of the block; NULL where the host can't access it. A caller may fill in a
 * mnem_block for a piece of another block or of a range; such a block must not be freed. */
void *mnem_block_host(const mnem_block *block);

/* Ranges are reserved addresses without memory. Granules are pieces of memory of info.granule_bytes
 * without an address. A granule is mapped into a range, can be remapped elsewhere without copying,
 * and may be mapped at several addresses, which alias. It is identified by a number of its device.
 * An access to an unmapped address faults. host uses a memory file and mmap; null only checks the
 * numbers. The calls correspond to those of GPU drivers: reserve, create, map and set access,
 * unmap, release. Any thread may call them, but only one at a time for the same part of a range. */
typedef struct mnem_range {
    mnem_device *device;
    uint64_t address, bytes; /* bytes: as requested, rounded up to whole granules */
    uint32_t *slots;         /* private */
} mnem_range;

/* MNEM_INVALID for 0 bytes, MNEM_NO_MEMORY when the address space has no such range,
 * MNEM_UNSUPPORTED where the device has no ranges. *range is unchanged on failure. */
mnem_status mnem_range_reserve(mnem_device *device, uint64_t bytes, mnem_range *range);
/* Unmaps all of it and clears *range; its granules stay allocated. A cleared range is fine. */
void mnem_range_release(mnem_range *range);
/* The host's address of the range; NULL where the host can't access it. */
void *mnem_range_host(const mnem_range *range);

/* Allocates count granules, which count against the capacity. MNEM_NO_MEMORY: none was allocated.
 * They are zeroed and resident, mapped or not; the kernel counts them in the process's VmRSS while
 * they are mapped, once for each mapping. */
mnem_status mnem_granules_take(mnem_device *device, mnem_space space, uint64_t *granules,
                               size_t count);
/* Frees granules and returns their memory to the machine. MNEM_BUSY when one is still mapped,
 * MNEM_INVALID when one isn't allocated; none is freed then. */
mnem_status mnem_granules_give(mnem_device *device, const uint64_t *granules, size_t count);

/* Maps count granules from offset on, a multiple of the granule. MNEM_INVALID where something is
 * mapped there already. MNEM_NO_MEMORY: the machine allows no further mapping (Linux:
 * vm.max_map_count). Nothing is mapped on failure. Granules with consecutive numbers, such as those
 * allocated by one call, need one mapping only. */
mnem_status mnem_range_map(const mnem_range *range, uint64_t offset, const uint64_t *granules,
                           size_t count);
/* Unmaps count granules from offset on. MNEM_INVALID when one isn't mapped; MNEM_NO_MEMORY when the
 * machine can't split a mapping. All stay mapped on failure. */
mnem_status mnem_range_unmap(const mnem_range *range, uint64_t offset, size_t count);

/* Streams run work in the order in which it was queued. stream = NULL is the device's default
 * stream, which on `host` runs work at once in the calling thread. Each other stream has a thread
 * and a queue of MNEM_STREAM_DEPTH entries; the caller waits while the queue is full. */
enum { MNEM_STREAM_DEPTH = 256 };
mnem_status mnem_stream_create(mnem_device *device, mnem_stream **stream);
void mnem_stream_destroy(mnem_stream *stream); /* finishes its work first */
mnem_status mnem_stream_synchronize(mnem_stream *stream);
/* Queues function(context). context must stay valid until the function has run. */
mnem_status mnem_stream_launch(mnem_device *device, mnem_stream *stream,
                               void (*function)(void *context), void *context);
/* Queues a copy of bytes between two blocks (offsets checked), one of them on this device. */
mnem_status mnem_stream_copy(mnem_device *device, mnem_stream *stream, const mnem_block *to,
                             uint64_t to_offset, const mnem_block *from, uint64_t from_offset,
                             uint64_t bytes);
mnem_status mnem_stream_fill(mnem_device *device, mnem_stream *stream, const mnem_block *block,
                             uint64_t offset, uint64_t bytes, uint8_t value);

/* Buffers hold bytes that host and device exchange. Where the device uses the host's memory, both
 * share one allocation (zero-copy); elsewhere each has its own, and transfers copy bytes between
 * them (staged). The host's memory is locked (mlock) where the process is allowed to.
 * null: no memory and no host address; transfers are counted as staged. */
typedef struct mnem_buffer {
    mnem_block host;   /* what the host reads and writes (MNEM_SPACE_PINNED) */
    mnem_block device; /* what work on the device reads and writes; equal to host for zero-copy */
    uint64_t bytes;    /* as requested */
    bool zero_copy;
    bool locked; /* false: RLIMIT_MEMLOCK or the device didn't allow it, which is no error */
} mnem_buffer;

/* bytes > 0, aligned as in mnem_device_alloc. *buffer is unchanged on failure. */
mnem_status mnem_buffer_alloc(mnem_device *device, uint64_t bytes, uint64_t alignment,
                              mnem_buffer *buffer);
void mnem_buffer_free(mnem_buffer *buffer); /* finish the work on it first; a cleared one is fine */
/* The bytes of device memory that such a buffer takes, to charge them in advance. */
uint64_t mnem_buffer_alloc_bytes(mnem_device *device, uint64_t bytes);
/* Transfer bytes in stream order: to the device, for work that is queued later; to the host, which
 * may read them once the stream, or an event recorded after the transfer, is done. */
mnem_status mnem_buffer_to_device(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                  uint64_t bytes);
mnem_status mnem_buffer_to_host(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                uint64_t bytes);

mnem_status mnem_event_create(mnem_device *device, mnem_event **event);
void mnem_event_destroy(mnem_event *event);
mnem_status mnem_event_record(mnem_event *event, mnem_stream *stream);
/* Work queued later on stream waits for the last record of event. */
mnem_status mnem_event_wait(mnem_event *event, mnem_stream *stream);
mnem_status mnem_event_query(mnem_event *event); /* MNEM_OK done, MNEM_NOT_READY not yet */
mnem_status mnem_event_synchronize(mnem_event *event);

#ifdef __cplusplus
}
#endif
#endif
