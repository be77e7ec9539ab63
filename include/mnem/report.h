/* mnem/report.h: statistics of a trace: who held which bytes, and where the time went.
 *
 * Reads traces that mnem recorded (trace_read.h), PyTorch memory snapshots and text traces
 * (replay.h). It makes one pass over the events in bounded memory, and a second one up to the peak
 * where the file has addresses of blocks. Values that a file doesn't record are marked as not
 * known, and are never guessed. Not here: what to do about it (advice.h).
 *
 * Terms (docs/report.md), all in bytes:
 *   L live      allocated and not freed, as requested
 *   G granted   the same with rounding
 *   R reserved  held from the device
 *   B budget; H the largest free hole in the reserved bytes
 *   internal = (G - L) / G    external = (R - G) / R    unusable = 1 - H / (R - G)
 *   efficiency = sum of L over time / sum of R    utilisation = peak of L / B
 * Averages over time are weighted by nanoseconds, or by operations where the record has no clock.
 * Threads: a report belongs to one thread at a time.
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
    bool device_given; /* read `device` (default: the device with most events in the snapshot) */
    uint32_t device;
    uint32_t rank; /* 1 + the rank to read, in a trace of several ranks (default: rank 0) */
    mnem_progress progress;
} mnem_report_options;

/* X(NAME, text): why a request was refused. CAPACITY: live + request exceeded the budget or the
 * reserved bytes. FRAGMENTATION: enough bytes were free, but in no single hole. LIMIT: the limit of
 * an account was reached. SYSTEM: the machine refused. */
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

/* A number over time. The other members are 0 where known is false. */
typedef struct mnem_report_level {
    bool known;
    uint64_t at_peak; /* at the instant at which most bytes are live */
    uint64_t most;    /* the maximum */
    double mean;      /* weighted by time */
} mnem_report_level;

/* An owner of bytes: an account (kind and tag, with site ""), or a site within an account. */
typedef struct mnem_report_owner {
    const char *kind, *tag, *site;
    uint64_t bytes_at_peak, blocks_at_peak; /* blocks: 0 where they aren't recorded */
    uint64_t bytes_most;                    /* its own peak, at any time */
    uint64_t bytes_end, blocks_end;
    uint64_t bytes_total, allocations;
} mnem_report_owner;

/* Blocks of one owner that were allocated within the record and never freed. Ages are in the
 * unit of the record's clock (nanoseconds or operations). */
typedef struct mnem_report_leak {
    const char *kind, *tag, *site;
    uint64_t bytes, blocks;
    uint64_t age_oldest, age_median;
    bool growing; /* some of them were allocated in each quarter of the record */
} mnem_report_leak;

/* Spans of one name. */
typedef struct mnem_report_operator {
    const char *name;
    const char *sort;              /* "operator", "step", "read", ... (trace_read.h) */
    uint64_t count, bytes;         /* bytes: moved, as recorded; 0: not recorded */
    uint64_t multiply_adds;        /* 0: not recorded */
    uint64_t ns_total, ns_longest; /* ns_total: spans within it included */
} mnem_report_operator;

typedef struct mnem_report_facts {
    const char *path, *format;
    const char *program; /* that wrote the file; "": not recorded */
    const char *roofs;   /* of its machine: levels with bytes/s, then peaks with operations/s, as in
                            "L2 81000000000,memory 12000000000;f32 200000000000"; NULL: not
                            recorded */
    bool clocked;        /* times are nanoseconds; else operations */
    uint64_t duration;   /* first to last event */
    uint64_t events, allocations, threads;
    uint32_t rank, ranks;      /* the rank that was read, of how many; ranks 0: of one process */
    const char *clock;         /* "clock 1200 +- 300 ns": how far the rank's clock was ahead of rank
                                  0's; NULL: not recorded */
    bool blocks;               /* single blocks are recorded */
    uint64_t dropped;          /* events that were lost or contradict others */
    uint64_t budget_bytes;     /* 0: none, or not recorded */
    uint64_t bytes_peak;       /* the most live bytes */
    uint64_t peak_at;          /* time of that peak since the first event */
    uint64_t bytes_end;        /* live at the end */
    uint64_t bytes_before;     /* live when the record began */
    uint64_t resident_most;    /* VmRSS, the largest sample; 0: not recorded */
    uint64_t resident_at_peak; /* the last sample before the peak */
    bool unaccounted_known;
    int64_t unaccounted_bytes; /* the largest VmRSS - live of all samples. Below 0: live bytes were
                                  not touched yet, or aren't memory */
    uint64_t samples, samples_equal; /* samples of a ledger's sums, by kind and in all; those that
                                        equal the sum of the events before them */
    uint64_t predicted_bytes;        /* the plan's peak; 0: not recorded */
    mnem_report_level live, granted, reserved;
    bool hole_known;
    uint64_t hole_at_peak; /* H */
    mnem_report_refused refused[MNEM_REPORT_REFUSALS];
    uint64_t disk_bytes, disk_ns, disk_reads; /* ns: the sum over all reads */
    uint64_t runs_left_out;                   /* runs of graphs whose operators weren't recorded */
    size_t accounts, sites, leaks, ops;
    const mnem_report_owner *account;     /* [accounts], most at the peak first */
    const mnem_report_owner *site;        /* [sites], the same; none without sites */
    const mnem_report_leak *leak;         /* [leaks], most bytes first */
    const mnem_report_operator *op;       /* [ops], most time first */
    uint64_t leaked_bytes, leaked_blocks; /* sums of leak */
} mnem_report_facts;

/* Reads a file and computes its facts. options may be NULL. Statuses of mnem_workload_open for a
 * file that can't be read; MNEM_CANCELLED, MNEM_NO_MEMORY, MNEM_OVER_BUDGET. *report is NULL on
 * failure. */
mnem_status mnem_report_create(const char *path, const mnem_report_options *options,
                               mnem_report **report);
void mnem_report_destroy(mnem_report *report);                             /* NULL is fine */
const mnem_report_facts *mnem_report_facts_get(const mnem_report *report); /* until destroy */

/* Receives text; write returns false to stop. */
typedef struct mnem_report_sink {
    bool (*write)(void *context, const char *text, size_t n);
    void *context;
} mnem_report_sink;
/* Writes the data of a page as a JSON object that may be embedded in an HTML script: tags, sites
 * and levels in 4096 buckets of time, the 20,000 largest blocks, the longest spans and a raster of
 * all blocks (docs/report.md describes it). Reads the file twice more. MNEM_IO when the sink
 * returns false; MNEM_NO_MEMORY; statuses of reading the file. */
mnem_status mnem_report_draw(mnem_report *report, const mnem_report_sink *sink);

/* ---- derived by the definitions above; mnem_report_measure returns false and sets *value to 0
 * where the value isn't known ---- */

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
