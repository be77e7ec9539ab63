/* trace.c: creates a recording, adds the caller's own events, writes it and ends it. */
#include "mnem/trace.h"

#include <string.h>
#include <unistd.h>

#include "alloc/ledger/ledger_events.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/pages.h"
#include "trace/trace_out.h"
#include "trace/trace_private.h"
#include "trace/trace_source.h"

enum {
    THREADS_DEFAULT = 16,
    EVENTS_DEFAULT = 2048, /* whole pages, which a file takes sooner */
    NAMES_DEFAULT = 4096,
    EVENTS_LEAST = 16, /* MNEM__CHUNK_ROWS; a cursor needs some (spill_read.c) */
    THREADS_MOST = MNEM__TRACE_THREADS - 1,
    EVENTS_MOST = 1 << 20,
    NAMES_MOST = MNEM__NAME_NONE - 1,
};

static uint32_t between(uint32_t value, uint32_t usual, uint32_t least, uint32_t most) {
    if (!value) return usual;
    return value < least ? least : value > most ? most : value;
}

/* What options say, with the defaults. */
typedef struct sizes {
    uint32_t buffers, events, names;
    size_t names_at, buffers_at, chunks_at, bytes;
} sizes;

static sizes sizes_of(const mnem_trace_options *options) {
    static const mnem_trace_options defaults;
    if (!options) options = &defaults;
    sizes s = {.buffers = between(options->threads, THREADS_DEFAULT, 1, THREADS_MOST) + 1,
               .events = between(options->events, EVENTS_DEFAULT, EVENTS_LEAST, EVENTS_MOST),
               .names = between(options->names, NAMES_DEFAULT, 64, NAMES_MOST)};
    s.names_at = (sizeof(mnem_trace) + 63) & ~(size_t)63;
    s.buffers_at = (s.names_at + mnem__trace_names_bytes(s.names) + 63) & ~(size_t)63;
    s.chunks_at = s.buffers_at + s.buffers * sizeof(mnem__trace_buffer);
    s.bytes = s.chunks_at + (size_t)s.buffers * s.events * sizeof(mnem__event);
    return s;
}

/* Writing takes a buffer, a cursor for each thread, tables, which double, and a program's operators
 * as they were told; a budget that is full at the end must not be in the way. */
static size_t reserve_bytes(const sizes *s) {
    return MNEM__OUT_BYTES + MNEM__TRACE_THREADS * 64 +
           s->names * (3 * sizeof(void *) + sizeof(mnem__event)) + (32 << 10);
}

uint64_t mnem_trace_bytes(const mnem_trace_options *options) {
    const sizes s = sizes_of(options);
    return s.bytes + reserve_bytes(&s) + 64;
}

static uint32_t name_of(mnem__event_sink *sink, const mnem__event_key *key) {
    return mnem__trace_name_of(&((mnem_trace *)sink)->names, key);
}

static void parts_init(mnem_trace *trace, const sizes *s) {
    char *memory = (char *)trace;
    pthread_mutex_init(&trace->lock, NULL);
    mnem__trace_names_init(&trace->names, s->names, memory + s->names_at);
    trace->events = s->events;
    trace->buffer_count = s->buffers;
    trace->buffers = (mnem__trace_buffer *)(void *)(memory + s->buffers_at);
    for (uint32_t i = 0; i < s->buffers; i++)
        trace->buffers[i] = (mnem__trace_buffer){
            .chunk = (mnem__event *)(void *)(memory + s->chunks_at) + (size_t)i * s->events,
            .thread = MNEM__TRACE_NONE};
    trace->thread_count = 1;                          /* the first is for threads that share it */
    trace->threads_most = s->buffers * s->events / 4; /* a cursor's part is 4 events */
    if (trace->threads_most > MNEM__TRACE_THREADS) trace->threads_most = MNEM__TRACE_THREADS;
    trace->sink.room = mnem__trace_room;
    trace->sink.leave = mnem__trace_leave;
    trace->sink.name = name_of;
}

static mnem_status path_set(mnem_trace *trace, const char *path) {
    const size_t n = strlen(path);
    if (n > sizeof trace->path - 16)
        return mnem__fail(MNEM_INVALID,
                          "trace: the path is too long (%zu bytes); choose a shorter one", n);
    memcpy(trace->path, path, n + 1);
    return mnem_trace_format_of(path, &trace->format);
}

static mnem_status begin(mnem_trace *trace, const mnem_trace_options *options, const sizes *s) {
    trace->fd = -1;
    MNEM__TRY(path_set(trace, options->path));
    trace->reserve = mnem__alloc("trace", reserve_bytes(s));
    if (!trace->reserve) return mnem__heap_status();
    mnem__pages_touch(trace->reserve, reserve_bytes(s));
    MNEM__TRY(mnem__trace_spill_open(trace));
    trace->places_most = UINT64_MAX;
    if (options->bytes_most)
        trace->places_most = options->bytes_most / mnem__trace_chunk_bytes(trace);
    trace->began_ns = mnem__nanoseconds();
    if (!mnem__event_start(&trace->sink))
        return mnem__fail(MNEM_BUSY, "trace: another trace is already recording; end it first");
    trace->recording = true;
    trace->ledger = options->ledger;
    if (trace->ledger) trace->budget = mnem__ledger_tell_begin(options->ledger);
    return MNEM_OK;
}

