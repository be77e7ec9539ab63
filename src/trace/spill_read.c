/* spill_read.c: the recording of this process as a source: chunks of all threads, merged by time.
 *
 * Buffers have done their work by then, so their memory is where each thread's events are read to,
 * a few at a time; but for the tables, reading takes nothing of the heap. The next event is the
 * least of the cursors' first ones, found by looking at all: there are a dozen threads. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "base/heap.h"
#include "trace/trace_private.h"
#include "trace/trace_source.h"

/* A recorded program: its operators up to `to`; those below `known` were read so far. */
typedef struct program {
    mnem__event *told;
    uint32_t room, known, to;
} program;

typedef struct cursor {
    uint64_t place, next; /* the chunk; the one after it */
    uint64_t left;        /* chunks from this one on */
    uint32_t in, count;   /* events of the chunk that were read; all of it */
    uint32_t at, have;    /* of the part that is in memory */
    uint32_t upper;       /* of a size, until its event */
    bool lost;            /* what was lost at the end is yet to be told */
    bool within;          /* an operator that began, and its next one ends: */
    uint32_t within_name;
    uint64_t within_products;
    mnem__event *events;
    program program[MNEM__PROGRAMS];
    uint32_t newest; /* of the programs: the current one */
    uint32_t inner;  /* which of an AGAIN's operators is next */
} cursor;

typedef struct recorded {
    mnem_trace *trace;
    uint32_t part, count; /* events of a part; cursors */
    uint64_t last;        /* the time of the last event */
    cursor cursors[];
} recorded;

static mnem_status read_at(mnem_trace *trace, void *to, size_t n, uint64_t offset) {
    if (mnem__file_read_at(trace->fd, to, n, offset) == n) return MNEM_OK;
    return mnem__fail(
        MNEM_IO, "%s: the trace's events can't be read back from the temporary file (%s)",
        trace->path, errno ? strerrordesc_np(errno) : "another program made the file shorter");
}

static mnem_status chunk_read(recorded *r, uint64_t place, mnem__trace_chunk *chunk) {
    mnem__event rows[MNEM__CHUNK_ROWS];
    MNEM__TRY(read_at(r->trace, rows, sizeof rows, place * mnem__trace_chunk_bytes(r->trace)));
    *chunk = mnem__trace_chunk_of(rows);
    return MNEM_OK;
}

/* The next part of the chunk, or the next chunk's first. */
static mnem_status refill(recorded *r, cursor *c) {
    mnem__trace_chunk chunk;
    while (c->in == c->count && c->left) {
        if (c->count) {
            c->place = c->next;
            c->in = c->count = 0;
            if (--c->left == 0) break;
        }
        MNEM__TRY(chunk_read(r, c->place, &chunk));
        c->count = chunk.count;
        c->next = chunk.next;
    }
    c->at = 0;
    c->have = c->count - c->in < r->part ? c->count - c->in : r->part;
    if (!c->have) return MNEM_OK;
    const uint64_t from =
        c->place * mnem__trace_chunk_bytes(r->trace) + (uint64_t)c->in * sizeof(mnem__event);
    c->in += c->have;
    return read_at(r->trace, c->events, c->have * sizeof(mnem__event), from);
}

static mnem_status rewind_all(mnem_trace_reader *reader) {
    recorded *r = reader->state;
    r->last = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const mnem__trace_thread *t = &r->trace->threads[i];
        cursor *c = &r->cursors[i];
        c->place = t->first;
        c->left = t->chunks;
        c->lost = t->lost > 0;
        c->in = c->count = c->upper = c->inner = 0;
        c->within = false;
        for (uint32_t k = 0; k < MNEM__PROGRAMS; k++) c->program[k].known = c->program[k].to = 0;
        MNEM__TRY(refill(r, c));
    }
    return MNEM_OK;
}

/* Ticks of a cursor's next event. */
static uint64_t when_next(const cursor *c) {
    const mnem__event *e = &c->events[c->at];
    const uint64_t since[MNEM__AGAIN_MOST] = {0, e->small, e->value & UINT32_MAX, e->value >> 32};
    return (e->when >> 8) + since[c->inner];
}

static cursor *earliest(recorded *r) {
    cursor *best = NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        cursor *c = &r->cursors[i];
        if (c->at == c->have) continue;
        if (!best || when_next(c) < when_next(best)) best = c;
    }
    return best;
}

/* ---- programs that run again ---- */

/* From now on operators are those of a program, from its first one on. */
static mnem_status program_begin(cursor *c, const mnem__event *e) {
    c->newest = e->name % MNEM__PROGRAMS;
    program *p = &c->program[c->newest];
    p->known = (uint32_t)e->value;
    p->to = e->small;
    if (p->to <= p->room) return MNEM_OK;
    mnem__event *more = mnem__realloc("trace", p->told, p->to * sizeof *more);
    if (!more) return mnem__heap_status();
    memset(more + p->room, 0, (p->to - p->room) * sizeof *more);
    p->told = more;
    p->room = p->to;
    return MNEM_OK;
}

