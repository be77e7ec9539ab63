/* report_private.h: shared by the files of a report. Each calls only earlier ones: live_blocks,
 * holders, report_spans, report_count, report_hole, report_lists, report_create. */
#ifndef MNEM_SRC_SIGHT_REPORT_REPORT_PRIVATE_H
#define MNEM_SRC_SIGHT_REPORT_REPORT_PRIVATE_H

#include "sight/report/holders.h"
#include "sight/report/live_blocks.h"
#include "sight/report/report_source.h"

/* The integral of a quantity over time. */
typedef struct mnem__integral {
    uint64_t now, at_peak, most;
    unsigned __int128 sum;
} mnem__integral;

/* ---- spans of threads, summed by name (report_spans.c) ---- */
typedef struct mnem__span_sum {
    uint64_t count, bytes, multiply_adds, total, longest;
    uint32_t name;
    int32_t sort; /* mnem_span of the last one */
} mnem__span_sum;

enum { MNEM__SPAN_DEPTH = 32 };
typedef struct mnem__span_stack {
    uint32_t thread, depth; /* a depth beyond the array is counted, but not timed */
    uint32_t name[MNEM__SPAN_DEPTH];
    int32_t sort[MNEM__SPAN_DEPTH];
    uint64_t from[MNEM__SPAN_DEPTH], bytes[MNEM__SPAN_DEPTH];
} mnem__span_stack;

typedef struct mnem__spans {
    mnem__span_sum *of; /* [count], by number of the name */
    uint32_t count;
    mnem__span_stack *stack; /* [stacks] */
    uint32_t stacks;
} mnem__spans;
/* A finished span. */
typedef struct mnem__span {
    uint64_t from, to, bytes, multiply_adds;
    uint32_t name, lane,
        depth; /* lane: its thread's number, from 0; depth: number of enclosing spans */
    int32_t sort;
} mnem__span;
/* Processes the begin or end of a span; *ended: a span has finished, and is in *span.
 * MNEM_NO_MEMORY. */
mnem_status mnem__spans_tell(mnem__spans *spans, const mnem__report_event *event, bool *ended,
                             mnem__span *span);
void mnem__spans_fini(mnem__spans *spans);

/* ---- counting (report_count.c) ---- */
typedef struct mnem__count {
    mnem__report_source *source;
    mnem__live_blocks blocks;
    mnem__holders accounts; /* by charges, or by blocks; site is 0 */
    mnem__holders sites;    /* by blocks */
    mnem__spans spans;
    mnem__integral live, granted, reserved; /* reserved.now holds a signed number */
    uint64_t events, allocations, at, peak_at, peak_event, bytes_before;
    uint64_t resident, resident_most, resident_at_peak;
    int64_t unaccounted; /* the largest of all samples */
    bool sampled;
    uint64_t samples, samples_equal; /* samples of ledgers' sums, and those that equal ours */
    bool sample_differs;             /* a kind of the current sample differs */
    uint64_t disk_bytes, disk_ns, disk_reads, runs_left_out;
    mnem_report_refused refused[MNEM_REPORT_REFUSALS];
    bool charged; /* the record has charges: they count as live, and blocks are parts of them */
    bool sited;
} mnem__count;

mnem_status mnem__count_event(mnem__count *c, const mnem__report_event *event);
/* The part of counting that concerns spans; *ended and *span as in mnem__spans_tell. */
mnem_status mnem__count_span(mnem__count *c, const mnem__report_event *event, bool *ended,
                             mnem__span *span);
void mnem__count_fini(mnem__count *c);

struct mnem_report {
    mnem__report_source *source;
    mnem_report_options options;
    mnem__report_about about;
    mnem__count count;
    mnem_report_facts facts;
    char *path;
    mnem_report_owner *account, *site;
    mnem_report_leak *leak;
    mnem_report_operator *operators;
};

/* Finds the largest hole at the peak (report_hole.c), in a second pass up to the peak. */
mnem_status mnem__report_hole(mnem_report *r);
/* Fills in the owners, leaks and operators of the facts (report_lists.c). */
mnem_status mnem__report_lists(mnem_report *r);

#endif
