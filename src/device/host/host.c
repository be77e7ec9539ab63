/* host.c: the CPU and its memory as a device.
 *
 * The idea: each block has its own pages, zeroed and touched. A stream is a thread and a ring of
 * MNEM_STREAM_DEPTH pieces of work between two counters; one thread puts in, the stream's thread
 * takes out.
 *
 *     done ≤ i < queued: work[i % depth] waits to be run
 *
 * Invariant: the ring's bytes are taken when the stream is created; queueing takes nothing.
 * Cost: a copy of 64 bytes for each piece of work, and a wake-up when the thread sleeps. */
#include <string.h>
#include <sys/sysinfo.h>

#include "base/heap.h"
#include "base/pages.h"
#include "device/backend/backend.h"
#include "device/host/host_range.h"

enum { SPINS = 200, STREAM_STACK_BYTES = 256 * 1024 };

typedef struct host_stream {
    mnem_stream stream;
    mnem__turnstile queued, done;
    bool stop; /* read after queued moved */
    mnem__thread thread;
    mnem__work work[MNEM_STREAM_DEPTH];
} host_stream;

static uint64_t host_capacity(void) {
    struct sysinfo info;
    return sysinfo(&info) ? INT64_MAX : (uint64_t)info.totalram * info.mem_unit;
}

static uint64_t host_granularity(void) {
    return mnem__page_size();
}

static uint64_t host_available(void) {
    uint64_t bytes;
    return mnem_process_available(&bytes) == MNEM_OK ? bytes : UINT64_MAX;
}

static mnem_status host_alloc(mnem_device *device, mnem_space space, uint64_t bytes,
                              uint64_t alignment, uint64_t *address) {
    (void)device, (void)space;
    void *p = mnem__pages_map_aligned(bytes, alignment, true);
    if (!p) return mnem__heap_status();
    *address = (uintptr_t)p;
    return MNEM_OK;
}

static void host_free(mnem_device *device, uint64_t address, uint64_t bytes) {
    (void)device;
    mnem__pages_unmap((void *)(uintptr_t)address, bytes);
}

static bool host_lock(mnem_device *device, uint64_t address, uint64_t bytes) {
    (void)device;
    return mnem__pages_lock((void *)(uintptr_t)address, bytes);
}

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)(address & ~MNEM__HIDDEN_BIT);
}

static void *host_bind(mnem_device *device, uint64_t address) {
    (void)device;
    return pointer(address);
}

/* ---- streams ---- */

static void work_run(const mnem__work *w) {
    void *to = pointer(w->to);
    switch (w->kind) {
    case MNEM__WORK_CALL: w->function(w->context); break;
    case MNEM__WORK_COPY: memmove(to, pointer(w->from), w->bytes); break;
    case MNEM__WORK_FILL: memset(to, w->value, w->bytes); break;
    case MNEM__WORK_MARK: mnem__event_reach(w->event, w->record); break;
    case MNEM__WORK_WAIT: mnem__event_await(w->event, w->record); break;
    }
}

static void stream_main(void *context) {
    host_stream *s = context;
    for (uint32_t next = 0;; next++) {
        mnem__turnstile_wait(&s->queued, next, SPINS);
        if (s->stop) return;
        work_run(&s->work[next % MNEM_STREAM_DEPTH]);
        mnem__turnstile_move(&s->done, next + 1);
    }
}

static mnem_status host_stream_create(mnem_device *device, mnem_stream **out) {
    host_stream *s = mnem__calloc("device", 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->stream.device = device;
    mnem_status status = mnem__thread_start(&s->thread, STREAM_STACK_BYTES, stream_main, s);
    if (status != MNEM_OK) {
        mnem__free(s);
        return status;
    }
    *out = &s->stream;
    return MNEM_OK;
}

static void host_submit(mnem_device *device, mnem_stream *stream, const mnem__work *work) {
    (void)device;
    if (!stream) {
        work_run(work);
        return;
    }
    host_stream *s = (host_stream *)stream;
    uint32_t index = atomic_load(&s->queued.value), done;
    while (index - (done = atomic_load(&s->done.value)) >= MNEM_STREAM_DEPTH)
        mnem__turnstile_wait(&s->done, done, SPINS);
    s->work[index % MNEM_STREAM_DEPTH] = *work;
    mnem__turnstile_move(&s->queued, index + 1);
}

static void host_synchronize(mnem_stream *stream) {
    host_stream *s = (host_stream *)stream;
    uint32_t queued = atomic_load(&s->queued.value), done;
    while ((done = atomic_load(&s->done.value)) != queued)
        mnem__turnstile_wait(&s->done, done, SPINS);
}

/* All work is done: the thread waits for the next, which is the word to stop. */
static void host_stream_destroy(mnem_stream *stream) {
    host_stream *s = (host_stream *)stream;
    s->stop = true;
    mnem__turnstile_move(&s->queued, atomic_load(&s->queued.value) + 1);
    mnem__thread_join(&s->thread);
    mnem__free(s);
}

const mnem__backend mnem__backend_host = {
    .name = "host",
    .host_visible = true,
    .bind = host_bind,
    .immediate_default = true,
    .state_bytes = sizeof(mnem__host_state),
    .open = mnem__host_files_init,
    .close = mnem__host_files_close,
    .capacity = host_capacity,
    .granularity = host_granularity,
    .available = host_available,
    .alloc = host_alloc,
    .free = host_free,
    .lock = host_lock,
    .ranges = {.granule_bytes = MNEM__HOST_GRANULE,
               .reserve = mnem__host_range_reserve,
               .release = mnem__host_range_release,
               .take = mnem__host_granules_take,
               .give = mnem__host_granules_give,
               .map = mnem__host_range_map,
               .unmap = mnem__host_range_unmap,
               .pages = mnem__host_granule_pages},
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .submit = host_submit,
    .synchronize = host_synchronize,
};