mnem_status mnem_trace_create(const mnem_trace_options *options, mnem_trace **out) {
    *out = NULL;
    if (!options || !options->path)
        return mnem__fail(MNEM_INVALID, "trace: options.path is missing");
    const sizes s = sizes_of(options);
    mnem_trace *trace = mnem__calloc("trace", 1, s.bytes);
    if (!trace) return mnem__heap_status();
    mnem__pages_touch(trace, s.bytes); /* as a plan counts it; and no event waits for a page */
    parts_init(trace, &s);
    const mnem_status status = begin(trace, options, &s);
    if (status == MNEM_OK)
        *out = trace;
    else
        mnem_trace_destroy(trace);
    return status;
}

static void end(mnem_trace *trace) {
    if (!trace->recording) return;
    trace->recording = false;
    if (trace->ledger) mnem__ledger_tell_end(trace->ledger);
    const uint64_t ticks = mnem__event_ticks(&trace->sink);
    const uint64_t ns = mnem__nanoseconds() - trace->began_ns;
    trace->ns_per_tick = ticks ? (double)ns / (double)ticks : 1;
    if (trace->sink.clocked) trace->ns_per_tick = 1;
    trace->ended_ns = ns;
    mnem__event_stop(&trace->sink);
    trace->dropped += atomic_load(&trace->sink.nameless);
}

void mnem_trace_destroy(mnem_trace *trace) {
    if (!trace) return;
    end(trace);
    if (trace->fd >= 0) close(trace->fd);
    mnem__free(trace->reserve);
    mnem__trace_names_fini(&trace->names);
    pthread_mutex_destroy(&trace->lock);
    mnem__free(trace);
}

uint64_t mnem_trace_began(const mnem_trace *trace) {
    return trace->began_ns;
}

mnem_status mnem_trace_write(mnem_trace *trace) {
    return mnem_trace_write_to(trace, trace->path);
}

mnem_status mnem_trace_write_to(mnem_trace *trace, const char *path) {
    mnem_trace_reader *reader;
    mnem_trace_format format;
    end(trace);
    MNEM__TRY(mnem_trace_format_of(path, &format));
    mnem__free(trace->reserve);
    trace->reserve = NULL;
    MNEM__TRY(mnem__trace_recorded_open(trace, &reader));
    const mnem_status status = mnem__trace_write_as(format, reader, path);
    mnem_trace_reader_close(reader);
    return status;
}

/* ---- what the caller says ---- */

/* To the active recording, which may have ended since the caller looked. */
static void put_named(mnem__event_what what, const char *name, uint64_t value) {
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    const uint32_t number = mnem__trace_name_plain(&((mnem_trace *)sink)->names, name);
    mnem__event_put(sink, what, number, MNEM__SPAN_PLAIN, value);
}

void mnem_trace_begin(const char *name) {
    put_named(MNEM__EVENT_BEGIN, name, 0);
}

void mnem_trace_end(const char *name) {
    put_named(MNEM__EVENT_END, name, 0);
}

void mnem_trace_counter(const char *name, uint64_t value) {
    put_named(MNEM__EVENT_COUNTER, name, value);
}

/* The last of a key counts, so an earlier one goes. */
static void note_forget(mnem_trace *trace, const char *key) {
    for (uint32_t at = 0; at < trace->notes_used;) {
        char *p = trace->notes + at;
        const size_t n = strlen(p) + 1;
        const size_t both = n + strlen(p + n) + 1;
        if (strcmp(p, key) != 0) {
            at += (uint32_t)both;
            continue;
        }
        memmove(p, p + both, trace->notes_used - at - both);
        trace->notes_used -= (uint32_t)both;
    }
}

mnem_status mnem_trace_note(mnem_trace *trace, const char *key, const char *value) {
    const size_t n = strlen(key) + 1, m = strlen(value) + 1;
    note_forget(trace, key);
    if (n + m > sizeof trace->notes - trace->notes_used)
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "trace: the note %.40s takes %zu bytes, but of the %zu for all notes only "
            "%zu are left: shorten it, or note less",
            key, n + m, sizeof trace->notes, sizeof trace->notes - trace->notes_used);
    memcpy(trace->notes + trace->notes_used, key, n);
    memcpy(trace->notes + trace->notes_used + n, value, m);
    trace->notes_used += (uint32_t)(n + m);
    return MNEM_OK;
}

void mnem_trace_info_get(const mnem_trace *trace, mnem_trace_info *info) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&trace->lock;
    pthread_mutex_lock(lock);
    *info = (mnem_trace_info){.events = trace->kept,
                              .dropped = trace->dropped,
                              .bytes_spilled = trace->bytes_written,
                              .threads = trace->thread_count - 1,
                              .names = trace->names.count};
    pthread_mutex_unlock(lock);
}
