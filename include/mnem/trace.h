/* mnem/trace.h: a record of what this process did with its bytes and its time: charges, releases
 * and refusals of the ledgers, blocks of the pools, operators, steps, requests, reads, the caller's
 * own spans and numbers; written as a file that viewers open, and that trace_read.h reads.
 *
 * Each thread writes 24 bytes an event into a buffer of its own; full buffers go to a file without
 * a name beside the one to be. Memory is taken once (mnem_trace_bytes). What couldn't be kept (the
 * disk is full) is counted, and the file says where it is missing. One trace records at a time.
 * Not here: the numbers of now (ledger.h), text of prompts.
 * Threads: anything may come from any thread, but create, write and destroy from one.
 *
 *     mnem_trace *trace;
 *     mnem_trace_create(&(mnem_trace_options){.path = "run.pftrace"}, &trace);
 *     mnem_trace_begin("load");
 *     ...
 *     mnem_trace_end("load");
 *     mnem_trace_write(trace);
 *     mnem_trace_destroy(trace);
 */
#ifndef MNEM_TRACE_H
#define MNEM_TRACE_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_trace mnem_trace;

/* X(NAME, endings of the file's name, what it is) */
#define MNEM_TRACE_FORMAT_LIST(X)                                                                  \
    X(PERFETTO, ".pftrace or .perfetto", "Perfetto")                                               \
    X(CHROME, ".json", "Chrome's JSON")                                                            \
    X(SNAPSHOT, ".pickle", "PyTorch's memory snapshot")                                            \
    X(FOLDED, ".folded", "stacks at the peak, for flame graphs")                                   \
    X(ASCEND, "_ascend_pt", "MindStudio Insight's folder")

typedef enum mnem_trace_format {
#define MNEM_TRACE_FORMAT_ENUM(name, endings, text) MNEM_TRACE_##name,
    MNEM_TRACE_FORMAT_LIST(MNEM_TRACE_FORMAT_ENUM)
#undef MNEM_TRACE_FORMAT_ENUM
        MNEM_TRACE_FORMATS
} mnem_trace_format;

/* The format that a file's name asks for. MNEM_INVALID: none; the text lists what there is. */
mnem_status mnem_trace_format_of(const char *path, mnem_trace_format *format);

/* Zero means default, but for path. */
typedef struct mnem_trace_options {
    const char *path;    /* of the file to be; its ending says the format */
    mnem_ledger *ledger; /* its accounts and its budget stand at the beginning, and samples of its
                            sums between them ("ledger N total"; default: none) */
    uint32_t threads;    /* that have buffers of their own; others share one (default 16) */
    uint32_t events;     /* in a buffer (default 2048: 48 KiB) */
    uint32_t names;      /* of accounts, sites, operators and spans (default 4096) */
    uint64_t bytes_most; /* of the file without a name; what comes later is dropped (default: as
                            much as the disk takes) */
} mnem_trace_options;

/* Records from now on. Charged to host, tag "trace". MNEM_BUSY while another trace records;
 * MNEM_INVALID for a path that mnem_trace_format_of refuses; MNEM_IO when its folder can't be
 * written to. */
mnem_status mnem_trace_create(const mnem_trace_options *options, mnem_trace **trace);
void mnem_trace_destroy(mnem_trace *trace); /* NULL is fine */
/* What create takes. NULL: of the defaults. */
uint64_t mnem_trace_bytes(const mnem_trace_options *options);

/* A span of this thread, in the trace that records; without one, nothing. Names are kept once each;
 * those that find no room are "others". */
void mnem_trace_begin(const char *name);
void mnem_trace_end(const char *name);
/* Bytes at this moment, of something that no ledger knows. */
void mnem_trace_counter(const char *name, uint64_t value);
/* What is true of the whole run, such as "model" and "qwen3.gguf". Copied; the last of a key
 * counts. MNEM_OVER_BUDGET: more than 4 KiB of them. */
mnem_status mnem_trace_note(mnem_trace *trace, const char *key, const char *value);

typedef struct mnem_trace_info {
    uint64_t events, dropped; /* kept (in buffers put away so far); not kept */
    uint64_t bytes_spilled;   /* of the file without a name */
    uint32_t threads, names;
} mnem_trace_info;
void mnem_trace_info_get(const mnem_trace *trace, mnem_trace_info *info);

/* Nanoseconds of CLOCK_MONOTONIC when it began. */
uint64_t mnem_trace_began(const mnem_trace *trace);

/* Ends the recording and writes the file, beside its place and renamed. MNEM_IO names it. */
mnem_status mnem_trace_write(mnem_trace *trace);
/* The same under another name, whose ending says the format. */
mnem_status mnem_trace_write_to(mnem_trace *trace, const char *path);

/* The trace of a rank, which is its place in the list: one that mnem_trace_write wrote for
 * Perfetto. */
typedef struct mnem_trace_part {
    const char *path;
    uint64_t shift_ns; /* its beginning in the time of all */
    int64_t clock_ns;  /* for the file: how far its clock is before the first rank's, by */
    uint64_t error_ns; /* at most this wrong */
} mnem_trace_part;
/* Merges them by time into one file, for Perfetto or as Chrome's JSON, in which ranks are
 * processes. Takes a window of 64 KiB and the names of each part. MNEM_UNSUPPORTED: a format that
 * holds one process; statuses of mnem_trace_reader_open. */
enum { MNEM_TRACE_PARTS_MAX = 256 };
mnem_status mnem_trace_merge(const mnem_trace_part *parts, uint32_t count, const char *path);

#ifdef __cplusplus
}
#endif
#endif
