/* backend.h: what a backend is: one folder, one const table of functions.
 *
 * device.c checks arguments, counts bytes and handles; a backend only moves addresses and work. A
 * backend that this build knows but can't open has a table with a name and no functions. */
#ifndef MNEM_SRC_DEVICE_BACKEND_H
#define MNEM_SRC_DEVICE_BACKEND_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/thread.h"
#include "mnem/device.h"

/* One thing that a stream does. */
typedef enum mnem__work_kind {
    MNEM__WORK_CALL,
    MNEM__WORK_COPY,
    MNEM__WORK_FILL,
    MNEM__WORK_MARK, /* an event's record is reached */
    MNEM__WORK_WAIT, /* until an event's record is reached */
} mnem__work_kind;

typedef struct mnem__work {
    mnem__work_kind kind;
    uint8_t value;                   /* FILL */
    uint64_t to, from, bytes;        /* COPY, FILL: addresses */
    void (*function)(void *context); /* CALL */
    void *context;
    mnem_event *event; /* MARK, WAIT */
    uint32_t record;   /* the number of the event's record */
} mnem__work;

typedef struct mnem__backend {
    const char *name;
    bool host_visible;
    /* Defaults for options that are zero; the capacity of a device that has memory. */
    uint64_t (*capacity)(void);
    uint64_t (*granularity)(void);
    /* What the machine could give besides the capacity (NULL: no other bound). */
    uint64_t (*available)(void);
    /* bytes: whole granules. Both are called with no lock held. */
    mnem_status (*alloc)(mnem_device *device, uint64_t bytes, uint64_t alignment,
                         uint64_t *address);
    void (*free)(mnem_device *device, uint64_t address, uint64_t bytes);
    mnem_status (*stream_create)(mnem_device *device, mnem_stream **stream);
    void (*stream_destroy)(mnem_stream *stream); /* after its work is done */
    /* Queues work, in order; stream NULL: the default stream. */
    void (*submit)(mnem_stream *stream, const mnem__work *work);
    void (*synchronize)(mnem_stream *stream);
} mnem__backend;

extern const mnem__backend mnem__backend_host, mnem__backend_null;
extern const mnem__backend mnem__backend_cuda, mnem__backend_ascend;

struct mnem_device {
    const mnem__backend *backend;
    uint64_t capacity, granularity;
    _Atomic uint64_t bytes_live; /* what counts against the capacity */
    _Atomic uint64_t blocks, handles;
    _Atomic uint64_t next_address; /* null: the next address to hand out */
};

/* The first member of a backend's stream. */
struct mnem_stream {
    mnem_device *device;
};

/* An event is two counters: records queued and records reached. Records of one event are reached in
 * order when they are on one stream; the counter only goes forward. */
struct mnem_event {
    mnem_device *device;
    _Atomic uint32_t recorded;
    _Atomic uint32_t uses; /* work in queues that points here */
    mnem__turnstile reached;
};

/* For backends: what MARK and WAIT do when their turn comes. */
void mnem__event_reach(mnem_event *event, uint32_t record);
void mnem__event_await(mnem_event *event, uint32_t record);

#endif
