/* source_trace.c: traces that mnem recorded (trace_read.h) as a report's events.
 *
 * The idea: each event is told as it is; accounts of ledgers are what is live, blocks of pools lie
 * within them. A block's id is its address and its pool, since pools of devices that are only
 * numbers share addresses. A site's number is its name's and 1. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "mnem/trace_read.h"
#include "sight/report/report_source.h"

typedef struct trace_source {
    mnem__report_source base;
    mnem_trace_reader *reader;
    uint32_t rank;
    char program[128];
} trace_source;

/* The name of the counter that is the process's memory. */
static bool is_resident(const trace_source *s, uint32_t name) {
    return strcmp(mnem_trace_reader_name(s->reader, name), "VmRSS") == 0;
}

static bool is_left(const trace_source *s, uint32_t name) {
    return strcmp(mnem_trace_reader_name(s->reader, name), "runs without operators") == 0;
}

/* Of a counter "ledger N KIND" or "ledger N total": N, and the kind or -1. */
static bool is_sum(const trace_source *s, uint32_t name, uint64_t *ledger, int32_t *kind) {
    unsigned owner;
    int n = 0;
    const char *text = mnem_trace_reader_name(s->reader, name);
    if (sscanf(text, "ledger %u %n", &owner, &n) != 1 || !n) return false;
    *ledger = owner;
    *kind = -1;
    if (strcmp(text + n, "total") == 0) return true;
    for (*kind = 0; *kind < MNEM_KIND_COUNT; ++*kind)
        if (strcmp(text + n, mnem_kind_text((mnem_kind)*kind)) == 0) return true;
    return false;
}

static bool trace_within(mnem__report_source *self, int32_t account, uint64_t ledger,
                         int32_t kind) {
    mnem_trace_account a;
    return account >= 0 &&
           mnem_trace_reader_account(((trace_source *)self)->reader, (uint32_t)account, &a) &&
           !a.pool && a.owner == ledger && (kind < 0 || (int32_t)a.kind == kind);
}

static uint64_t block_of(const trace_source *s, const mnem_trace_event *from) {
    mnem_trace_account account = {0};
    if (from->account >= 0) mnem_trace_reader_account(s->reader, (uint32_t)from->account, &account);
    return from->id ^ (uint64_t)account.owner << 56;
}

static mnem__report_what what_of(const trace_source *s, const mnem_trace_event *from) {
    switch (from->what) {
    case MNEM_TRACE_LIVE: return MNEM__REPORT_CHARGE;
    case MNEM_TRACE_REFUSED: return MNEM__REPORT_REFUSE;
    case MNEM_TRACE_ALLOC: return MNEM__REPORT_ALLOC;
    case MNEM_TRACE_FREE: return MNEM__REPORT_FREE;
    case MNEM_TRACE_BEGIN: return MNEM__REPORT_BEGIN;
    case MNEM_TRACE_END: return MNEM__REPORT_END;
    case MNEM_TRACE_COUNTER:
        return is_resident(s, from->name) ? MNEM__REPORT_RESIDENT
               : is_left(s, from->name)   ? MNEM__REPORT_LEFT
                                          : MNEM__REPORT_TICK;
    default: return MNEM__REPORT_TICK;
    }
}

static mnem_status trace_next(mnem__report_source *self, mnem__report_event *e) {
    trace_source *s = (trace_source *)self;
    mnem_trace_event from;
    const int more = mnem_trace_reader_next(s->reader, &from);
    if (more < 0) return MNEM_BAD_FILE;
    if (!more) return MNEM_NOT_FOUND;
    *e = (mnem__report_event){.what = what_of(s, &from),
                              .account = from.account,
                              .name = from.name,
                              .thread = from.thread,
                              .at = from.ns,
                              .bytes = from.bytes};
    if (from.what == MNEM_TRACE_COUNTER && is_sum(s, from.name, &e->id, &e->why))
        e->what = MNEM__REPORT_SAMPLE;
    if (e->what == MNEM__REPORT_REFUSE) e->why = (int32_t)from.detail;
    if (e->what == MNEM__REPORT_BEGIN) e->why = (int32_t)from.detail;
    if (e->what == MNEM__REPORT_ALLOC || e->what == MNEM__REPORT_FREE) e->id = block_of(s, &from);
    if (e->what == MNEM__REPORT_ALLOC) {
        e->granted = from.bytes;
        e->address = from.id;
        if (*mnem_trace_reader_name(s->reader, from.name)) e->site = from.name + 1;
    }
    return MNEM_OK;
}

