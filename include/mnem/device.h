/* mnem/device.h: where bytes live and work is queued.
 *
 * A device has memory spaces and streams. `host` is the CPU and its memory; `null` hands out
 * addresses without memory, so that a plan for a machine that isn't here can be made and tested.
 * Not here: budgets (alloc.h), kernels (ops.h).
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
} mnem_device_options;

typedef struct mnem_device_info {
    const char *name;         /* "host", "null" */
    uint64_t capacity_bytes;  /* of MNEM_SPACE_DEVICE */
    uint64_t available_bytes; /* what could be taken now */
    uint64_t granularity;     /* allocations are rounded up to this */
    bool host_visible;        /* mnem_block_host works */
} mnem_device_info;

/* Opens "host" or "null". MNEM_NOT_FOUND for another name, MNEM_UNSUPPORTED for one that this build
 * knows but can't open ("cuda", "ascend"). options may be NULL. */
mnem_status mnem_device_open(const char *name, const mnem_device_options *options,
                             mnem_device **device);
/* MNEM_BUSY while blocks or streams of it are live. NULL is fine. */
mnem_status mnem_device_close(mnem_device *device);
mnem_status mnem_device_info_get(mnem_device *device, mnem_device_info *info);

/* Takes bytes (> 0) aligned to alignment (a power of two up to 2 MiB). Host memory comes zeroed and
 * touched: it is resident from then on. MNEM_NO_MEMORY leaves *block untouched. */
mnem_status mnem_device_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, mnem_block *block);
/* Gives it back and clears *block. A cleared or zeroed block is fine. */
void mnem_device_free(mnem_block *block);
/* What an allocation of these bytes would take: the same rounding that mnem_device_alloc does. */
uint64_t mnem_device_alloc_bytes(mnem_device *device, mnem_space space, uint64_t bytes);

/* The host's address of the block, NULL where the host can't see it. */
void *mnem_block_host(const mnem_block *block);

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
