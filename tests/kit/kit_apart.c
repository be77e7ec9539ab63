/* kit_apart.c: see kit_apart.h. */
#include "kit/kit_apart.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pages.h"
#include "device/backend/backend.h"

enum { BLOCKS = 512 };

typedef struct apart_block {
    const mnem_device *device; /* NULL: free */
    uint64_t address, bytes;
    uint8_t *inside;
} apart_block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static apart_block blocks[BLOCKS];
static uint64_t entries;

typedef struct apart_state {
    int entered; /* under the lock */
} apart_state;

static bool is_in(const apart_block *b, const mnem_device *device, uint64_t address) {
    return b->device == device && address >= b->address && address - b->address < b->bytes;
}

static apart_block *find(const mnem_device *device, uint64_t address) {
    for (int i = 0; i < BLOCKS; i++)
        if (is_in(&blocks[i], device, address)) return &blocks[i];
    return NULL;
}

static void *bind(mnem_device *device, uint64_t address) {
    pthread_mutex_lock(&lock);
    const apart_block *b = find(device, address);
    void *inside = b ? b->inside + (address - b->address) : (void *)(uintptr_t)address;
    pthread_mutex_unlock(&lock);
    return inside;
}

static void *host(mnem_device *device, uint64_t address) {
    pthread_mutex_lock(&lock);
    const apart_block *b = find(device, address);
    pthread_mutex_unlock(&lock);
    return b ? NULL : (void *)(uintptr_t)address;
}

/* The lock is held. */
static void protect(const mnem_device *device, int access) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].device == device && mprotect(blocks[i].inside, blocks[i].bytes, access))
            abort();
}

static mnem_status enter(mnem_device *device) {
    apart_state *state = mnem__device_state(device);
    pthread_mutex_lock(&lock);
    if (state->entered++ == 0) protect(device, PROT_READ | PROT_WRITE);
    entries++;
    pthread_mutex_unlock(&lock);
    return MNEM_OK;
}

static void leave(mnem_device *device) {
    apart_state *state = mnem__device_state(device);
    pthread_mutex_lock(&lock);
    if (--state->entered == 0) protect(device, PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static mnem_status no_memory(void) {
    return mnem__fail(MNEM_NO_MEMORY, "device apart: a block can't be mapped");
}

/* An aligned place of the address space, without access. */
static uint8_t *reserve(uint64_t bytes, uint64_t alignment) {
    uint8_t *all = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    uint8_t *at = all + (alignment - (uintptr_t)all % alignment) % alignment;
    if (at > all) munmap(all, (size_t)(at - all));
    munmap(at + bytes, (size_t)(all + alignment - at));
    return at;
}

static mnem_status map_twice(apart_block *b, uint64_t alignment) {
    const int fd = memfd_create("apart", MFD_CLOEXEC);
    const int access = PROT_READ | PROT_WRITE;
    uint8_t *at = reserve(b->bytes, alignment);
    bool ok = fd >= 0 && at && ftruncate(fd, (off_t)b->bytes) == 0;
    if (ok) b->inside = mmap(NULL, b->bytes, access, MAP_SHARED, fd, 0);
    ok = ok && b->inside != MAP_FAILED &&
         mmap(at, b->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == at;
    if (fd >= 0) close(fd);
    b->address = (uintptr_t)at;
    return ok ? MNEM_OK : no_memory();
}

static mnem_status alloc(mnem_device *device, mnem_space space, uint64_t bytes, uint64_t alignment,
                         uint64_t *address) {
    if (space != MNEM_SPACE_DEVICE) {
        void *p = mnem__pages_map_aligned(bytes, alignment, true);
        *address = (uintptr_t)p;
        return p ? MNEM_OK : no_memory();
    }
    apart_state *state = mnem__device_state(device);
    pthread_mutex_lock(&lock);
    apart_block *b = NULL;
    for (int i = 0; i < BLOCKS && !b; i++)
        if (!blocks[i].device) b = &blocks[i];
    mnem_status status = b ? MNEM_OK : no_memory();
    if (b) {
        *b = (apart_block){.bytes = bytes};
        status = map_twice(b, alignment);
        b->device = status == MNEM_OK ? device : NULL;
        *address = b->address;
        if (status == MNEM_OK && !state->entered) mprotect(b->inside, bytes, PROT_NONE);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void free_block(mnem_device *device, uint64_t address, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    apart_block *b = find(device, address);
    if (b) munmap(b->inside, b->bytes);
    if (b) *b = (apart_block){0};
    pthread_mutex_unlock(&lock);
    mnem__pages_unmap((void *)(uintptr_t)address, bytes);
}

static void submit(mnem_device *device, mnem_stream *stream, const mnem__work *w) {
    (void)stream; /* the default one */
    enter(device);
    void *to = bind(device, w->to);
    switch (w->kind) {
    case MNEM__WORK_CALL: w->function(w->context); break;
    case MNEM__WORK_COPY: memmove(to, bind(device, w->from), w->bytes); break;
    case MNEM__WORK_FILL: memset(to, w->value, w->bytes); break;
    case MNEM__WORK_MARK: mnem__event_reach(w->event, w->record); break;
    case MNEM__WORK_WAIT: mnem__event_await(w->event, w->record); break;
    }
    leave(device);
}

static uint64_t capacity(void) {
    return UINT64_C(1) << 40;
}

static mnem_status no_streams(mnem_device *device, mnem_stream **stream) {
    (void)device;
    *stream = NULL;
    return mnem__fail(MNEM_UNSUPPORTED, "device apart: only the default stream is there");
}

static void nothing(mnem_stream *stream) {
    (void)stream;
}

static const mnem__backend backend = {.name = "apart",
                                      .immediate_default = true,
                                      .bind = bind,
                                      .enter = enter,
                                      .leave = leave,
                                      .host = host,
                                      .state_bytes = sizeof(apart_state),
                                      .capacity = capacity,
                                      .granularity = mnem__page_size,
                                      .alloc = alloc,
                                      .free = free_block,
                                      .stream_create = no_streams,
                                      .stream_destroy = nothing,
                                      .submit = submit,
                                      .synchronize = nothing};

static void add(void) {
    mnem__device_add_backend(&backend);
}

/* Ranks that are threads add it all at once. */
void apart_add(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add);
}

uint64_t apart_entries(void) {
    pthread_mutex_lock(&lock);
    const uint64_t n = entries;
    pthread_mutex_unlock(&lock);
    return n;
}
