/* read_perfetto.c: a Perfetto file of ours (perfetto.h), a packet at a time.
 *
 * Fields that aren't known are skipped, as protocol buffers ask; numbers that the file's own tables
 * don't have, times that go back and packets larger than any of ours make it malformed. */
#include <string.h>

#include "base/heap.h"
#include "trace/perfetto.h"
#include "trace/trace_in.h"
#include "trace/trace_source.h"

enum { PACKET_MOST = 32 << 10 };

typedef struct perfetto {
    mnem__in in;
    bool ours;    /* the first packet said so */
    bool again;   /* tables are known already */
    bool pending; /* the event below was read ahead */
    mnem_trace_event event;
    uint64_t last;
    mnem_status status; /* why an event couldn't be read */
} perfetto;

/* ---- protocol buffers ---- */

typedef struct bytes {
    const uint8_t *p, *end;
} bytes;

typedef struct field {
    uint32_t number;
    uint64_t value; /* of a number */
    bytes in;       /* of a message or a text */
} field;

static bool varint(bytes *b, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && b->p < b->end; shift += 7) {
        const uint8_t byte = *b->p++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

/* 1: *f is the next field; 0: the message ends; -1: it is malformed. */
static int field_next(bytes *b, field *f) {
    uint64_t tag, n;
    if (b->p == b->end) return 0;
    if (!varint(b, &tag) || tag >> 3 == 0 || tag >> 32) return -1;
    *f = (field){.number = (uint32_t)(tag >> 3)};
    switch (tag & 7) {
    case 0: return varint(b, &f->value) ? 1 : -1;
    case 1: n = 8; break;
    case 5: n = 4; break;
    case 2:
        if (!varint(b, &n)) return -1;
        break;
    default: return -1;
    }
    if (n > (uint64_t)(b->end - b->p)) return -1;
    f->in = (bytes){b->p, b->p + n};
    b->p += n;
    return 1;
}

static size_t length(bytes b) {
    return (size_t)(b.end - b.p);
}

static mnem_status malformed(const perfetto *f, const char *what) {
    if (!f->ours)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: not a trace written by mnem; give one that --trace wrote",
                          f->in.path);
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: the packet that ends at byte %llu is damaged: %s; record the trace again", f->in.path,
        (unsigned long long)mnem__in_offset(&f->in), what);
}

/* ---- tables ---- */

static mnem_status read_interned_name(mnem_trace_reader *reader, bytes b) {
    mnem__trace_tables *t = &reader->tables;
    field f;
    uint64_t iid = 0;
    bytes text = {0};
    int more;
    uint32_t number;
    while ((more = field_next(&b, &f)) == 1) {
        if (f.number == INTERNED_IID) iid = f.value;
        if (f.number == INTERNED_TEXT) text = f.in;
    }
    if (more < 0 || !iid || iid > t->names.count + 1u)
        return malformed(reader->state, "the number of a name is not the next one");
    if (iid <= t->names.count) return MNEM_OK;
    return mnem__trace_name_add(t, (const char *)text.p, length(text), &number);
}

static mnem_status read_interned(mnem_trace_reader *reader, bytes b) {
    field f;
    int more;
    while ((more = field_next(&b, &f)) == 1)
        if (f.number == INTERNED_NAME) MNEM__TRY(read_interned_name(reader, f.in));
    return more < 0 ? malformed(reader->state, "malformed names") : MNEM_OK;
}

typedef struct track {
    uint64_t uuid, parent;
    bytes name, thread;
} track;

static uint32_t sort_of(uint64_t uuid) {
    return (uint32_t)(uuid >> 48);
}
static uint64_t number_of(uint64_t uuid) {
    return uuid & ((UINT64_C(1) << 48) - 1);
}

static mnem_status read_account(mnem_trace_reader *reader, const track *t) {
    char tag[32];
    uint32_t number;
    const uint64_t of = number_of(t->parent);
    const size_t n = length(t->name) < sizeof tag ? length(t->name) : sizeof tag - 1;
    const mnem_trace_account account = {.kind = (mnem_kind)(of & 15),
                                        .tag = tag,
                                        .owner = (uint32_t)(of >> 5),
                                        .pool = of >> 4 & 1,
                                        .rank = (uint32_t)(of >> 37)};
    if (number_of(t->uuid) < reader->tables.accounts.count) return MNEM_OK;
    if (number_of(t->uuid) > reader->tables.accounts.count ||
        sort_of(t->parent) != TRACK_SORT_KIND || account.kind >= MNEM_KIND_COUNT)
        return malformed(reader->state, "the number of an account is not the next one");
    if (n) memcpy(tag, t->name.p, n);
    tag[n] = 0;
    return mnem__trace_account_add(&reader->tables, &account, &number);
}

