/* mnem/trace.h: a record of what the ledgers of this process charged, when, for which account, and
 * of the caller's own spans; written as a trace that Perfetto and chrome://tracing open.
 *
 * Memory is taken once (mnem_trace_bytes): when it is full, later events are counted, not kept.
 * One trace at a time listens. Not here: the numbers of now (ledger.h).
 * Threads: spans and events may come from any thread; create, write and destroy from one.
 *
 *     mnem_trace *trace;
 *     mnem_trace_create(0, &trace);
 *     mnem_trace_begin(trace, "load");
 *     ...
 *     mnem_trace_end(trace, "load");
 *     mnem_trace_write(trace, "run.trace.json");
 *     mnem_trace_destroy(trace);
 */
#ifndef MNEM_TRACE_H
#define MNEM_TRACE_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_trace mnem_trace;

/* Listens from now on. events: room (0: 16384). Charged to host, tag "trace". MNEM_BUSY while
 * another trace listens. */
mnem_status mnem_trace_create(uint32_t events, mnem_trace **trace);
void mnem_trace_destroy(mnem_trace *trace); /* NULL is fine */
uint64_t mnem_trace_bytes(uint32_t events);

/* A span of this thread; name at most 31 bytes are kept. */
void mnem_trace_begin(mnem_trace *trace, const char *name);
void mnem_trace_end(mnem_trace *trace, const char *name);

typedef struct mnem_trace_info {
    uint32_t events, dropped; /* kept; not kept for lack of room */
    uint64_t bytes_peak;      /* the largest sum over all accounts that an event showed */
} mnem_trace_info;
void mnem_trace_info_get(const mnem_trace *trace, mnem_trace_info *info);

/* Chrome's JSON object format: one counter track per kind of memory (live bytes by tag), spans, and
 * an instant event for each refusal. Times in microseconds since create. Written beside path and
 * renamed. MNEM_IO names the file. */
mnem_status mnem_trace_write(mnem_trace *trace, const char *path);

#ifdef __cplusplus
}
#endif
#endif