/* The AGAIN's next operator as it was told before; one that never was (a damaged file) is nothing
 * of "others". */
static mnem__event again_of(const cursor *c, const mnem__event *e) {
    const uint32_t place = (e->name & ((1u << MNEM__AGAIN_PLACE) - 1)) + c->inner;
    const program *p = &c->program[e->name >> MNEM__AGAIN_PLACE & (MNEM__PROGRAMS - 1)];
    mnem__event made = place < p->known ? p->told[place] : (mnem__event){0};
    made.when = when_next(c) << 8 | MNEM__EVENT_OPERATOR;
    return made;
}

/* The cursor's next event goes, which was e; of an AGAIN (count operators) it is the inner one. */
static void take_next(cursor *c, const mnem__event *e, bool again, uint32_t count) {
    program *p = &c->program[c->newest];
    if ((e->when & 0xff) == MNEM__EVENT_OPERATOR && !again && p->known < p->to)
        p->told[p->known++] = *e;
    if (again && ++c->inner < count) return;
    c->inner = 0;
    c->at++;
}

/* ---- what an event says ---- */

static void tell_block(cursor *c, const mnem__event *e, mnem_trace_event *out) {
    out->bytes = (uint64_t)c->upper << 32 | e->small;
    out->id = e->value & ((UINT64_C(1) << 56) - 1);
    out->stream = (uint32_t)(e->value >> 56);
    out->detail = 0;
    c->upper = 0;
}

static void tell(const recorded *r, cursor *c, const mnem__event *e, mnem_trace_event *out) {
    static const mnem_trace_what whats[] = {
        [MNEM__EVENT_LIVE] = MNEM_TRACE_LIVE,       [MNEM__EVENT_REFUSE] = MNEM_TRACE_REFUSED,
        [MNEM__EVENT_ALLOC] = MNEM_TRACE_ALLOC,     [MNEM__EVENT_FREE] = MNEM_TRACE_FREE,
        [MNEM__EVENT_BEGIN] = MNEM_TRACE_BEGIN,     [MNEM__EVENT_END] = MNEM_TRACE_END,
        [MNEM__EVENT_MARK] = MNEM_TRACE_MARK,       [MNEM__EVENT_COUNTER] = MNEM_TRACE_COUNTER,
        [MNEM__EVENT_REQUEST] = MNEM_TRACE_REQUEST, [MNEM__EVENT_DROPPED] = MNEM_TRACE_DROPPED,
        [MNEM__EVENT_OPERATOR] = MNEM_TRACE_BEGIN,
    };
    const mnem__event_what what = (mnem__event_what)(e->when & 0xff);
    const mnem__trace_name *name = &r->trace->names.entry[e->name];
    *out = (mnem_trace_event){.ns = (uint64_t)((double)(e->when >> 8) * r->trace->ns_per_tick),
                              .what = whats[what],
                              .thread = (uint32_t)(c - r->cursors),
                              .name = e->name,
                              .account = name->sort ? (int32_t)name->account : -1,
                              .detail = e->small,
                              .bytes = e->value};
    if (what == MNEM__EVENT_LIVE) out->detail = 0;
    if (what == MNEM__EVENT_ALLOC || what == MNEM__EVENT_FREE) tell_block(c, e, out);
    if (what == MNEM__EVENT_REQUEST) {
        out->id = e->value;
        out->bytes = 0;
    }
}

/* One event is an operator's end and the next one's begin. Returns the end, where there is one; the
 * event is yet to be taken then. */
static bool split(cursor *c, mnem__event *e) {
    const mnem__event_what what = (mnem__event_what)(e->when & 0xff);
    const uint64_t products = (e->value & 0xffff) << 32 | e->small;
    if (what == MNEM__EVENT_DROPPED || (what == MNEM__EVENT_END && e->small == MNEM__SPAN_OPERATOR))
        c->within = false;
    if (what != MNEM__EVENT_OPERATOR) return false;
    if (c->within) {
        *e = (mnem__event){.when = (e->when & ~(uint64_t)0xff) | MNEM__EVENT_END,
                           .name = c->within_name,
                           .small = MNEM__SPAN_OPERATOR,
                           .value = c->within_products};
        c->within = false;
        return true;
    }
    c->within = true;
    c->within_name = e->name;
    c->within_products = products;
    e->small = MNEM__SPAN_OPERATOR;
    e->value >>= 16;
    return false;
}

/* Threads whose last events were lost say so at the end. */
static int next_lost(recorded *r, mnem_trace_event *out) {
    for (uint32_t i = 0; i < r->count; i++) {
        cursor *c = &r->cursors[i];
        if (!c->lost) continue;
        c->lost = false;
        *out = (mnem_trace_event){.ns = r->last,
                                  .what = MNEM_TRACE_DROPPED,
                                  .thread = i,
                                  .account = -1,
                                  .bytes = r->trace->threads[i].lost};
        return 1;
    }
    return 0;
}