static mnem_status read_thread(mnem_trace_reader *reader, const track *t) {
    uint64_t tid = 0;
    uint32_t number;
    bytes name = t->name, in = t->thread;
    field f;
    int more;
    while ((more = field_next(&in, &f)) == 1) {
        if (f.number == THREAD_TID) tid = f.value;
        if (f.number == THREAD_NAME) name = f.in;
    }
    if (number_of(t->uuid) < reader->tables.threads.count) return MNEM_OK;
    if (more < 0 || number_of(t->uuid) > reader->tables.threads.count)
        return malformed(reader->state, "the number of a thread is not the next one");
    const mnem_trace_thread thread = {
        (uint32_t)tid, (const char *)name.p,
        sort_of(t->parent) == TRACK_SORT_PROCESS ? (uint32_t)number_of(t->parent) : 0};
    return mnem__trace_thread_add(&reader->tables, &thread, length(name), &number);
}

static mnem_status read_track(mnem_trace_reader *reader, bytes b) {
    track t = {0};
    field f;
    int more;
    while ((more = field_next(&b, &f)) == 1) {
        if (f.number == TRACK_UUID) t.uuid = f.value;
        if (f.number == TRACK_PARENT) t.parent = f.value;
        if (f.number == TRACK_NAME) t.name = f.in;
        if (f.number == TRACK_THREAD) t.thread = f.in;
    }
    if (more < 0) return malformed(reader->state, "malformed track");
    if (sort_of(t.uuid) == TRACK_SORT_ACCOUNT) return read_account(reader, &t);
    if (sort_of(t.uuid) == TRACK_SORT_THREAD) return read_thread(reader, &t);
    return MNEM_OK;
}

/* ---- events ---- */

typedef struct raw {
    uint64_t category, type, name, track, counter, notes[NOTE_COUNT];
} raw;

/* What is said of the whole run: a note, or a number that the reader's info has. */
static mnem_status read_run(mnem_trace_reader *reader, bytes key, bytes text, uint64_t value) {
    perfetto *p = reader->state;
    mnem_trace_file_info *info = &reader->info;
    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"events", &info->events},
                   {"dropped", &info->dropped},
                   {"duration", &info->duration_ns},
                   {"budget", &info->budget_bytes}};
    char name[64];
    const size_t n = length(key) < sizeof name ? length(key) : sizeof name - 1;
    if (n) memcpy(name, key.p, n);
    name[n] = 0;
    if (text.p)
        return p->again ? MNEM_OK
                        : mnem__trace_note_add(&reader->tables, name, (const char *)text.p,
                                               length(text));
    if (!strcmp(name, "version")) p->ours = value == 1;
    if (!strcmp(name, "pid")) info->pid = (uint32_t)value;
    if (!strcmp(name, "ranks")) {
        if (value > MNEM_TRACE_PARTS_MAX) return malformed(p, "the number of ranks is invalid");
        info->ranks = (uint32_t)value;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].key)) *numbers[i].to = value;
    return MNEM_OK;
}

static mnem_status read_annotation(mnem_trace_reader *reader, bytes b, raw *e) {
    field f;
    int more;
    uint64_t iid = 0, value = 0;
    bytes key = {0}, text = {0};
    while ((more = field_next(&b, &f)) == 1) {
        if (f.number == ANNOTATION_NAME_IID) iid = f.value;
        if (f.number == ANNOTATION_UINT) value = f.value;
        if (f.number == ANNOTATION_NAME) key = f.in;
        if (f.number == ANNOTATION_STRING) text = f.in;
    }
    if (more < 0) return malformed(reader->state, "malformed annotation");
    if (iid && iid < NOTE_COUNT) e->notes[iid] = value;
    if (key.p && e->category == CATEGORY_RUN) return read_run(reader, key, text, value);
    return MNEM_OK;
}

static mnem_status read_raw(mnem_trace_reader *reader, bytes b, raw *e) {
    field f;
    int more;
    *e = (raw){0};
    while ((more = field_next(&b, &f)) == 1) switch (f.number) {
        case EVENT_CATEGORY_IID: e->category = f.value; break;
        case EVENT_TYPE: e->type = f.value; break;
        case EVENT_NAME_IID: e->name = f.value; break;
        case EVENT_TRACK: e->track = f.value; break;
        case EVENT_COUNTER: e->counter = f.value; break;
        case EVENT_ANNOTATION: MNEM__TRY(read_annotation(reader, f.in, e)); break;
        default: break;
        }
    return more < 0 ? malformed(reader->state, "malformed event") : MNEM_OK;
}

/* A span's or a mark's category is its sort + 1. */
static bool is_span(const raw *e) {
    return e->category >= 1 && e->category <= MNEM_SPANS;
}

