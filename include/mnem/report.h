/* mnem/report.h: where every byte and every moment went: what a trace says, as numbers.
 *
 * Reads traces that mnem recorded (trace_read.h), PyTorch memory snapshots and text traces
 * (replay.h) as they are: one pass over the events in bounded memory, and a second one up to the
 * peak, where blocks have addresses. What a file doesn't record is told as not known, and is never
 * guessed. Not here: what to do about it (advice.h).
 *
 * The words (docs/report.md):
 *   L live    bytes asked for and not given back
 *   G granted what they take with rounding
 *   R reserved  taken from the device
 *   B budget; H the largest hole in what is reserved
 *   internal = (G - L) / G    external = (R - G) / R    unusable = 1 - H / (R - G)
 *   efficiency = sum of L over time / sum of R    utilisation = peak of L / B
 * Weights are nanoseconds, or operations where the record has no clock.
 * Threads: a report is one thread's at a time.
 *
 *     mnem_report *r;
 *     if (mnem_report_create("snapshot.pickle", NULL, &r) == MNEM_OK) {
 *         const mnem_report_facts *f = mnem_report_facts_get(r);
 *         printf("peak %llu bytes\n", (unsigned long long)f->bytes_peak);
 *     }
 *     mnem_report_destroy(r);
 */
#ifndef MNEM_REPORT_H
#define MNEM_REPORT_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_report mnem_report;

/* Zero means default. */
typedef struct mnem_report_options {
    bool device_given; /* snapshots of several devices: this one (default: most events) */
    uint32_t device;
    uint32_t rank; /* 1 + a rank, of a trace of several (default: rank 0's events) */
    mnem_progress progress;
} mnem_report_options;

/* X(NAME, text): why a request was refused. CAPACITY: live + request > the budget, or than what is
 * reserved. FRAGMENTATION: reserved - granted held the request, no hole did. LIMIT: of an account.
 * SYSTEM: the machine. */
#define MNEM_REPORT_REFUSAL_LIST(X)                                                                \
    X(CAPACITY, "capacity")                                                                        \
    X(FRAGMENTATION, "fragmentation")                                                              \
    X(LIMIT, "limit")                                                                              \
    X(SYSTEM, "system")

typedef enum mnem_report_refusal {
#define MNEM_REPORT_REFUSAL_ENUM(name, text) MNEM_REPORT_##name,
    MNEM_REPORT_REFUSAL_LIST(MNEM_REPORT_REFUSAL_ENUM)
#undef MNEM_REPORT_REFUSAL_ENUM
        MNEM_REPORT_REFUSALS
} mnem_report_refusal;
const char *mnem_report_refusal_text(mnem_report_refusal why); /* static storage */

typedef struct mnem_report_refused {
    uint64_t count, bytes_largest, bytes_last;
} mnem_report_refused;

/* A number over time; not known: the other two are 0. */
typedef struct mnem_report_level {
    bool known;
    uint64_t at_peak; /* at the instant of the peak of what is live */
    uint64_t most;    /* ever */
    double mean;      /* weighted by time */
} mnem_report_level;

/* Who held: an account (kind and tag, site ""), or a site of one. Shares are of the peak. */
typedef struct mnem_report_owner {
    const char *kind, *tag, *site;
    uint64_t bytes_at_peak, blocks_at_peak; /* blocks: 0 where nobody counts them */
    uint64_t bytes_most;                    /* its own peak, whenever */
    uint64_t bytes_end, blocks_end;
    uint64_t bytes_total, allocations;
} mnem_report_owner;

/* Blocks of one owner that were taken within the record and never given back. Ages are in the
 * unit of the record's clock. */
typedef struct mnem_report_leak {
    const char *kind, *tag, *site;
    uint64_t bytes, blocks;
    uint64_t age_oldest, age_median;
    bool growing; /* some of them were taken in each quarter of the record */
} mnem_report_leak;

/* Spans of one name. */
typedef struct mnem_report_operator {
    const char *name;
    const char *sort;              /* "operator", "step", "read", ... (trace_read.h) */
    uint64_t count, bytes;         /* bytes: that it said it moves; 0: it didn't say */
    uint64_t multiply_adds;        /* the same */
    uint64_t ns_total, ns_longest; /* ns_total: with what runs within it */
} mnem_report_operator;

