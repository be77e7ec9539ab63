/* mnem/trace.h: records what this process does with its bytes and its time: charges, releases and
 * refusals of the ledgers, blocks of the pools, operators, steps, requests, reads, and the caller's
 * own spans and counters. Writes a file for trace viewers and for trace_read.h.
 *
 * Each thread writes events of 24 bytes into a buffer of its own. Full buffers are written to an
 * unnamed temporary file in the folder of the result. Memory is allocated once (mnem_trace_bytes).
 * Events that can't be kept (the disk is full) are counted, and the file shows where they are
 * missing. One trace records at a time.
 * Not here: current numbers (ledger.h), text of prompts.
 * Threads: create, write and destroy belong to one thread; all else may be called from any.
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

/* The format of a file by the ending of its name. MNEM_INVALID for an unknown ending; the error
 * text lists the endings. */
mnem_status mnem_trace_format_of(const char *path, mnem_trace_format *format);

/* Zero means default, but for path. */
typedef struct mnem_trace_options {
    const char *path;    /* of the file to write; its ending selects the format */
    mnem_ledger *ledger; /* the file begins with its accounts and budget, and has samples of its
                            sums ("ledger N total") among the events (default: none) */
    uint32_t threads;    /* with a buffer of their own; further ones share one (default 16) */
    uint32_t events;     /* per buffer (default 2048: 48 KiB) */
    uint32_t names;      /* most accounts, sites, operators and spans in all (default 4096) */
    uint64_t bytes_most; /* of the temporary file; later events are dropped (default: no limit but
                            the disk's) */
} mnem_trace_options;

/* Starts recording. Its memory is charged to host, tag "trace". MNEM_BUSY while another trace
 * records; MNEM_INVALID for a path that mnem_trace_format_of refuses; MNEM_IO when its folder
 * can't be written to. */
mnem_status mnem_trace_create(const mnem_trace_options *options, mnem_trace **trace);
void mnem_trace_destroy(mnem_trace *trace); /* NULL is fine */
/* Bytes that mnem_trace_create allocates. options NULL: the defaults. */
uint64_t mnem_trace_bytes(const mnem_trace_options *options);

/* Begin and end a span of this thread in the active trace, if there is one. Each name is stored
 * once; names beyond options.names become "others". */
void mnem_trace_begin(const char *name);
void mnem_trace_end(const char *name);
/* Records the current value, in bytes, of a counter of the caller's. */
void mnem_trace_counter(const char *name, uint64_t value);
/* Records a property of the whole run, such as "model" and "qwen3.gguf". Both texts are copied; a
 * later value of a key replaces the earlier one. MNEM_OVER_BUDGET: more than 4 KiB of them. */
mnem_status mnem_trace_note(mnem_trace *trace, const char *key, const char *value);

typedef struct mnem_trace_info {
    uint64_t events, dropped; /* kept, in full buffers so far; not kept */
    uint64_t bytes_spilled;   /* in the temporary file */
    uint32_t threads, names;
} mnem_trace_info;
void mnem_trace_info_get(const mnem_trace *trace, mnem_trace_info *info);

/* Nanoseconds of CLOCK_MONOTONIC at which the recording started. */
uint64_t mnem_trace_began(const mnem_trace *trace);

/* Ends the recording and writes the file under a temporary name, then renames it. MNEM_IO names the
 * file. */
mnem_status mnem_trace_write(mnem_trace *trace);
/* The same to another path, whose ending selects the format. */
mnem_status mnem_trace_write_to(mnem_trace *trace, const char *path);

/* The trace of one rank, in Perfetto's format as mnem_trace_write writes it. Its index in the list
 * is the rank. */
typedef struct mnem_trace_part {
    const char *path;
    uint64_t shift_ns; /* start of its recording on the common timeline */
    int64_t clock_ns;  /* noted in the file: how far its clock is ahead of the first rank's ... */
    uint64_t error_ns; /* ... and the largest error of that number */
} mnem_trace_part;
/* Merges traces by time into one file, in Perfetto's format or as Chrome's JSON, in which each rank
 * is a process. Needs 64 KiB and the table of names for each trace. MNEM_UNSUPPORTED: path's
 * format supports one process only; statuses of mnem_trace_reader_open. */
enum { MNEM_TRACE_PARTS_MAX = 256 };
mnem_status mnem_trace_merge(const mnem_trace_part *parts, uint32_t count, const char *path);

#ifdef __cplusplus
}
#endif
#endif
