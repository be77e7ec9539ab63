/* write_perfetto.c: a trace for ui.perfetto.dev (perfetto.h has the form).
 *
 * A packet is made on the stack and copied to the file's buffer; nothing grows with the trace. */
#include <stdio.h>
#include <string.h>

#include "trace/perfetto.h"
#include "trace/trace_out.h"
#include "trace/trace_source.h"

enum { PACKET_MOST = MNEM__OUT_MOST, NAMES_PACKET = 3 << 10, COUNTERS = 32 };

typedef struct packet {
    mnem__pb pb;
    uint8_t *begun;
    uint8_t bytes[PACKET_MOST];
} packet;

typedef struct writer {
    mnem_trace_reader *reader;
    mnem__out *out;
    uint64_t requests;           /* the largest request that has a track, and one */
    uint64_t counters[COUNTERS]; /* those that have a track */
    uint32_t counter_count;
    packet packet;
} writer;

static uint64_t uuid(mnem__track_sort sort, uint64_t number) {
    return (uint64_t)sort << 48 | (number & ((UINT64_C(1) << 48) - 1));
}

static mnem__pb *packet_begin(writer *w, uint64_t ns, uint32_t flags) {
    packet *p = &w->packet;
    p->pb = (mnem__pb){.p = p->bytes, .end = p->bytes + sizeof p->bytes};
    p->begun = mnem__pb_begin(&p->pb, PB_TRACE_PACKET);
    mnem__pb_number(&p->pb, PACKET_TIMESTAMP, ns);
    mnem__pb_number(&p->pb, PACKET_SEQUENCE, 1);
    mnem__pb_number(&p->pb, PACKET_FLAGS, flags);
    return &p->pb;
}

/* One that is too long is left out: only notes can be, and they are bounded. */
static void packet_end(writer *w) {
    packet *p = &w->packet;
    mnem__pb_end(&p->pb, p->begun);
    if (p->pb.over) return;
    const size_t n = (size_t)(p->pb.p - p->bytes);
    memcpy(mnem__out_room(w->out, n), p->bytes, n);
    w->out->used += n;
}

/* ---- names ---- */

static void interned(mnem__pb *pb, uint32_t field, uint64_t iid, const char *text) {
    uint8_t *begun = mnem__pb_begin(pb, field);
    mnem__pb_number(pb, INTERNED_IID, iid);
    mnem__pb_text(pb, INTERNED_TEXT, text, strlen(text));
    mnem__pb_end(pb, begun);
}

static void put_categories(mnem__pb *pb) {
    static const char *const notes[] = {
        [NOTE_BYTES] = "bytes", [NOTE_ADDRESS] = "address", [NOTE_STREAM] = "stream",
        [NOTE_CLASS] = "class", [NOTE_REQUEST] = "request", [NOTE_MULTIPLY_ADDS] = "multiply_adds",
    };
    uint8_t *begun = mnem__pb_begin(pb, PACKET_INTERNED);
    for (unsigned i = 0; i < MNEM_SPANS; i++)
        interned(pb, INTERNED_CATEGORY, i + 1, mnem_span_text((mnem_span)i));
    interned(pb, INTERNED_CATEGORY, CATEGORY_REFUSAL, "refusal");
    interned(pb, INTERNED_CATEGORY, CATEGORY_ALLOC, "alloc");
    interned(pb, INTERNED_CATEGORY, CATEGORY_FREE, "free");
    interned(pb, INTERNED_CATEGORY, CATEGORY_DROPPED, "dropped");
    interned(pb, INTERNED_CATEGORY, CATEGORY_RUN, "run");
    for (unsigned i = 0; i < MNEM_TRACE_PHASES; i++)
        interned(pb, INTERNED_CATEGORY, CATEGORY_REQUEST + i,
                 mnem_trace_phase_text((mnem_trace_phase)i));
    for (unsigned i = NOTE_BYTES; i < NOTE_COUNT; i++)
        interned(pb, INTERNED_ANNOTATION, i, notes[i]);
    mnem__pb_end(pb, begun);
}