static mnem_status trace_rewind(mnem__report_source *self) {
    return mnem_trace_reader_rewind(((trace_source *)self)->reader);
}

static void trace_account(mnem__report_source *self, int32_t account, const char **kind,
                          const char **tag) {
    const trace_source *s = (trace_source *)self;
    mnem_trace_account found;
    *kind = *tag = "";
    if (account < 0 || !mnem_trace_reader_account(s->reader, (uint32_t)account, &found)) return;
    *kind = mnem_kind_text(found.kind);
    *tag = found.tag;
}

static const char *trace_name(mnem__report_source *self, uint32_t name) {
    return mnem_trace_reader_name(((trace_source *)self)->reader, name);
}

static const char *trace_site(mnem__report_source *self, uint32_t site) {
    return site ? trace_name(self, site - 1) : "";
}

/* A number that was noted of the run; 0: it wasn't. */
static uint64_t noted(const trace_source *s, const char *key) {
    const char *text = mnem_trace_reader_note_of(s->reader, key);
    uint64_t n = 0;
    for (; text && *text >= '0' && *text <= '9' && n < UINT64_MAX / 16; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return n;
}

/* What was noted of who wrote it: "mnem run model.gguf". */
static void name_program(trace_source *s) {
    const char *program = mnem_trace_reader_note_of(s->reader, "program");
    const char *verb = mnem_trace_reader_note_of(s->reader, "verb");
    const char *model = mnem_trace_reader_note_of(s->reader, "model");
    if (program)
        snprintf(s->program, sizeof s->program, "%s", program);
    else if (verb)
        snprintf(s->program, sizeof s->program, "mnem %s%s%s", verb, model ? " " : "",
                 model ? model : "");
}

/* What is said of a rank, and whose it is. */
static void name_rank(trace_source *s, mnem__report_about *about) {
    char key[24];
    if (!about->ranks) return;
    const size_t n = strlen(s->program);
    snprintf(s->program + n, sizeof s->program - n, ", rank %u of %u", about->rank, about->ranks);
    snprintf(key, sizeof key, "rank %u", about->rank);
    const char *text = NULL, *is, *value;
    for (uint32_t i = 0; mnem_trace_reader_note(s->reader, i, &is, &value); i++)
        if (!strcmp(is, key)) text = strstr(value, "clock ");
    about->clock = text;
}

static void trace_about(mnem__report_source *self, mnem__report_about *about) {
    trace_source *s = (trace_source *)self;
    mnem_trace_file_info info;
    mnem_trace_reader_info(s->reader, &info);
    name_program(s);
    *about = (mnem__report_about){.format = *s->program ? "trace" : "trace of mnem",
                                  .program = s->program,
                                  .roofs = mnem_trace_reader_note_of(s->reader, "roofs"),
                                  .clocked = true,
                                  .dropped = info.dropped,
                                  .budget_bytes = info.budget_bytes,
                                  .predicted_bytes = noted(s, "predicted_bytes"),
                                  .threads = info.threads,
                                  .rank = s->rank,
                                  .ranks = info.ranks};
    name_rank(s, about);
}

static void trace_close(mnem__report_source *self) {
    mnem_trace_reader_close(((trace_source *)self)->reader);
    mnem__free(self);
}

/* Of a file of several ranks one's events: those of all would be several ledgers' in one sum. */
static mnem_status open_rank(const char *path, uint32_t rank, mnem_trace_reader **reader) {
    mnem_trace_reader_options o = {.only = rank};
    mnem_trace_file_info info;
    MNEM__TRY(mnem_trace_reader_open(path, &o, reader));
    mnem_trace_reader_info(*reader, &info);
    if (rank || !info.ranks) return MNEM_OK;
    mnem_trace_reader_close(*reader);
    o.only = 1;
    return mnem_trace_reader_open(path, &o, reader);
}

mnem_status mnem__report_open_trace(const char *path, const mnem_report_options *options,
                                    mnem__report_source **source) {
    mnem_trace_reader *reader;
    *source = NULL;
    MNEM__TRY(open_rank(path, options->rank, &reader));
    trace_source *s = mnem__calloc("report", 1, sizeof *s);
    if (!s) {
        mnem_trace_reader_close(reader);
        return mnem__heap_status();
    }
    s->reader = reader;
    s->rank = options->rank ? options->rank - 1 : 0;
    s->base = (mnem__report_source){trace_next, trace_rewind, trace_account, trace_within,
                                    trace_site, trace_name,   trace_about,   trace_close};
    *source = &s->base;
    return MNEM_OK;
}
