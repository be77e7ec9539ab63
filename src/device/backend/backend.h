/* backend.h: the interface of a backend: a folder, a const table of functions, and a state in
 * each device.
 *
 * device.c checks arguments and counts bytes and handles; a backend only handles addresses and
 * work. Callers read the properties of a backend from its table, and never test its name. A
 * backend that this build knows but can't open has a table with a name and no functions.
 *
 *     [ mnem_device, common to all | the backend's state, state_bytes ]    one block of the heap */
#ifndef MNEM_SRC_DEVICE_BACKEND_BACKEND_H
#define MNEM_SRC_DEVICE_BACKEND_BACKEND_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/thread.h"
#include "mnem/device.h"

/* A work item of a stream. */
typedef enum mnem__work_kind {
    MNEM__WORK_CALL,
    MNEM__WORK_COPY,
    MNEM__WORK_FILL,
    MNEM__WORK_MARK, /* marks an event's record as reached */
    MNEM__WORK_WAIT, /* waits until an event's record is reached */
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

#define MNEM__GRANULES_MAX (UINT64_C(1) << 31) /* numbers fit a slot; 4 PiB of 2 MiB */

/* Ranges and granules; granule_bytes 0: not supported. range.c checks arguments and keeps the
 * records; granules are numbered from 0 and are passed as runs of consecutive numbers. No lock is
 * held. */
typedef struct mnem__backend_ranges {
    uint64_t granule_bytes;
    mnem_status (*reserve)(mnem_device *device, uint64_t bytes, uint64_t *address);
    void (*release)(mnem_device *device, uint64_t address, uint64_t bytes); /* unmaps too */
    /* *store: a mark that the backend chooses for these granules; the other calls pass it back. */
    mnem_status (*take)(mnem_device *device, mnem_space space, uint64_t first, uint64_t count,
                        uint8_t *store);
    void (*give)(mnem_device *device, uint64_t first, uint64_t count, uint8_t store);
    /* Take effect at once for work on the device. Change nothing on failure. */
    mnem_status (*map)(mnem_device *device, uint64_t address, uint64_t first, uint64_t count,
                       uint8_t store);
    mnem_status (*unmap)(mnem_device *device, uint64_t address, uint64_t count);
    const char *(*pages)(uint8_t store); /* for mnem_device_info; NULL: "none" */
} mnem__backend_ranges;

typedef struct mnem__backend {
    const char *name;
    /* The device's memory is host memory: pages of this process. */
    bool host_visible;
    /* The pointer that operators on the device take for an address; NULL: no operators run there. A
     * backend with bind does the work of its default stream at once (location.h). */
    void *(*bind)(mnem_device *device, uint64_t address);
    /* Called before and after operators run: pointers from bind are valid between the two calls.
     * Calls nest, from any thread. NULL: pointers are always valid. */
    mnem_status (*enter)(mnem_device *device);
    void (*leave)(mnem_device *device);
    /* If host_visible is false: the host's pointer to memory that it can access (NULL: to none). */
    void *(*host)(mnem_device *device, uint64_t address);
    /* Whether work on the default stream, on other streams, is done when the call returns. */
    bool immediate_default, immediate_streams;
    /* The size of a device's state (mnem__device_state), zero at first. */
    size_t state_bytes;
    mnem_status (*open)(mnem_device *device); /* NULL: nothing to do */
    void (*close)(mnem_device *device);       /* nothing is live; NULL: nothing to do */
    /* Defaults for options that are zero, or the memory of the device. */
    uint64_t (*capacity)(void);
    uint64_t (*granularity)(void);
    /* The memory that the machine has free (NULL: no bound besides the capacity). */
    uint64_t (*available)(void);
    /* bytes: a multiple of the granularity. Both are called with no lock held. */
    mnem_status (*alloc)(mnem_device *device, mnem_space space, uint64_t bytes, uint64_t alignment,
                         uint64_t *address);
    void (*free)(mnem_device *device, uint64_t address, uint64_t bytes);
    /* Locks host memory of the device, where that is permitted (NULL: never). */
    bool (*lock)(mnem_device *device, uint64_t address, uint64_t bytes);
    mnem__backend_ranges ranges;
    mnem_status (*stream_create)(mnem_device *device, mnem_stream **stream);
    void (*stream_destroy)(mnem_stream *stream); /* called after its work is done */
    /* Queues work, in order; stream NULL: the default stream. */
    void (*submit)(mnem_device *device, mnem_stream *stream, const mnem__work *work);
    void (*synchronize)(mnem_stream *stream);
} mnem__backend;

extern const mnem__backend mnem__backend_host, mnem__backend_null;
extern const mnem__backend mnem__backend_cuda, mnem__backend_ascend;

/* The row of a granule; zero: free. */
typedef struct mnem__granule {
    uint32_t uses; /* 1 if taken, plus 1 per mapping */
    uint8_t store;
} mnem__granule;

struct mnem_device {
    const mnem__backend *backend;
    uint64_t capacity, granularity;
    bool hidden;                   /* options.host_hidden */
    _Atomic uint8_t granule_store; /* of the granules taken last */
    _Atomic uint64_t bytes_live;   /* counted against the capacity */
    _Atomic uint64_t blocks, handles;
    _Atomic uint64_t bytes_zero_copy, bytes_staged;

    pthread_mutex_t lock;    /* guards the following fields and the slots of ranges */
    mnem__granule *granules; /* rows in use: all below granules_end */
    uint64_t granules_end, granules_capacity;
    uint64_t granules_live;
};

/* The backend's part of a device: state_bytes, aligned for 8 bytes. */
static inline void *mnem__device_state(mnem_device *device) {
    return device + 1;
}
/* The heap bytes of an open device of this name, for plans; 0: no such device. */
size_t mnem__device_bytes(const char *name);

/* Set in the addresses of a host device whose memory is hidden from the host (for tests): an
 * address that is used as a pointer by mistake faults. */
#define MNEM__HIDDEN_BIT (UINT64_C(1) << 62)
static inline uint64_t mnem__hidden_bit(const mnem_device *device) {
    return device->hidden ? MNEM__HIDDEN_BIT : 0;
}

/* The first member of a backend's stream. */
struct mnem_stream {
    mnem_device *device;
};

/* An event is two counters: records queued and records reached. Records of one event are reached in
 * order when they are on one stream; the counter only goes forward. */
struct mnem_event {
    mnem_device *device;
    _Atomic uint32_t recorded;
    _Atomic uint32_t uses; /* queued work that points to the event */
    mnem__turnstile reached;
};

/* Counts bytes against the capacity. MNEM_NO_MEMORY when they don't fit. */
mnem_status mnem__device_reserve(mnem_device *device, uint64_t bytes);
void mnem__device_unreserve(mnem_device *device, uint64_t bytes);

/* Tests: mnem_device_open finds this backend, too, until another takes its place; NULL: none. */
void mnem__device_add_backend(const mnem__backend *backend);

/* Tests: the n-th following call (1 = the next), and all after it when sticky, of what can fail on
 * a device fails with MNEM_NO_MEMORY: alloc, stream and event create, launch, copy, fill, record,
 * wait, range reserve and map and unmap, granules take. n = 0 turns that off. Any device. */
void mnem__device_fail_at(uint64_t n, bool sticky);
/* Called first in each of these calls. */
mnem_status mnem__device_call(const mnem_device *device, const char *what);

/* For backends: the execution of MARK and WAIT. */
void mnem__event_reach(mnem_event *event, uint32_t record);
void mnem__event_await(mnem_event *event, uint32_t record);
bool mnem__event_is_reached(mnem_event *event, uint32_t record);

#endif