/* What it is; MNEM_TRACE_WHATS: nothing of ours. */
static mnem_trace_what what_of(const raw *e) {
    const uint32_t sort = sort_of(e->track);
    if (e->type == TYPE_COUNTER && sort == TRACK_SORT_ACCOUNT) return MNEM_TRACE_LIVE;
    if (e->type == TYPE_COUNTER && sort == TRACK_SORT_COUNTER) return MNEM_TRACE_COUNTER;
    if (e->category >= CATEGORY_REQUEST && e->category < CATEGORY_REQUEST + MNEM_TRACE_PHASES)
        return MNEM_TRACE_REQUEST;
    if (e->category == CATEGORY_ALLOC) return MNEM_TRACE_ALLOC;
    if (e->category == CATEGORY_FREE) return MNEM_TRACE_FREE;
    if (e->category == CATEGORY_REFUSAL) return MNEM_TRACE_REFUSED;
    if (e->category == CATEGORY_DROPPED) return MNEM_TRACE_DROPPED;
    if (e->type == TYPE_BEGIN && is_span(e)) return MNEM_TRACE_BEGIN;
    if (e->type == TYPE_END && is_span(e)) return MNEM_TRACE_END;
    return e->type == TYPE_INSTANT && is_span(e) ? MNEM_TRACE_MARK : MNEM_TRACE_WHATS;
}

/* Takes the numbers apart by what it is. */
static void fill_event(const raw *e, mnem_trace_event *out) {
    out->name = e->name ? (uint32_t)(e->name - 1) : 0;
    out->bytes = e->notes[NOTE_BYTES];
    switch (out->what) {
    case MNEM_TRACE_LIVE:
        out->account = (int32_t)number_of(e->track);
        out->bytes = e->counter;
        break;
    case MNEM_TRACE_COUNTER:
        out->name = (uint32_t)number_of(e->track);
        out->rank = (uint32_t)(number_of(e->track) >> 32);
        out->bytes = e->counter;
        break;
    case MNEM_TRACE_ALLOC:
    case MNEM_TRACE_FREE:
        out->account = (int32_t)number_of(e->track);
        out->id = e->notes[NOTE_ADDRESS];
        out->stream = (uint32_t)e->notes[NOTE_STREAM];
        break;
    case MNEM_TRACE_REFUSED:
        out->thread = (uint32_t)number_of(e->track);
        out->account = (int32_t)e->notes[NOTE_REQUEST];
        out->detail = (uint32_t)e->notes[NOTE_CLASS];
        break;
    case MNEM_TRACE_REQUEST:
        out->thread = (uint32_t)e->notes[NOTE_STREAM];
        out->detail = (uint32_t)(e->category - CATEGORY_REQUEST);
        out->id = e->notes[NOTE_REQUEST];
        out->bytes = 0;
        break;
    default: out->thread = (uint32_t)number_of(e->track); break;
    }
    if (out->what == MNEM_TRACE_BEGIN || out->what == MNEM_TRACE_END ||
        out->what == MNEM_TRACE_MARK)
        out->detail = (uint32_t)(e->category - 1);
    if (out->what == MNEM_TRACE_END && e->notes[NOTE_MULTIPLY_ADDS])
        out->bytes = e->notes[NOTE_MULTIPLY_ADDS];
}

static mnem_status check(const mnem_trace_reader *reader, const mnem_trace_event *e) {
    const mnem__trace_tables *t = &reader->tables;
    const perfetto *p = reader->state;
    const bool accounted = e->what <= MNEM_TRACE_FREE;
    if (e->name && e->name >= t->names.count)
        return malformed(p, "an event has a name that was not declared");
    if (accounted && (e->account < 0 || (uint32_t)e->account >= t->accounts.count))
        return malformed(p, "an event has an account that was not declared");
    if (e->thread && e->thread >= t->threads.count)
        return malformed(p, "an event has a thread that was not declared");
    if (e->what == MNEM_TRACE_REFUSED && e->detail >= MNEM_REFUSED_CLASSES)
        return malformed(p, "a refusal has an unknown class");
    return e->ns < p->last ? malformed(p, "the time is before the previous event's") : MNEM_OK;
}

/* Whose its account or its thread is. */
static uint32_t rank_of(const mnem__trace_tables *t, const mnem_trace_event *e) {
    if (e->account >= 0) return mnem__trace_account_at(t, (uint32_t)e->account)->rank;
    return e->thread < t->threads.count ? mnem__trace_thread_at(t, e->thread)->rank : 0;
}

/* ---- packets ---- */

