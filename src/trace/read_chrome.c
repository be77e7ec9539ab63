/* read_chrome.c: a Chrome file of ours (write_chrome.c), a line at a time.
 *
 * Each line is one JSON object whose values are texts and whole numbers (times: with a fraction);
 * objects within it, which are the arguments, are read as if their keys were its own. A line that
 * isn't that, or says what no line of ours says, makes the file malformed. */
#include <string.h>

#include "base/heap.h"
#include "trace/trace_in.h"
#include "trace/trace_source.h"

enum { LINE_MOST = 16 << 10, FIELDS = 24 + 3 * MNEM__CHROME_RANKS };

typedef struct chrome {
    mnem__in in;
    uint64_t line, last;
    bool again, pending;
    mnem_trace_event event;
    mnem_status status;   /* why an event couldn't be read */
    char text[LINE_MOST]; /* of the line, its escapes taken out */
} chrome;

typedef struct field {
    const char *key, *text; /* text NULL: a number */
    uint64_t number, nano;  /* nano: in thousandths */
} field;

typedef struct line {
    field fields[FIELDS];
    uint32_t count;
} line;

static mnem_status malformed(chrome *c, const char *what) {
    return c->status =
               mnem__fail(MNEM_BAD_FILE, "%s: line %llu: %s: the trace is damaged; record it again",
                          c->in.path, (unsigned long long)c->line, what);
}

/* ---- JSON ---- */

typedef struct scan {
    const char *p, *end;
    char *to; /* where the next text goes */
} scan;

static bool skip_char(scan *s, char c) {
    if (s->p == s->end || *s->p != c) return false;
    s->p++;
    return true;
}

/* \u0041 up to \u00ff stand for one byte, as our writer makes them. */
static bool scan_escape(scan *s) {
    unsigned value = 0;
    if (s->end - s->p < 5 || *s->p++ != 'u') return false;
    for (int i = 0; i < 4; i++) {
        const char c = *s->p++;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        value = value << 4 | (unsigned)digit;
    }
    if (!value || value > 255) return false;
    *s->to++ = (char)value;
    return true;
}

static const char *scan_text(scan *s) {
    char *begun = s->to;
    if (!skip_char(s, '"')) return NULL;
    while (s->p < s->end && *s->p != '"') {
        if (*s->p == '\\') {
            s->p++;
            if (!scan_escape(s)) return NULL;
        } else {
            *s->to++ = *s->p++;
        }
    }
    if (!skip_char(s, '"')) return NULL;
    *s->to++ = 0;
    return begun;
}

/* Whole numbers below 2^64, and at most three decimals, in thousandths. */
static bool scan_number(scan *s, field *f) {
    const char *begun = s->p;
    uint64_t value = 0, part = 0;
    unsigned digits = 0;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s->p - '0'), &value))
            return false;
    if (s->p == begun) return false;
    if (skip_char(s, '.'))
        for (; s->p < s->end && *s->p >= '0' && *s->p <= '9' && digits < 3; s->p++, digits++)
            part = part * 10 + (uint64_t)(*s->p - '0');
    for (; digits && digits < 3; digits++) part *= 10;
    f->number = value;
    if (__builtin_mul_overflow(value, 1000u, &f->nano) ||
        __builtin_add_overflow(f->nano, part, &f->nano))
        f->nano = UINT64_MAX; /* no time, but a number */
    return true;
}

static bool scan_value(scan *s, line *l, const char *key) {
    if (l->count == FIELDS) return false;
    field *f = &l->fields[l->count++];
    *f = (field){.key = key};
    if (s->p < s->end && *s->p == '"') return (f->text = scan_text(s)) != NULL;
    return scan_number(s, f);
}

/* An object, and those within it one deep. */
static bool scan_object(scan *s, line *l, bool inner) {
    if (!skip_char(s, '{')) return false;
    if (skip_char(s, '}')) return true;
    do {
        const char *key = scan_text(s);
        if (!key || !skip_char(s, ':')) return false;
        const bool object = s->p < s->end && *s->p == '{';
        if (object && inner) return false;
        if (!(object ? scan_object(s, l, true) : scan_value(s, l, key))) return false;
    } while (skip_char(s, ','));
    return skip_char(s, '}');
}

static const field *field_of(const line *l, const char *key) {
    for (uint32_t i = 0; i < l->count; i++)
        if (!strcmp(l->fields[i].key, key)) return &l->fields[i];
    return NULL;
}