static void put_names(writer *w) {
    mnem_trace_file_info info;
    mnem_trace_reader_info(w->reader, &info);
    for (uint32_t i = 0; i < info.names;) {
        mnem__pb *pb = packet_begin(w, 0, 2);
        uint8_t *begun = mnem__pb_begin(pb, PACKET_INTERNED);
        while (i < info.names && pb->p - w->packet.bytes < NAMES_PACKET) {
            interned(pb, INTERNED_NAME, i + 1, mnem_trace_reader_name(w->reader, i));
            i++;
        }
        mnem__pb_end(pb, begun);
        packet_end(w);
    }
}

/* ---- what is said of the whole run ---- */

static void note_text(mnem__pb *pb, const char *key, const char *value) {
    uint8_t *begun = mnem__pb_begin(pb, EVENT_ANNOTATION);
    mnem__pb_text(pb, ANNOTATION_NAME, key, strlen(key));
    mnem__pb_text(pb, ANNOTATION_STRING, value, strlen(value));
    mnem__pb_end(pb, begun);
}

static void note_number(mnem__pb *pb, const char *key, uint64_t value) {
    uint8_t *begun = mnem__pb_begin(pb, EVENT_ANNOTATION);
    mnem__pb_text(pb, ANNOTATION_NAME, key, strlen(key));
    mnem__pb_number(pb, ANNOTATION_UINT, value);
    mnem__pb_end(pb, begun);
}

/* "mnem": what makes a file ours. Each note has a packet, so that none is too long for one. */
static void put_run(writer *w) {
    mnem_trace_file_info info;
    const char *key, *value;
    mnem_trace_reader_info(w->reader, &info);
    for (uint32_t i = 0; i <= info.notes; i++) {
        mnem__pb *pb = packet_begin(w, 0, i ? 2 : 3);
        if (!i) put_categories(pb);
        uint8_t *begun = mnem__pb_begin(pb, PACKET_EVENT);
        mnem__pb_number(pb, EVENT_CATEGORY_IID, CATEGORY_RUN);
        mnem__pb_number(pb, EVENT_TYPE, TYPE_INSTANT);
        mnem__pb_number(pb, EVENT_TRACK, uuid(TRACK_SORT_PROCESS, 0));
        mnem__pb_text(pb, EVENT_NAME, "mnem", 4);
        if (i && mnem_trace_reader_note(w->reader, i - 1, &key, &value)) note_text(pb, key, value);
        if (!i) {
            note_number(pb, "version", 1);
            note_number(pb, "pid", info.pid);
            note_number(pb, "events", info.events);
            note_number(pb, "dropped", info.dropped);
            note_number(pb, "duration", info.duration_ns);
            note_number(pb, "budget", info.budget_bytes);
            if (info.ranks) note_number(pb, "ranks", info.ranks);
        }
        mnem__pb_end(pb, begun);
        packet_end(w);
    }
}

/* ---- tracks ---- */

static mnem__pb *track_begin(writer *w, uint64_t number, uint64_t parent, const char *name,
                             uint8_t **begun) {
    mnem__pb *pb = packet_begin(w, 0, 2);
    *begun = mnem__pb_begin(pb, PACKET_TRACK);
    mnem__pb_number(pb, TRACK_UUID, number);
    if (parent) mnem__pb_number(pb, TRACK_PARENT, parent);
    if (name) mnem__pb_text(pb, TRACK_NAME, name, strlen(name));
    return pb;
}

static void track_end(writer *w, uint8_t *begun) {
    mnem__pb_end(&w->packet.pb, begun);
    packet_end(w);
}

static void put_track(writer *w, uint64_t number, uint64_t parent, const char *name) {
    uint8_t *begun;
    track_begin(w, number, parent, name, &begun);
    track_end(w, begun);
}

