/* trace_kit.h: makes a recording, and reads the file of it event by event. */
#ifndef MNEM_TESTS_TRACE_TRACE_KIT_H
#define MNEM_TESTS_TRACE_TRACE_KIT_H

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/trace.h"
#include "mnem/trace_read.h"

static const char *const formats[] = {"t.pftrace", "t.json"};

typedef struct recording {
    mnem_ledger *ledger;
    mnem_trace *trace;
    char path[256];
} recording;

static inline void begin(recording *r, const char *name, mnem_trace_options options,
                         uint64_t budget) {
    snprintf(r->path, sizeof r->path, "%s", kit_path(name));
    options.path = r->path;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &r->ledger));
    options.ledger = r->ledger;
    must(mnem_trace_create(&options, &r->trace));
}

static inline mnem_trace_reader *written(recording *r) {
    mnem_trace_reader *reader;
    must(mnem_trace_write(r->trace));
    mnem_trace_destroy(r->trace);
    must(mnem_trace_reader_open(r->path, NULL, &reader));
    return reader;
}

/* One of the ledger's own sums. */
static inline bool is_sum(const mnem_trace_reader *reader, const mnem_trace_event *e) {
    return e->what == MNEM_TRACE_COUNTER &&
           strncmp(mnem_trace_reader_name(reader, e->name), "ledger ", 7) == 0;
}

enum { SUMS = 2 }; /* of a ledger without accounts: of all, at both ends */

/* The next one that isn't. */
static inline int next_told(mnem_trace_reader *reader, mnem_trace_event *e) {
    int more;
    do more = mnem_trace_reader_next(reader, e);
    while (more == 1 && is_sum(reader, e));
    return more;
}

static inline mnem_trace_event take(mnem_trace_reader *reader, mnem_trace_what what) {
    mnem_trace_event e;
    const int more = next_told(reader, &e);
    if (more != 1) fail_msg("%d: %s", more, mnem_last_error());
    assert_string_equal(mnem_trace_what_text(e.what), mnem_trace_what_text(what));
    return e;
}

static inline void assert_named(mnem_trace_reader *reader, mnem_trace_what what, const char *name) {
    const mnem_trace_event e = take(reader, what);
    assert_string_equal(mnem_trace_reader_name(reader, e.name), name);
}

#endif
