/* facts_trace.c: facts of a trace that a program recorded with the library (trace.h): what its
 * ledgers refused, what is left, what its operators used of the workspace that was taken for them,
 * and what went between host and device with and without a copy.
 *
 * The idea: sums are the report's; the rest are marks and counters of one more pass. Of workspaces
 * the largest that a run used is known where it was checked (mnem_op_check, a queue, a graph), what
 * was taken where a ledger has it under that kind. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "mnem/report.h"
#include "mnem/trace_read.h"
#include "sight/advice/checks.h"

#define SET(name, value) mnem_facts_set(facts, MNEM_FACT_##name, (double)(value))

typedef struct seen {
    uint64_t used, copied, handed;
} seen;

static void see(const mnem_trace_reader *reader, const mnem_trace_event *e, seen *s) {
    if (e->rank > 0) return; /* the report is rank 0's */
    if (e->what != MNEM_TRACE_COUNTER && e->what != MNEM_TRACE_MARK) return;
    const char *name = mnem_trace_reader_name(reader, e->name);
    if (e->what == MNEM_TRACE_COUNTER && strcmp(name, "workspace used") == 0 && e->bytes > s->used)
        s->used = e->bytes;
    if (e->what != MNEM_TRACE_MARK || e->detail != MNEM_SPAN_STREAM) return;
    if (strcmp(name, "copied over") == 0) s->copied += e->bytes;
    if (strcmp(name, "handed over") == 0) s->handed += e->bytes;
}

static mnem_status pass(const char *path, seen *s) {
    mnem_trace_reader *reader;
    mnem_trace_event e;
    int more;
    MNEM__TRY(mnem_trace_reader_open(path, NULL, &reader));
    while ((more = mnem_trace_reader_next(reader, &e)) == 1) see(reader, &e, s);
    mnem_trace_reader_close(reader);
    return more ? MNEM_BAD_FILE : MNEM_OK;
}

/* What an account of workspaces held at the most; all of them together. */
static uint64_t workspace_of(const mnem_report_facts *r) {
    uint64_t most = 0;
    for (size_t i = 0; i < r->accounts; i++)
        if (strcmp(r->account[i].kind, mnem_kind_text(MNEM_KIND_WORKSPACE)) == 0)
            most += r->account[i].bytes_most;
    return most;
}

static void set_leaks(const mnem_report_facts *r, mnem_facts *facts) {
    uint64_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < r->leaks; i++) {
        blocks += r->leak[i].growing ? r->leak[i].blocks : 0;
        bytes += r->leak[i].growing ? r->leak[i].bytes : 0;
    }
    SET(GROWING_BLOCKS, blocks);
    SET(GROWING_BYTES, bytes);
    SET(END_BLOCKS, r->leaked_blocks);
    SET(END_BYTES, r->leaked_bytes);
    if (r->leaks)
        snprintf(facts->site, sizeof facts->site, "%.31s %.31s %.60s", r->leak[0].kind,
                 r->leak[0].tag, r->leak[0].site);
}

static void set_sums(const mnem_report_facts *r, mnem_facts *facts) {
    uint64_t refused = 0;
    for (int i = 0; i < MNEM_REPORT_REFUSALS; i++) refused += r->refused[i].count;
    SET(REFUSALS, refused);
    if (r->budget_bytes) SET(BUDGET, r->budget_bytes);
    if (r->blocks) set_leaks(r, facts);
}

mnem_status mnem_facts_trace(const char *path, mnem_facts *facts) {
    seen s = {.used = 0};
    mnem_report *report;
    MNEM__TRY(pass(path, &s));
    MNEM__TRY(mnem_report_create(path, NULL, &report));
    const mnem_report_facts *r = mnem_report_facts_get(report);
    const uint64_t workspace = workspace_of(r);
    set_sums(r, facts);
    if (s.used) SET(WORKSPACE_USED, s.used);
    if (workspace) SET(WORKSPACE, workspace);
    if (s.copied + s.handed) {
        SET(HANDED_OVER, s.copied + s.handed);
        SET(ZERO_COPY, (double)s.handed / (double)(s.copied + s.handed));
    }
    mnem_report_destroy(report);
    return MNEM_OK;
}