static void put_counter(writer *w, uint64_t number, uint64_t parent, const char *name) {
    uint8_t *begun;
    mnem__pb *pb = track_begin(w, number, parent, name, &begun);
    uint8_t *counter = mnem__pb_begin(pb, TRACK_COUNTER);
    mnem__pb_number(pb, COUNTER_UNIT, COUNTER_UNIT_BYTES);
    mnem__pb_end(pb, counter);
    track_end(w, begun);
}

/* The process number of a rank is 1 + the rank: viewers take 0 as the kernel's idle process. */
static uint32_t pid_of(const mnem_trace_file_info *info, uint32_t rank) {
    return info->ranks ? 1 + rank : info->pid;
}

static void put_process(writer *w, const mnem_trace_file_info *info, uint32_t rank) {
    uint8_t *begun;
    char name[32] = "mnem";
    if (info->ranks) snprintf(name, sizeof name, "mnem rank %u", rank);
    mnem__pb *pb = track_begin(w, uuid(TRACK_SORT_PROCESS, rank), 0, NULL, &begun);
    uint8_t *process = mnem__pb_begin(pb, TRACK_PROCESS);
    mnem__pb_number(pb, PROCESS_PID, pid_of(info, rank));
    mnem__pb_text(pb, PROCESS_NAME, name, strlen(name));
    mnem__pb_end(pb, process);
    track_end(w, begun);
}

static void put_thread(writer *w, uint32_t i, const mnem_trace_file_info *info) {
    uint8_t *begun;
    mnem_trace_thread thread;
    if (!mnem_trace_reader_thread(w->reader, i, &thread)) return;
    mnem__pb *pb = track_begin(w, uuid(TRACK_SORT_THREAD, i), uuid(TRACK_SORT_PROCESS, thread.rank),
                               thread.tid ? NULL : "others", &begun);
    if (thread.tid) {
        uint8_t *inner = mnem__pb_begin(pb, TRACK_THREAD);
        mnem__pb_number(pb, THREAD_PID, pid_of(info, thread.rank));
        mnem__pb_number(pb, THREAD_TID, thread.tid);
        mnem__pb_text(pb, THREAD_NAME, thread.name, strlen(thread.name));
        mnem__pb_end(pb, inner);
    }
    track_end(w, begun);
}

static uint64_t owner_of(const mnem_trace_account *a) {
    return uuid(TRACK_SORT_OWNER, (uint64_t)a->rank << 33 | (uint64_t)a->owner << 1 | a->pool);
}

static uint64_t kind_of(const mnem_trace_account *a) {
    return uuid(TRACK_SORT_KIND, (uint64_t)a->rank << 37 | (uint64_t)a->owner << 5 |
                                     (uint64_t)a->pool << 4 | a->kind);
}

/* Parents are said again with each account: a descriptor that comes twice is fine. */
static void put_account(writer *w, uint32_t i) {
    char name[32];
    mnem_trace_account a;
    if (!mnem_trace_reader_account(w->reader, i, &a)) return;
    snprintf(name, sizeof name, "%s %u", a.pool ? "pool" : "ledger", a.owner);
    put_track(w, owner_of(&a), uuid(TRACK_SORT_PROCESS, a.rank), name);
    put_track(w, kind_of(&a), owner_of(&a), mnem_kind_text(a.kind));
    if (a.pool)
        put_track(w, uuid(TRACK_SORT_ACCOUNT, i), kind_of(&a), a.tag);
    else
        put_counter(w, uuid(TRACK_SORT_ACCOUNT, i), kind_of(&a), a.tag);
}

static void put_tracks(writer *w) {
    mnem_trace_file_info info;
    mnem_trace_reader_info(w->reader, &info);
    for (uint32_t i = 0; i < (info.ranks ? info.ranks : 1); i++) put_process(w, &info, i);
    for (uint32_t i = 0; i < info.threads; i++) put_thread(w, i, &info);
    for (uint32_t i = 0; i < info.accounts; i++) put_account(w, i);
}

