/* write_chrome.c: a trace in Chrome's JSON object format, an event a line, times in microseconds
 * with three decimals. Names are escaped, since tags and spans are the caller's text; a thread's
 * number is its place in the table, the kernel's is in its name's arguments. */
#include <stdio.h>
#include <string.h>

#include "trace/trace_out.h"
#include "trace/trace_source.h"

enum { TEXT_MOST = 200 };

typedef struct escaped {
    char text[TEXT_MOST * 6 + 1];
} escaped;

static const char *escape(const char *text, escaped *out) {
    size_t used = 0;
    for (size_t i = 0; text[i] && i < TEXT_MOST; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool plain = c >= 32 && c != 127 && c != '"' && c != '\\';
        used += (size_t)snprintf(out->text + used, 7, plain ? "%c" : "\\u%04x", c);
    }
    out->text[used] = 0;
    return out->text;
}

typedef struct writer {
    mnem_trace_reader *reader;
    mnem__out *out;
    uint32_t pid, rank; /* pid: of a process alone */
    bool ranks, first;
} writer;

/* What every line begins with. */
static void begin(writer *w, const char *phase, uint64_t ns) {
    mnem__out_text(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"ts\":%llu.%03u", w->first ? "" : ",",
                   phase, w->ranks ? w->rank : w->pid, (unsigned long long)(ns / 1000),
                   (unsigned)(ns % 1000));
    w->first = false;
}

static const char *name_of(const writer *w, const mnem_trace_event *e, escaped *out) {
    return escape(mnem_trace_reader_name(w->reader, e->name), out);
}

static void put_live(writer *w, const mnem_trace_event *e) {
    mnem_trace_account a;
    escaped tag;
    if (!mnem_trace_reader_account(w->reader, (uint32_t)e->account, &a)) return;
    begin(w, "C", e->ns);
    mnem__out_text(
        w->out, ",\"cat\":\"ledger\",\"id\":%u,\"name\":\"%s bytes\",\"args\":{\"%s\":%llu}}",
        a.owner, mnem_kind_text(a.kind), escape(a.tag, &tag), (unsigned long long)e->bytes);
}

static void put_counter(writer *w, const mnem_trace_event *e) {
    escaped name;
    begin(w, "C", e->ns);
    mnem__out_text(w->out, ",\"cat\":\"counter\",\"name\":\"%s\",\"args\":{\"bytes\":%llu}}",
                   name_of(w, e, &name), (unsigned long long)e->bytes);
}

static void put_block(writer *w, const mnem_trace_event *e) {
    mnem_trace_account a;
    escaped tag, site;
    if (!mnem_trace_reader_account(w->reader, (uint32_t)e->account, &a)) return;
    begin(w, "i", e->ns);
    mnem__out_text(w->out,
                   ",\"s\":\"p\",\"cat\":\"%s\",\"name\":\"%s\",\"args\":{\"kind\":\"%s\","
                   "\"tag\":\"%s\",\"owner\":%u,\"address\":%llu,\"bytes\":%llu,\"stream\":%u}}",
                   mnem_trace_what_text(e->what), name_of(w, e, &site), mnem_kind_text(a.kind),
                   escape(a.tag, &tag), a.owner, (unsigned long long)e->id,
                   (unsigned long long)e->bytes, e->stream);
}

static void put_span(writer *w, const mnem_trace_event *e) {
    escaped name;
    begin(w, e->what == MNEM_TRACE_BEGIN ? "B" : e->what == MNEM_TRACE_END ? "E" : "i", e->ns);
    mnem__out_text(w->out, "%s,\"tid\":%u,\"cat\":\"%s\",\"name\":\"%s\"",
                   e->what == MNEM_TRACE_MARK ? ",\"s\":\"t\"" : "", e->thread,
                   mnem_span_text((mnem_span)e->detail), name_of(w, e, &name));
    const bool adds = e->what == MNEM_TRACE_END && e->detail == MNEM_SPAN_OPERATOR;
    if (e->bytes)
        mnem__out_text(w->out, ",\"args\":{\"%s\":%llu}", adds ? "multiply_adds" : "bytes",
                       (unsigned long long)e->bytes);
    mnem__out_text(w->out, "}");
}

static void put_refusal(writer *w, const mnem_trace_event *e) {
    mnem_trace_account a;
    escaped tag;
    if (!mnem_trace_reader_account(w->reader, (uint32_t)e->account, &a)) return;
    const char *kind = mnem_kind_text(a.kind);
    escape(a.tag, &tag);
    begin(w, "i", e->ns);
    mnem__out_text(w->out,
                   ",\"s\":\"p\",\"tid\":%u,\"cat\":\"refusal\",\"name\":\"refused: %s %s\","
                   "\"args\":{\"kind\":\"%s\",\"tag\":\"%s\",\"owner\":%u,\"pool\":%u,"
                   "\"class\":\"%s\",\"bytes\":%llu}}",
                   e->thread, kind, tag.text, kind, tag.text, a.owner, a.pool,
                   mnem_refused_text((mnem_refused)e->detail), (unsigned long long)e->bytes);
}