typedef struct mnem_report_facts {
    const char *path, *format;
    const char *program; /* what wrote it; "": nobody knows */
    const char *roofs;   /* of its machine: levels with bytes/s, then peaks with operations/s, as in
                            "L2 81000000000,memory 12000000000;f32 200000000000"; NULL: not noted */
    bool clocked;        /* times are nanoseconds; else operations */
    uint64_t duration;   /* first to last event */
    uint64_t events, allocations, threads;
    uint32_t rank, ranks;      /* whose the events are, of how many; ranks 0: of one process */
    const char *clock;         /* "clock 1200 +- 300 ns": how far that rank's was before rank 0's;
                                  NULL: not noted */
    bool blocks;               /* single blocks are recorded */
    uint64_t dropped;          /* events that were lost or contradict the others */
    uint64_t budget_bytes;     /* 0: none, or nobody knows */
    uint64_t bytes_peak;       /* of what is live */
    uint64_t peak_at;          /* when, since the first event */
    uint64_t bytes_end;        /* live at the end */
    uint64_t bytes_before;     /* live when the record began */
    uint64_t resident_most;    /* VmRSS, the largest sample; 0: not recorded */
    uint64_t resident_at_peak; /* the sample next before the peak */
    bool unaccounted_known;
    int64_t unaccounted_bytes; /* VmRSS less what was live then: the most of all samples. Below 0:
                                  what is live wasn't touched yet, or isn't memory */
    uint64_t samples, samples_equal; /* of a ledger's own sums, by kind and in all; those that
                                        the events so far came to, to the byte */
    uint64_t predicted_bytes;        /* the plan's peak; 0: not recorded */
    mnem_report_level live, granted, reserved;
    bool hole_known;
    uint64_t hole_at_peak; /* H */
    mnem_report_refused refused[MNEM_REPORT_REFUSALS];
    uint64_t disk_bytes, disk_ns, disk_reads; /* ns: sum of the reads' own times */
    uint64_t runs_left_out;                   /* of programs: their operators weren't told */
    size_t accounts, sites, leaks, ops;
    const mnem_report_owner *account;     /* [accounts], most at the peak first */
    const mnem_report_owner *site;        /* [sites], the same; none without sites */
    const mnem_report_leak *leak;         /* [leaks], most bytes first */
    const mnem_report_operator *op;       /* [ops], most time first */
    uint64_t leaked_bytes, leaked_blocks; /* sums of leak */
} mnem_report_facts;

/* Reads and counts. What mnem_workload_open says of a file that it can't read; MNEM_CANCELLED,
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. *report is NULL then. options may be NULL. */
mnem_status mnem_report_create(const char *path, const mnem_report_options *options,
                               mnem_report **report);
void mnem_report_destroy(mnem_report *report);                             /* NULL is fine */
const mnem_report_facts *mnem_report_facts_get(const mnem_report *report); /* until destroy */

/* Where text goes; false ends it. */
typedef struct mnem_report_sink {
    bool (*write)(void *context, const char *text, size_t n);
    void *context;
} mnem_report_sink;
/* What a page draws, as a JSON object that HTML may hold in a script: tags, sites and levels in
 * 4096 buckets of time, the 20,000 largest blocks and the longest spans, a raster of all blocks.
 * docs/report.md says what is in it. Two more passes. MNEM_IO when the sink takes no more;
 * MNEM_NO_MEMORY; what the source says. */
mnem_status mnem_report_draw(mnem_report *report, const mnem_report_sink *sink);

/* ---- derived, by the definitions above; false: not known, *value 0 ---- */

/* X(NAME, key, text, unit): in the order in which --fail-on lists them. Unit: B, %, time (in the
 * unit of the clock), or "" for a count. */
#define MNEM_REPORT_METRIC_LIST(X)                                                                 \
    X(PEAK, "peak", "peak of live bytes", "B")                                                     \
    X(END, "end", "live at the end", "B")                                                          \
    X(RESERVED, "reserved", "most reserved", "B")                                                  \
    X(RESIDENT, "resident", "peak resident (VmRSS)", "B")                                          \
    X(UNACCOUNTED, "unaccounted", "resident less live, at most (< 0: some untouched)", "B")        \
    X(UTILISATION, "utilisation", "peak / budget", "%")                                            \
    X(FRAGMENTATION, "fragmentation", "1 - live / reserved, at the peak", "%")                     \
    X(INTERNAL, "internal", "(granted - live) / granted, at the peak", "%")                        \
    X(EXTERNAL, "external", "(reserved - granted) / reserved, at the peak", "%")                   \
    X(UNUSABLE, "unusable", "1 - largest hole / free, at the peak", "%")                           \
    X(EFFICIENCY, "efficiency", "live / reserved, over time", "%")                                 \
    X(PREDICTION_ERROR, "prediction_error", "(predicted - resident) / resident", "%")              \
    X(REFUSALS, "refusals", "requests that were refused", "")                                      \
    X(LEAKS, "leaks", "blocks taken within the record and never given back", "")                   \
    X(LEAKED, "leaked", "their bytes", "B")                                                        \
    X(GROWING, "growing", "owners whose leaks began in every quarter of the record", "")           \
    X(ALLOCATIONS, "allocations", "allocations", "")                                               \
    X(DROPPED, "dropped", "events that were lost", "")                                             \
    X(SAMPLES_OFF, "samples_off", "samples of the ledger's sums that the events don't make", "")   \
    X(DURATION, "duration", "first to last event", "time")

typedef enum mnem_report_metric {
#define MNEM_REPORT_METRIC_ENUM(name, key, text, unit) MNEM_REPORT_METRIC_##name,
    MNEM_REPORT_METRIC_LIST(MNEM_REPORT_METRIC_ENUM)
#undef MNEM_REPORT_METRIC_ENUM
        MNEM_REPORT_METRICS
} mnem_report_metric;

typedef struct mnem_report_metric_info {
    const char *key, *text, *unit; /* static storage */
} mnem_report_metric_info;
mnem_report_metric_info mnem_report_metric_get(mnem_report_metric metric);
bool mnem_report_measure(const mnem_report_facts *facts, mnem_report_metric metric, double *value);

#ifdef __cplusplus
}
#endif
#endif