/* ---- events ---- */

static void annotate(mnem__pb *pb, mnem__note_iid iid, uint64_t value) {
    uint8_t *begun = mnem__pb_begin(pb, EVENT_ANNOTATION);
    mnem__pb_number(pb, ANNOTATION_NAME_IID, iid);
    mnem__pb_number(pb, ANNOTATION_UINT, value);
    mnem__pb_end(pb, begun);
}

static mnem__pb *event_begin(writer *w, uint64_t ns, uint32_t type, uint64_t track,
                             uint8_t **begun) {
    mnem__pb *pb = packet_begin(w, ns, 2);
    *begun = mnem__pb_begin(pb, PACKET_EVENT);
    mnem__pb_number(pb, EVENT_TYPE, type);
    mnem__pb_number(pb, EVENT_TRACK, track);
    return pb;
}

static void event_end(writer *w, uint8_t *begun) {
    mnem__pb_end(&w->packet.pb, begun);
    packet_end(w);
}

static void put_count(writer *w, const mnem_trace_event *e, uint64_t track) {
    uint8_t *begun;
    mnem__pb *pb = event_begin(w, e->ns, TYPE_COUNTER, track, &begun);
    mnem__pb_number(pb, EVENT_COUNTER, e->bytes);
    event_end(w, begun);
}

static void put_block(writer *w, const mnem_trace_event *e) {
    uint8_t *begun;
    const uint64_t track = uuid(TRACK_SORT_ACCOUNT, (uint32_t)e->account);
    mnem__pb *pb = event_begin(w, e->ns, TYPE_INSTANT, track, &begun);
    mnem__pb_number(pb, EVENT_CATEGORY_IID,
                    e->what == MNEM_TRACE_ALLOC ? CATEGORY_ALLOC : CATEGORY_FREE);
    mnem__pb_number(pb, EVENT_NAME_IID, e->name + 1);
    annotate(pb, NOTE_ADDRESS, e->id);
    annotate(pb, NOTE_BYTES, e->bytes);
    if (e->stream) annotate(pb, NOTE_STREAM, e->stream);
    event_end(w, begun);
}

static void put_span(writer *w, const mnem_trace_event *e, uint32_t type) {
    uint8_t *begun;
    mnem__pb *pb = event_begin(w, e->ns, type, uuid(TRACK_SORT_THREAD, e->thread), &begun);
    mnem__pb_number(pb, EVENT_CATEGORY_IID, e->detail + 1);
    mnem__pb_number(pb, EVENT_NAME_IID, e->name + 1);
    const bool adds = type == TYPE_END && e->detail == MNEM_SPAN_OPERATOR;
    if (e->bytes) annotate(pb, adds ? NOTE_MULTIPLY_ADDS : NOTE_BYTES, e->bytes);
    event_end(w, begun);
}

static void put_refusal(writer *w, const mnem_trace_event *e) {
    uint8_t *begun;
    mnem__pb *pb = event_begin(w, e->ns, TYPE_INSTANT, uuid(TRACK_SORT_THREAD, e->thread), &begun);
    mnem__pb_number(pb, EVENT_CATEGORY_IID, CATEGORY_REFUSAL);
    mnem__pb_number(pb, EVENT_NAME_IID, e->name + 1);
    annotate(pb, NOTE_BYTES, e->bytes);
    annotate(pb, NOTE_CLASS, e->detail);
    annotate(pb, NOTE_REQUEST, (uint64_t)e->account);
    event_end(w, begun);
}

static void put_dropped(writer *w, const mnem_trace_event *e) {
    uint8_t *begun;
    mnem__pb *pb = event_begin(w, e->ns, TYPE_INSTANT, uuid(TRACK_SORT_THREAD, e->thread), &begun);
    mnem__pb_number(pb, EVENT_CATEGORY_IID, CATEGORY_DROPPED);
    mnem__pb_text(pb, EVENT_NAME, "events dropped", 14);
    annotate(pb, NOTE_BYTES, e->bytes);
    event_end(w, begun);
}

