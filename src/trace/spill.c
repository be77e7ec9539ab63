/* spill.c: buffers of threads, and the unnamed temporary file to which full ones are written.
 *
 * A thread that has filled its buffer writes it itself: 48 KiB into the page cache take some
 * microseconds, no other thread is needed, and nothing has to be dropped while the disk has room.
 * When it has none, the buffer's events are given up and the next ones begin with their number.
 *
 * Invariant: a thread's first `chunks` chunks, from its first place on along next, are whole. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "base/file/new_file.h"
#include "trace/trace_private.h"

static mnem__trace_buffer *buffer_of(mnem_trace *trace, const mnem__event_slot *slot) {
    return &trace->buffers[slot->thread];
}

/* ---- the file ---- */

/* A file that has a name for a moment, where the file system knows none without. */
static int open_named(const char *path) {
    char name[PATH_MAX + 32];
    snprintf(name, sizeof name, "%s.events" MNEM__NEW_FILE_END, path);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST && unlink(name) == 0)
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) unlink(name);
    return fd;
}

mnem_status mnem__trace_spill_open(mnem_trace *trace) {
    char folder[PATH_MAX];
    memcpy(folder, trace->path, sizeof folder);
    trace->fd = open(dirname(folder), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (trace->fd < 0) trace->fd = open_named(trace->path);
    if (trace->fd >= 0) return MNEM_OK;
    return mnem__file_fail(trace->path, "create a temporary file for events in the same folder");
}

/* ---- chunks; only the slot's thread is here, and busy ---- */

static uint64_t place_take(mnem_trace *trace) {
    pthread_mutex_lock(&trace->lock);
    const uint64_t place = trace->places++;
    pthread_mutex_unlock(&trace->lock);
    return place;
}

/* How many events are lost with the first `count`: one that tells of lost ones stands for those. */
static uint64_t lost_with(const mnem__trace_buffer *b, uint32_t count) {
    const mnem__event *first = b->chunk;
    const bool told = (first->when & 0xff) == MNEM__EVENT_DROPPED;
    return told ? first->value + count - 1 : count;
}

/* A short chunk gets rows that are no events. Returns its bytes. */
static size_t describe(mnem__event *rows, uint64_t next, uint32_t count) {
    const mnem__trace_chunk chunk = {.next = next, .count = count};
    for (uint32_t i = count; i < MNEM__CHUNK_ROWS; i++) rows[i] = (mnem__event){0};
    mnem__trace_chunk_say(rows, &chunk);
    return (count < MNEM__CHUNK_ROWS ? MNEM__CHUNK_ROWS : count) * sizeof *rows;
}

/* Writes what the buffer has; false: it is given up. */
static bool put_away(mnem_trace *trace, mnem__trace_buffer *b, uint32_t count) {
    const uint64_t place = b->next;
    const bool told = (b->chunk->when & 0xff) == MNEM__EVENT_DROPPED;
    bool whole = place < trace->places_most;
    const uint64_t next = whole ? place_take(trace) : place;
    const size_t bytes = describe(b->chunk, next, count);
    whole = whole && mnem__file_write_at(trace->fd, b->chunk, bytes,
                                         place * mnem__trace_chunk_bytes(trace)) == bytes;
    pthread_mutex_lock(&trace->lock);
    if (whole) {
        trace->threads[b->thread].chunks++;
        trace->kept += count;
        trace->bytes_written += bytes;
        b->next = next;
    } else {
        trace->dropped += count - told;
    }
    pthread_mutex_unlock(&trace->lock);
    return whole;
}

/* when: of the last event that was lost; the next one may have been made already. */
static void begin_again(mnem_trace *trace, mnem__event_slot *slot, uint64_t lost, uint64_t when) {
    mnem__trace_buffer *b = buffer_of(trace, slot);
    slot->next = b->chunk;
    slot->end = slot->next + trace->events;
    slot->again = NULL;
    if (!lost) return;
    slot->losses++;
    *slot->next++ =
        (mnem__event){.when = (when & ~(uint64_t)0xff) | MNEM__EVENT_DROPPED, .value = lost};
}

static void put_away_full(mnem_trace *trace, mnem__event_slot *slot) {
    mnem__trace_buffer *b = buffer_of(trace, slot);
    const uint32_t count = (uint32_t)(slot->next - b->chunk);
    const bool whole = put_away(trace, b, count);
    begin_again(trace, slot, whole ? 0 : lost_with(b, count), slot->next[-1].when);
}

/* ---- threads ---- */

static void thread_describe(mnem__trace_thread *t, bool shared) {
    *t = (mnem__trace_thread){.tid = shared ? 0 : (uint32_t)gettid()};
    if (shared)
        memcpy(t->name, "others", 7);
    else
        prctl(PR_GET_NAME, t->name);
}

/* Takes a free buffer for a thread; the first buffer is for threads that share it. The lock is
 * held. NULL: none is free. */
static mnem__trace_buffer *buffer_take(mnem_trace *trace, bool shared) {
    if (trace->thread_count == trace->threads_most && !shared) return NULL;
    for (uint32_t i = shared ? 0 : 1; i < (shared ? 1 : trace->buffer_count); i++)
        if (trace->buffers[i].thread == MNEM__TRACE_NONE) return &trace->buffers[i];
    return NULL;
}

static bool slot_begin(mnem_trace *trace, mnem__event_slot *slot) {
    const bool shared = !slot->taken;
    pthread_mutex_lock(&trace->lock);
    mnem__trace_buffer *b = buffer_take(trace, shared);
    if (b) {
        b->thread = shared ? 0 : trace->thread_count++;
        b->next = trace->places++;
        thread_describe(&trace->threads[b->thread], shared);
        trace->threads[b->thread].first = b->next;
    }
    pthread_mutex_unlock(&trace->lock);
    if (!b) return false;
    slot->thread = (uint32_t)(b - trace->buffers);
    slot->generation = trace->sink.generation;
    slot->losses++;
    begin_again(trace, slot, 0, 0);
    return true;
}

bool mnem__trace_room(mnem__event_sink *sink, mnem__event_slot *slot) {
    mnem_trace *trace = (mnem_trace *)sink;
    if (slot->generation != sink->generation) return slot_begin(trace, slot);
    put_away_full(trace, slot);
    return true;
}

void mnem__trace_leave(mnem__event_sink *sink, mnem__event_slot *slot) {
    mnem_trace *trace = (mnem_trace *)sink;
    mnem__trace_buffer *b = buffer_of(trace, slot);
    const uint32_t count = (uint32_t)(slot->next - b->chunk);
    if (count && !put_away(trace, b, count)) trace->threads[b->thread].lost = lost_with(b, count);
    slot->generation = 0;
    pthread_mutex_lock(&trace->lock);
    b->thread = MNEM__TRACE_NONE;
    pthread_mutex_unlock(&trace->lock);
}