/* One span from queued to ended, its phases moments in it. */
static void put_request(writer *w, const mnem_trace_event *e) {
    const char *phase = e->detail == MNEM_TRACE_PHASE_QUEUED  ? "b"
                        : e->detail == MNEM_TRACE_PHASE_ENDED ? "e"
                                                              : "n";
    begin(w, phase, e->ns);
    mnem__out_text(w->out,
                   ",\"tid\":%u,\"cat\":\"request\",\"id\":%llu,\"name\":\"request\","
                   "\"args\":{\"phase\":\"%s\"}}",
                   e->thread, (unsigned long long)e->id,
                   mnem_trace_phase_text((mnem_trace_phase)e->detail));
}

static void put_dropped(writer *w, const mnem_trace_event *e) {
    begin(w, "i", e->ns);
    mnem__out_text(w->out,
                   ",\"s\":\"g\",\"tid\":%u,\"cat\":\"dropped\",\"name\":\"events dropped\","
                   "\"args\":{\"bytes\":%llu}}",
                   e->thread, (unsigned long long)e->bytes);
}

static void put_event(writer *w, const mnem_trace_event *e) {
    w->rank = e->rank;
    switch (e->what) {
    case MNEM_TRACE_LIVE: put_live(w, e); break;
    case MNEM_TRACE_COUNTER: put_counter(w, e); break;
    case MNEM_TRACE_ALLOC:
    case MNEM_TRACE_FREE: put_block(w, e); break;
    case MNEM_TRACE_BEGIN:
    case MNEM_TRACE_END:
    case MNEM_TRACE_MARK: put_span(w, e); break;
    case MNEM_TRACE_REFUSED: put_refusal(w, e); break;
    case MNEM_TRACE_REQUEST: put_request(w, e); break;
    default: put_dropped(w, e); break;
    }
}

/* The first line is what makes a file ours (read_chrome.c). */
static void put_run(writer *w) {
    mnem_trace_file_info info;
    const char *key, *value;
    escaped a, b;
    mnem_trace_reader_info(w->reader, &info);
    w->pid = info.pid;
    w->ranks = info.ranks > 0;
    w->first = true;
    mnem__out_text(w->out,
                   "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"mnem\":1,\"pid\":%u,"
                   "\"events\":%llu,\"dropped\":%llu,\"duration\":%llu,\"budget\":%llu",
                   info.pid, (unsigned long long)info.events, (unsigned long long)info.dropped,
                   (unsigned long long)info.duration_ns, (unsigned long long)info.budget_bytes);
    if (w->ranks) mnem__out_text(w->out, ",\"ranks\":%u", info.ranks);
    mnem__out_text(w->out, "},\n\"metadata\":{");
    for (uint32_t i = 0; mnem_trace_reader_note(w->reader, i, &key, &value); i++)
        mnem__out_text(w->out, "%s\"%s\":\"%s\"", i ? "," : "", escape(key, &a), escape(value, &b));
    mnem__out_text(w->out, "},\n\"traceEvents\":[");
}

static void put_threads(writer *w) {
    mnem_trace_thread thread;
    escaped name;
    mnem_trace_file_info info;
    mnem_trace_reader_info(w->reader, &info);
    for (w->rank = 0; w->rank < (info.ranks ? info.ranks : 1); w->rank++) {
        begin(w, "M", 0);
        mnem__out_text(w->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"mnem");
        if (w->ranks) mnem__out_text(w->out, " rank %u", w->rank);
        mnem__out_text(w->out, "\"}}");
    }
    for (uint32_t i = 0; mnem_trace_reader_thread(w->reader, i, &thread); i++) {
        w->rank = thread.rank;
        begin(w, "M", 0);
        mnem__out_text(
            w->out,
            ",\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\",\"kernel\":%u}}", i,
            escape(thread.name, &name), thread.tid);
    }
}

mnem_status mnem__trace_write_chrome(mnem_trace_reader *reader, const char *path) {
    mnem__out out;
    mnem_trace_event e;
    writer w = {.reader = reader, .out = &out};
    mnem_trace_file_info info;
    mnem_trace_reader_info(reader, &info);
    if (info.ranks > MNEM__CHROME_RANKS)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: %u ranks are too many for Chrome's JSON, which has at most %d; write a .pftrace",
            path, info.ranks, MNEM__CHROME_RANKS);
    MNEM__TRY(mnem__out_open(&out, path));
    put_run(&w);
    put_threads(&w);
    int more;
    while ((more = mnem_trace_reader_next(reader, &e)) == 1 && out.status == MNEM_OK)
        put_event(&w, &e);
    mnem__out_text(&out, "\n]}\n");
    return mnem__out_close(&out, more < 0 ? MNEM_IO : MNEM_OK);
}