/* 1: an event; 0: a packet without one. */
static int read_packet(mnem_trace_reader *reader, bytes b, mnem_trace_event *out) {
    perfetto *p = reader->state;
    field f;
    raw e = {0};
    int more;
    *out = (mnem_trace_event){.what = MNEM_TRACE_WHATS, .account = -1};
    while ((more = field_next(&b, &f)) == 1) {
        mnem_status status = MNEM_OK;
        if (f.number == PACKET_TIMESTAMP) out->ns = f.value;
        if (f.number == PACKET_INTERNED) status = read_interned(reader, f.in);
        if (f.number == PACKET_TRACK) status = read_track(reader, f.in);
        if (f.number == PACKET_EVENT) status = read_raw(reader, f.in, &e);
        if (status != MNEM_OK) {
            p->status = status;
            return -1;
        }
    }
    if (more < 0) {
        malformed(p, "malformed fields");
        return -1;
    }
    if (!e.type || (out->what = what_of(&e)) == MNEM_TRACE_WHATS) return 0;
    fill_event(&e, out);
    if (check(reader, out) != MNEM_OK) return -1;
    if (out->what != MNEM_TRACE_COUNTER) out->rank = rank_of(&reader->tables, out);
    p->last = out->ns;
    return 1;
}

/* The next packet's bytes; 0 at the end. */
static int packet_next(perfetto *p, bytes *out) {
    size_t got;
    uint64_t tag, n;
    if (mnem__in_need(&p->in, 16, &got) != MNEM_OK) return -1;
    if (!got) return 0;
    bytes head = {p->in.window + p->in.at, p->in.window + p->in.at + got};
    const uint8_t *begun = head.p;
    if (!varint(&head, &tag) || tag != (PB_TRACE_PACKET << 3 | 2) || !varint(&head, &n) ||
        n > PACKET_MOST) {
        malformed(p, "what follows is not a packet of mnem");
        return -1;
    }
    p->in.at += (size_t)(head.p - begun);
    if (mnem__in_need(&p->in, (size_t)n, &got) != MNEM_OK) return -1;
    if (got < n) {
        malformed(p, "the file ends within the next packet");
        return -1;
    }
    *out = (bytes){p->in.window + p->in.at, p->in.window + p->in.at + n};
    p->in.at += (size_t)n;
    return 1;
}

static int read_event(mnem_trace_reader *reader, mnem_trace_event *out) {
    perfetto *p = reader->state;
    bytes b;
    int more;
    while ((more = packet_next(p, &b)) == 1) {
        const int told = read_packet(reader, b, out);
        if (told) return told;
        if (!p->ours) {
            mnem__fail(MNEM_UNSUPPORTED,
                       "%s: not a trace written by mnem; give one that --trace wrote", p->in.path);
            return -1;
        }
    }
    return more;
}

static int next(mnem_trace_reader *reader, mnem_trace_event *out) {
    perfetto *p = reader->state;
    if (!p->pending) return read_event(reader, out);
    p->pending = false;
    *out = p->event;
    return 1;
}

static mnem_status rewind_file(mnem_trace_reader *reader) {
    perfetto *p = reader->state;
    p->again = true;
    p->pending = false;
    p->last = 0;
    return mnem__in_rewind(&p->in);
}

static void close_file(mnem_trace_reader *reader) {
    perfetto *p = reader->state;
    mnem__in_close(&p->in);
    mnem__free(p);
}

/* What comes before the first event is read at once, so that it is known. */
static mnem_status read_ahead(mnem_trace_reader *reader) {
    perfetto *p = reader->state;
    const int more = read_event(reader, &p->event);
    p->pending = more == 1;
    if (more < 0)
        return p->status != MNEM_OK ? p->status : p->ours ? MNEM_BAD_FILE : MNEM_UNSUPPORTED;
    return p->ours ? MNEM_OK
                   : mnem__fail(MNEM_UNSUPPORTED,
                                "%s: not a trace written by mnem; give one that --trace wrote",
                                p->in.path);
}

mnem_status mnem__trace_perfetto_open(const char *path, uint64_t bytes_most,
                                      mnem_trace_reader **out) {
    static const mnem__trace_source source = {next, rewind_file, close_file};
    mnem_trace_reader *reader;
    *out = NULL;
    perfetto *p = mnem__calloc("trace", 1, sizeof *p);
    if (!p) return mnem__heap_status();
    mnem_status status = mnem__in_open(&p->in, path);
    if (status == MNEM_OK) status = mnem__trace_reader_create(&source, bytes_most, &reader);
    if (status != MNEM_OK) {
        mnem__in_close(&p->in);
        mnem__free(p);
        return status;
    }
    reader->state = p;
    status = read_ahead(reader);
    if (status == MNEM_OK)
        *out = reader;
    else
        mnem_trace_reader_close(reader);
    return status;
}