static const char *text_of(const line *l, const char *key) {
    const field *f = field_of(l, key);
    return f && f->text ? f->text : "";
}

static uint64_t number_of(const line *l, const char *key) {
    const field *f = field_of(l, key);
    return f ? f->number : 0;
}

/* ---- lines ---- */

/* The next line without its end and the comma before that. 0: there is none. */
static int line_next(chrome *c, scan *s) {
    size_t got;
    if (mnem__in_need(&c->in, LINE_MOST, &got) != MNEM_OK) {
        c->status = MNEM_IO;
        return -1;
    }
    if (!got) return 0;
    const char *p = (const char *)c->in.window + c->in.at;
    const char *end = memchr(p, '\n', got);
    c->line++;
    if (!end) {
        malformed(c, "the line is cut off, or longer than any line that mnem writes");
        return -1;
    }
    c->in.at += (size_t)(end - p) + 1;
    if (end > p && end[-1] == ',') end--;
    *s = (scan){.p = p, .end = end, .to = c->text};
    return 1;
}

/* The first two lines and the beginning of the list. */
static mnem_status read_head(mnem_trace_reader *reader) {
    static const char begins[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"mnem\":1,";
    static const char notes[] = "\"metadata\":", list[] = "\"traceEvents\":[";
    chrome *c = reader->state;
    line l = {.count = 0};
    scan s;
    size_t got;
    MNEM__TRY(mnem__in_need(&c->in, sizeof begins - 1, &got));
    if (got < sizeof begins - 1 || memcmp(c->in.window + c->in.at, begins, got) != 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: not a trace written by mnem; give one that --trace wrote",
                          c->in.path);
    if (line_next(c, &s) != 1) return c->status;
    s.p += strlen("{\"displayTimeUnit\":\"ms\",\"otherData\":");
    if (!scan_object(&s, &l, true)) return malformed(c, "the metadata of the run is malformed");
    reader->info = (mnem_trace_file_info){.pid = (uint32_t)number_of(&l, "pid"),
                                          .events = number_of(&l, "events"),
                                          .dropped = number_of(&l, "dropped"),
                                          .duration_ns = number_of(&l, "duration"),
                                          .budget_bytes = number_of(&l, "budget"),
                                          .ranks = (uint32_t)number_of(&l, "ranks")};
    if (reader->info.ranks > MNEM_TRACE_PARTS_MAX)
        return malformed(c, "the number of ranks is invalid");
    const int noted = line_next(c, &s);
    l.count = 0;
    if (noted < 0) return c->status;
    if (!noted || s.end - s.p < (ptrdiff_t)sizeof notes ||
        memcmp(s.p, notes, sizeof notes - 1) != 0)
        return malformed(c, "the metadata is missing");
    s.p += sizeof notes - 1;
    if (!scan_object(&s, &l, true)) return malformed(c, "malformed metadata");
    for (uint32_t i = 0; i < l.count && !c->again; i++)
        if (l.fields[i].text)
            MNEM__TRY(mnem__trace_note_add(&reader->tables, l.fields[i].key, l.fields[i].text,
                                           strlen(l.fields[i].text)));
    const int listed = line_next(c, &s);
    if (listed < 0) return c->status;
    if (!listed || s.end - s.p != sizeof list - 1 || memcmp(s.p, list, sizeof list - 1) != 0)
        return malformed(c, "the list of events is missing");
    return MNEM_OK;
}

/* ---- events ---- */

static bool kind_of(const char *text, size_t n, mnem_kind *kind) {
    for (unsigned i = 0; i < MNEM_KIND_COUNT; i++) {
        *kind = (mnem_kind)i;
        const char *is = mnem_kind_text(*kind);
        if (strlen(is) == n && !memcmp(is, text, n)) return true;
    }
    return false;
}

static mnem_status account_find(mnem_trace_reader *reader, mnem_trace_account account,
                                mnem_trace_event *out) {
    uint32_t number;
    MNEM__TRY(mnem__trace_account_find(&reader->tables, &account, &number));
    out->account = (int32_t)number;
    return MNEM_OK;
}

static mnem_status name_find(mnem_trace_reader *reader, const char *text, mnem_trace_event *out) {
    return mnem__trace_name_find(&reader->tables, text, strlen(text), &out->name);
}

/* "kv bytes" with the tag as the key of the number. */
static mnem_status read_live(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    const char *name = text_of(l, "name");
    const size_t n = strlen(name);
    const field *f = &l->fields[l->count - 1];
    mnem_trace_account a = {
        .tag = f->key, .owner = (uint32_t)number_of(l, "id"), .rank = out->rank};
    if (n < 7 || strcmp(name + n - 6, " bytes") != 0 || !kind_of(name, n - 6, &a.kind) || f->text)
        return malformed(reader->state, "an account has an unknown kind");
    out->bytes = f->number;
    return account_find(reader, a, out);
}

static mnem_status read_account(mnem_trace_reader *reader, const line *l, bool pool,
                                mnem_trace_event *out) {
    const char *kind = text_of(l, "kind");
    mnem_trace_account a = {.tag = text_of(l, "tag"),
                            .owner = (uint32_t)number_of(l, "owner"),
                            .pool = pool,
                            .rank = out->rank};
    if (!kind_of(kind, strlen(kind), &a.kind))
        return malformed(reader->state, "an account has an unknown kind");
    return account_find(reader, a, out);
}

static bool number_in(const char *text, const char *(*text_at)(unsigned), unsigned n,
                      uint32_t *out) {
    for (*out = 0; *out < n; ++*out)
        if (!strcmp(text, text_at(*out))) return true;
    return false;
}

static const char *span_at(unsigned i) {
    return mnem_span_text((mnem_span)i);
}
static const char *phase_at(unsigned i) {
    return mnem_trace_phase_text((mnem_trace_phase)i);
}
static const char *class_at(unsigned i) {
    return mnem_refused_text((mnem_refused)i);
}

static mnem_status read_block(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    out->id = number_of(l, "address");
    out->stream = (uint32_t)number_of(l, "stream");
    MNEM__TRY(name_find(reader, text_of(l, "name"), out));
    return read_account(reader, l, true, out);
}

static mnem_status read_refusal(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    if (!number_in(text_of(l, "class"), class_at, MNEM_REFUSED_CLASSES, &out->detail))
        return malformed(reader->state, "a refusal has an unknown class");
    MNEM__TRY(name_find(reader, text_of(l, "tag"), out));
    return read_account(reader, l, number_of(l, "pool") != 0, out);
}

static mnem_status read_request(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    out->id = number_of(l, "id");
    if (!number_in(text_of(l, "phase"), phase_at, MNEM_TRACE_PHASES, &out->detail))
        return malformed(reader->state, "a request has an unknown phase");
    return MNEM_OK;
}

static mnem_status read_span(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    if (!number_in(text_of(l, "cat"), span_at, MNEM_SPANS, &out->detail))
        return malformed(reader->state, "an event has an unknown category");
    return name_find(reader, text_of(l, "name"), out);
}

/* A file of several ranks has them as processes. */
static uint32_t rank_of(const mnem_trace_reader *reader, const line *l) {
    return reader->info.ranks ? (uint32_t)number_of(l, "pid") : 0;
}

static mnem_trace_what what_of(const line *l) {
    const char *cat = text_of(l, "cat"), *phase = text_of(l, "ph");
    static const mnem_trace_what by_category[] = {
        MNEM_TRACE_LIVE,    MNEM_TRACE_REFUSED, MNEM_TRACE_ALLOC,  MNEM_TRACE_FREE,
        MNEM_TRACE_COUNTER, MNEM_TRACE_REQUEST, MNEM_TRACE_DROPPED};
    for (size_t i = 0; i < sizeof by_category / sizeof *by_category; i++)
        if (!strcmp(cat, mnem_trace_what_text(by_category[i]))) return by_category[i];
    return *phase == 'B' ? MNEM_TRACE_BEGIN : *phase == 'E' ? MNEM_TRACE_END : MNEM_TRACE_MARK;
}

static mnem_status read_fields(mnem_trace_reader *reader, const line *l, mnem_trace_event *out) {
    chrome *c = reader->state;
    const field *ts = field_of(l, "ts");
    *out = (mnem_trace_event){.ns = ts ? ts->nano : 0,
                              .what = what_of(l),
                              .thread = (uint32_t)number_of(l, "tid"),
                              .account = -1,
                              .rank = rank_of(reader, l),
                              .bytes = number_of(l, "bytes")};
    if (out->what == MNEM_TRACE_END && !out->bytes) out->bytes = number_of(l, "multiply_adds");
    if (!ts || out->ns < c->last) return malformed(c, "the time is before the previous event's");
    if (out->thread && out->thread >= reader->tables.threads.count)
        return malformed(c, "an event names a thread that was not declared");
    if (reader->info.ranks && out->rank >= reader->info.ranks)
        return malformed(c, "an event names a rank that was not declared");
    c->last = out->ns;
    switch (out->what) {
    case MNEM_TRACE_LIVE: return read_live(reader, l, out);
    case MNEM_TRACE_COUNTER: return name_find(reader, text_of(l, "name"), out);
    case MNEM_TRACE_ALLOC:
    case MNEM_TRACE_FREE: return read_block(reader, l, out);
    case MNEM_TRACE_REFUSED: return read_refusal(reader, l, out);
    case MNEM_TRACE_REQUEST: return read_request(reader, l, out);
    case MNEM_TRACE_DROPPED: return MNEM_OK;
    default: return read_span(reader, l, out);
    }
}

/* The arguments of a thread's name have the same key as its event: they come last. */
static mnem_status read_thread(mnem_trace_reader *reader, const line *l) {
    const field *name = l->count >= 2 ? &l->fields[l->count - 2] : NULL;
    chrome *c = reader->state;
    uint32_t number;
    if (strcmp(text_of(l, "name"), "thread_name") != 0 || c->again) return MNEM_OK;
    if (!name || !name->text || number_of(l, "tid") != reader->tables.threads.count)
        return malformed(c, "a thread is out of order");
    const mnem_trace_thread thread = {
        .tid = (uint32_t)number_of(l, "kernel"), .name = name->text, .rank = rank_of(reader, l)};
    return mnem__trace_thread_add(&reader->tables, &thread, strlen(name->text), &number);
}

static int read_event(mnem_trace_reader *reader, mnem_trace_event *out) {
    chrome *c = reader->state;
    scan s;
    line l;
    int more;
    while ((more = line_next(c, &s)) == 1) {
        if (s.end - s.p == 2 && !memcmp(s.p, "]}", 2)) return 0;
        l.count = 0;
        if (!scan_object(&s, &l, false) || s.p != s.end || !l.count) {
            malformed(c, "the line is not an event");
            return -1;
        }
        const bool meta = *text_of(&l, "ph") == 'M';
        const mnem_status status = meta ? read_thread(reader, &l) : read_fields(reader, &l, out);
        if (status != MNEM_OK) {
            c->status = status;
            return -1;
        }
        if (!meta) return 1;
    }
    if (!more) malformed(c, "the end of the list of events is missing");
    return -1;
}

static int next(mnem_trace_reader *reader, mnem_trace_event *out) {
    chrome *c = reader->state;
    if (!c->pending) return read_event(reader, out);
    c->pending = false;
    *out = c->event;
    return 1;
}

static mnem_status rewind_file(mnem_trace_reader *reader) {
    chrome *c = reader->state;
    c->again = true;
    c->pending = false;
    c->last = c->line = 0;
    MNEM__TRY(mnem__in_rewind(&c->in));
    return read_head(reader);
}

static void close_file(mnem_trace_reader *reader) {
    chrome *c = reader->state;
    mnem__in_close(&c->in);
    mnem__free(c);
}

static mnem_status read_ahead(mnem_trace_reader *reader) {
    chrome *c = reader->state;
    MNEM__TRY(read_head(reader));
    const int more = read_event(reader, &c->event);
    c->pending = more == 1;
    return more < 0 ? c->status : MNEM_OK;
}

mnem_status mnem__trace_chrome_open(const char *path, uint64_t bytes_most,
                                    mnem_trace_reader **out) {
    static const mnem__trace_source source = {next, rewind_file, close_file};
    mnem_trace_reader *reader;
    *out = NULL;
    chrome *c = mnem__calloc("trace", 1, sizeof *c);
    if (!c) return mnem__heap_status();
    c->status = MNEM_BAD_FILE;
    mnem_status status = mnem__in_open(&c->in, path);
    if (status == MNEM_OK) status = mnem__trace_reader_create(&source, bytes_most, &reader);
    if (status != MNEM_OK) {
        mnem__in_close(&c->in);
        mnem__free(c);
        return status;
    }
    reader->state = c;
    status = read_ahead(reader);
    if (status == MNEM_OK)
        *out = reader;
    else
        mnem_trace_reader_close(reader);
    return status;
}
