/* trace_private.h: the structure of a recording.
 *
 *     thread ──24 bytes──► its buffer ──full──► a chunk of the file without a name
 *     at the end: chunks, thread by thread, merged by time (spill_read.c) ──► a format's writer
 *
 * There is one allocation, made at create, since events may be emitted under any lock of the
 * library:
 *
 *     mnem_trace | entries of names | their hash | their text | buffers
 *
 * A buffer is a chunk of events. A thread's chunks form a chain: the position of the next one is
 * reserved when a chunk is written. A chunk's metadata lies in unused bits of its events, 12
 * above each name, so that a chunk of 2048 events is exactly twelve pages. */
#ifndef MNEM_SRC_TRACE_TRACE_PRIVATE_H
#define MNEM_SRC_TRACE_TRACE_PRIVATE_H

#include <limits.h>
#include <pthread.h>

#include "base/event.h"
#include "mnem/trace.h"
#include "trace/trace_names.h"

enum {
    MNEM__TRACE_THREADS = 256, /* with a buffer each; later ones share the first buffer */
    MNEM__TRACE_NOTES = 4096,  /* bytes of notes */
    MNEM__TRACE_NONE = UINT32_MAX,
};

/* The metadata in a chunk's first events. */
typedef struct mnem__trace_chunk {
    uint64_t next; /* this thread's next chunk, by position in the file */
    uint32_t count;
} mnem__trace_chunk;

enum {
    MNEM__NAME_BITS = 20,
    MNEM__CHUNK_BITS = 32 - MNEM__NAME_BITS, /* in each event */
    MNEM__CHUNK_NEXT = 5,                    /* rows of next, then those of count */
    MNEM__CHUNK_ROWS = MNEM__CHUNK_NEXT + 3, /* the least events of a chunk */
};
_Static_assert(MNEM__NAME_NONE == (1 << MNEM__NAME_BITS) - 1, "a name, and nothing above it");

typedef struct mnem__trace_thread {
    uint32_t tid;
    char name[16];
    uint64_t first, chunks; /* of the chain */
    uint64_t lost;          /* lost after its last chunk */
} mnem__trace_thread;

/* The owner of a buffer; next: the position of its next chunk. */
typedef struct mnem__trace_buffer {
    mnem__event *chunk;
    uint64_t next;
    uint32_t thread; /* MNEM__TRACE_NONE: no thread's */
} mnem__trace_buffer;

struct mnem_trace {
    mnem__event_sink sink; /* first */
    pthread_mutex_t lock;  /* guards buffers, threads, positions, counts */
    mnem__trace_names names;
    uint32_t events, buffer_count, thread_count, threads_most;
    mnem__trace_buffer *buffers; /* [buffer_count]; the first is the shared slot's */
    int fd;                      /* of the file without a name */
    uint64_t places, places_most;
    uint64_t kept, dropped, bytes_written;
    uint64_t began_ns; /* of mnem__nanoseconds */
    uint64_t ended_ns; /* since then */
    double ns_per_tick;
    uint64_t budget;
    const mnem_ledger *ledger; /* whose sums are sampled; may be destroyed */
    bool recording;
    void *reserve; /* the heap for writing, reserved until then */
    mnem_trace_format format;
    char path[PATH_MAX];
    char notes[MNEM__TRACE_NOTES]; /* key, 0, value, 0, ... */
    uint32_t notes_used;
    mnem__trace_thread threads[MNEM__TRACE_THREADS];
};

/* The sink's functions: room for a thread's slot; the end of a slot (spill.c). */
bool mnem__trace_room(mnem__event_sink *sink, mnem__event_slot *slot);
void mnem__trace_leave(mnem__event_sink *sink, mnem__event_slot *slot);
/* Opens the file without a name beside path. */
mnem_status mnem__trace_spill_open(mnem_trace *trace);

/* Stores the metadata in MNEM__CHUNK_ROWS events. */
static inline void mnem__trace_chunk_say(mnem__event *rows, const mnem__trace_chunk *chunk) {
    const uint32_t mask = (1u << MNEM__CHUNK_BITS) - 1;
    for (int i = 0; i < MNEM__CHUNK_ROWS; i++) {
        const uint64_t bits = i < MNEM__CHUNK_NEXT
                                  ? chunk->next >> i * MNEM__CHUNK_BITS
                                  : chunk->count >> (i - MNEM__CHUNK_NEXT) * MNEM__CHUNK_BITS;
        rows[i].name |= ((uint32_t)bits & mask) << MNEM__NAME_BITS;
    }
}
static inline mnem__trace_chunk mnem__trace_chunk_of(const mnem__event *rows) {
    mnem__trace_chunk chunk = {0};
    for (int i = 0; i < MNEM__CHUNK_ROWS; i++) {
        const uint64_t bits = rows[i].name >> MNEM__NAME_BITS;
        if (i < MNEM__CHUNK_NEXT)
            chunk.next |= bits << i * MNEM__CHUNK_BITS;
        else
            chunk.count |= (uint32_t)(bits << (i - MNEM__CHUNK_NEXT) * MNEM__CHUNK_BITS);
    }
    return chunk;
}

static inline size_t mnem__trace_chunk_bytes(const mnem_trace *trace) {
    return trace->events * sizeof(mnem__event);
}

#endif