/* The cursor's next event, which is taken unless an operator's end came before it. */
static mnem_status next_of(recorded *r, cursor *c, mnem__event *e) {
    *e = c->events[c->at];
    e->name &= MNEM__NAME_NONE;
    const bool again = (e->when & 0xff) == MNEM__EVENT_AGAIN;
    const uint32_t count = e->name >> MNEM__AGAIN_COUNT;
    if ((e->when & 0xff) == MNEM__EVENT_PROGRAM) MNEM__TRY(program_begin(c, e));
    if (again) *e = again_of(c, e);
    const mnem__event whole = *e;
    if (!split(c, e)) take_next(c, &whole, again, count);
    return c->at == c->have ? refill(r, c) : MNEM_OK;
}

static int next(mnem_trace_reader *reader, mnem_trace_event *out) {
    recorded *r = reader->state;
    for (;;) {
        mnem__event e;
        cursor *c = earliest(r);
        if (!c) return next_lost(r, out);
        if (next_of(r, c, &e) != MNEM_OK) return -1;
        if ((e.when & 0xff) == MNEM__EVENT_PROGRAM) continue;
        if ((e.when & 0xff) == MNEM__EVENT_LARGE) {
            c->upper = e.small;
            continue;
        }
        tell(r, c, &e, out);
        r->last = out->ns;
        return 1;
    }
}

static void close_recorded(mnem_trace_reader *reader) {
    recorded *r = reader->state;
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < MNEM__PROGRAMS; k++) mnem__free(r->cursors[i].program[k].told);
    mnem__free(r);
}

/* ---- opening ---- */

static mnem_status tables_fill(mnem_trace_reader *reader, const mnem_trace *trace) {
    mnem__trace_tables *t = &reader->tables;
    uint32_t number;
    t->borrows = true;
    for (uint32_t i = 0; i < trace->names.count; i++) {
        const char *text = mnem__trace_name_text(&trace->names, i);
        MNEM__TRY(mnem__trace_name_add(t, text, strlen(text), &number));
    }
    for (uint32_t i = 0; i < trace->names.account_count; i++) {
        const uint32_t name = trace->names.accounts[i];
        const mnem__trace_name *e = &trace->names.entry[name];
        const mnem_trace_account account = {.kind = (mnem_kind)e->kind,
                                            .tag = mnem__trace_name_text(&trace->names, name),
                                            .owner = e->owner,
                                            .pool = e->sort == MNEM__NAME_POOL};
        MNEM__TRY(mnem__trace_account_add(t, &account, &number));
    }
    for (uint32_t i = 0; i < trace->thread_count; i++) {
        const mnem__trace_thread *thread = &trace->threads[i];
        MNEM__TRY(mnem__trace_thread_add(t, &(mnem_trace_thread){thread->tid, thread->name, 0},
                                         strnlen(thread->name, sizeof thread->name), &number));
    }
    for (uint32_t at = 0; at < trace->notes_used;) {
        const char *key = trace->notes + at, *value = key + strlen(key) + 1;
        MNEM__TRY(mnem__trace_note_add(t, key, value, strlen(value)));
        at += (uint32_t)(strlen(key) + strlen(value) + 2);
    }
    return MNEM_OK;
}

/* Each cursor's part is a piece of the memory of all buffers. */
static mnem_status recorded_create(mnem_trace *trace, recorded **out) {
    const uint32_t n = trace->thread_count;
    const size_t all = trace->buffer_count * trace->events;
    recorded *r = mnem__calloc("trace", 1, sizeof *r + n * sizeof(cursor));
    if (!r) return mnem__heap_status();
    *r = (recorded){.trace = trace, .count = n, .part = (uint32_t)(all / n)};
    mnem__event *memory = trace->buffers[0].chunk;
    for (uint32_t i = 0; i < n; i++) r->cursors[i].events = memory + (size_t)i * r->part;
    *out = r;
    return MNEM_OK;
}

mnem_status mnem__trace_recorded_open(mnem_trace *trace, mnem_trace_reader **out) {
    static const mnem__trace_source source = {next, rewind_all, close_recorded};
    recorded *r = NULL;
    mnem_trace_reader *reader;
    MNEM__TRY(recorded_create(trace, &r));
    mnem_status status = mnem__trace_reader_create(&source, 0, &reader);
    if (status != MNEM_OK) {
        mnem__free(r);
        return status;
    }
    reader->state = r;
    reader->info = (mnem_trace_file_info){.events = trace->kept,
                                          .dropped = trace->dropped,
                                          .duration_ns = trace->ended_ns,
                                          .budget_bytes = trace->budget,
                                          .pid = (uint32_t)getpid()};
    status = tables_fill(reader, trace);
    if (status == MNEM_OK) status = rewind_all(reader);
    if (status == MNEM_OK)
        *out = reader;
    else
        mnem_trace_reader_close(reader);
    return status;
}
