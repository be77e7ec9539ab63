/* recorder.c: keeps events and spans in the order of their times, in memory taken once.
 *
 * Idea: a record is written in place under a lock, so times never go back and a full table only
 * counts. Cost: one lock and about 60 bytes per event; nothing is allocated after create. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/heap.h"
#include "trace/trace_private.h"

enum { ROOM_DEFAULT = 16384 };

static atomic_flag listening = ATOMIC_FLAG_INIT;

/* The lock is held. */
static void keep(mnem_trace *trace, mnem__record_what what, int kind, const char *name,
                 uint64_t bytes) {
    if (trace->count == trace->room) {
        trace->dropped++;
        return;
    }
    mnem__record *r = &trace->record[trace->count++];
    *r = (mnem__record){.nanoseconds = mnem__nanoseconds() - trace->start,
                        .bytes = bytes,
                        .thread = gettid(),
                        .what = (uint8_t)what,
                        .kind = (uint8_t)kind};
    strncpy(r->name, name, sizeof r->name - 1);
}

static void listen(void *context, const mnem__event *event) {
    mnem_trace *trace = context;
    pthread_mutex_lock(&trace->lock);
    if (event->what == MNEM__EVENT_REFUSE) {
        keep(trace, MNEM__RECORD_REFUSE, event->kind, event->tag, event->bytes);
    } else {
        if (event->what == MNEM__EVENT_CHARGE)
            trace->live += event->bytes;
        else
            trace->live -= event->bytes < trace->live ? event->bytes : trace->live;
        if (trace->live > trace->peak) trace->peak = trace->live;
        keep(trace, MNEM__RECORD_LIVE, event->kind, event->tag, event->account_live);
    }
    pthread_mutex_unlock(&trace->lock);
}

uint64_t mnem_trace_bytes(uint32_t events) {
    return sizeof(mnem_trace) + (uint64_t)(events ? events : ROOM_DEFAULT) * sizeof(mnem__record);
}

mnem_status mnem_trace_create(uint32_t events, mnem_trace **out) {
    *out = NULL;
    if (atomic_flag_test_and_set(&listening))
        return mnem__fail(MNEM_BUSY, "trace: another trace listens");
    mnem_trace *trace = mnem__calloc("trace", 1, mnem_trace_bytes(events));
    if (!trace) {
        atomic_flag_clear(&listening);
        return mnem__heap_status();
    }
    pthread_mutex_init(&trace->lock, NULL);
    trace->start = mnem__nanoseconds();
    trace->room = events ? events : ROOM_DEFAULT;
    mnem__event_listen(listen, trace);
    *out = trace;
    return MNEM_OK;
}

void mnem_trace_destroy(mnem_trace *trace) {
    if (!trace) return;
    mnem__event_listen(NULL, NULL);
    atomic_flag_clear(&listening);
    pthread_mutex_destroy(&trace->lock);
    mnem__free(trace);
}

static void span(mnem_trace *trace, mnem__record_what what, const char *name) {
    pthread_mutex_lock(&trace->lock);
    keep(trace, what, 0, name, 0);
    pthread_mutex_unlock(&trace->lock);
}

void mnem_trace_begin(mnem_trace *trace, const char *name) {
    span(trace, MNEM__RECORD_BEGIN, name);
}

void mnem_trace_end(mnem_trace *trace, const char *name) {
    span(trace, MNEM__RECORD_END, name);
}

void mnem_trace_info_get(const mnem_trace *trace, mnem_trace_info *info) {
    *info = (mnem_trace_info){
        .events = trace->count, .dropped = trace->dropped, .bytes_peak = trace->peak};
}