/* A request is a track whose slices are its phases: each phase ends the one before. Requests are
 * numbered in the order in which they come, so one past the largest is new. */
static void put_request(writer *w, const mnem_trace_event *e) {
    char name[40];
    uint8_t *begun;
    const uint64_t track = uuid(TRACK_SORT_REQUEST, e->id);
    const uint64_t all = uuid(TRACK_SORT_REQUESTS, e->rank);
    if (!w->requests) put_track(w, all, uuid(TRACK_SORT_PROCESS, e->rank), "requests");
    if (e->id >= w->requests) {
        snprintf(name, sizeof name, "request %llu", (unsigned long long)e->id);
        put_track(w, track, all, name);
        w->requests = e->id + 1;
    } else if (e->detail != MNEM_TRACE_PHASE_QUEUED) {
        event_begin(w, e->ns, TYPE_END, track, &begun);
        event_end(w, begun);
    }
    const bool ends = e->detail == MNEM_TRACE_PHASE_ENDED;
    const char *phase = mnem_trace_phase_text((mnem_trace_phase)e->detail);
    mnem__pb *pb = event_begin(w, e->ns, ends ? TYPE_INSTANT : TYPE_BEGIN, track, &begun);
    mnem__pb_number(pb, EVENT_CATEGORY_IID, CATEGORY_REQUEST + e->detail);
    mnem__pb_text(pb, EVENT_NAME, phase, strlen(phase));
    annotate(pb, NOTE_REQUEST, e->id);
    annotate(pb, NOTE_STREAM, e->thread);
    event_end(w, begun);
}

/* Its descriptor comes before its first event; again and again, if there are very many. */
static void put_number(writer *w, const mnem_trace_event *e) {
    const uint64_t track = uuid(TRACK_SORT_COUNTER, (uint64_t)e->rank << 32 | e->name);
    uint32_t i = 0;
    while (i < w->counter_count && w->counters[i] != track) i++;
    if (i == w->counter_count) {
        put_counter(w, track, uuid(TRACK_SORT_PROCESS, e->rank),
                    mnem_trace_reader_name(w->reader, e->name));
        if (i < COUNTERS) w->counters[w->counter_count++] = track;
    }
    put_count(w, e, track);
}

static void put_event(writer *w, const mnem_trace_event *e) {
    switch (e->what) {
    case MNEM_TRACE_LIVE: put_count(w, e, uuid(TRACK_SORT_ACCOUNT, (uint32_t)e->account)); break;
    case MNEM_TRACE_COUNTER: put_number(w, e); break;
    case MNEM_TRACE_ALLOC:
    case MNEM_TRACE_FREE: put_block(w, e); break;
    case MNEM_TRACE_BEGIN: put_span(w, e, TYPE_BEGIN); break;
    case MNEM_TRACE_END: put_span(w, e, TYPE_END); break;
    case MNEM_TRACE_MARK: put_span(w, e, TYPE_INSTANT); break;
    case MNEM_TRACE_REFUSED: put_refusal(w, e); break;
    case MNEM_TRACE_REQUEST: put_request(w, e); break;
    default: put_dropped(w, e); break;
    }
}

mnem_status mnem__trace_write_perfetto(mnem_trace_reader *reader, const char *path) {
    mnem__out out;
    mnem_trace_event e;
    writer w = {.reader = reader, .out = &out};
    MNEM__TRY(mnem__out_open(&out, path));
    put_run(&w);
    put_names(&w);
    put_tracks(&w);
    int more;
    while ((more = mnem_trace_reader_next(reader, &e)) == 1 && out.status == MNEM_OK)
        put_event(&w, &e);
    return mnem__out_close(&out, more < 0 ? MNEM_IO : MNEM_OK);
}
