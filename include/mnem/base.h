/* mnem/base.h: statuses, the last error, sizes as text, progress, what the process uses, and teams
 * of threads.
 *
 * Not here: devices (device.h), budgets (ledger.h).
 * Threads: every function may be called from any thread, a team's by one at a time; the last error
 * is per thread.
 *
 *     uint64_t budget;
 *     if (mnem_size_parse("64MiB", &budget) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 */
#ifndef MNEM_BASE_H
#define MNEM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MNEM_VERSION "0.2.0"

/* X(NAME, text). OVER_BUDGET: the caller's own limit. NO_MEMORY: the machine refused. */
#define MNEM_STATUS_LIST(X)                                                                        \
    X(OK, "ok")                                                                                    \
    X(INVALID, "invalid argument")                                                                 \
    X(NO_MEMORY, "the machine has no memory")                                                      \
    X(OVER_BUDGET, "over budget")                                                                  \
    X(IO, "input/output error")                                                                    \
    X(BAD_FILE, "malformed file")                                                                  \
    X(UNSUPPORTED, "not supported")                                                                \
    X(NOT_FOUND, "not found")                                                                      \
    X(NOT_READY, "not ready")                                                                      \
    X(BUSY, "still in use")                                                                        \
    X(CANCELLED, "cancelled")                                                                      \
    X(NOT_FINITE, "a number is not finite")

typedef enum mnem_status {
#define MNEM_STATUS_ENUM(name, text) MNEM_##name,
    MNEM_STATUS_LIST(MNEM_STATUS_ENUM)
#undef MNEM_STATUS_ENUM
        MNEM_STATUS_COUNT
} mnem_status;

/* The status's text, "unknown status" out of range. Static storage. */
const char *mnem_status_text(mnem_status status);

/* What the last failed call on this thread said, with the numbers ("" if none failed yet).
 * Borrowed until the next failing call on this thread. */
const char *mnem_last_error(void);

const char *mnem_version(void);

/* The vector instructions that kernels use: "plain" (C only), "avx2" (with FMA and F16C), "avx512"
 * (F, BW, DQ, VL, VNNI) or "avx512_bf16" (where pairs of bf16 are multiplied faster). The best of
 * this machine, or the limit. Static storage. */
const char *mnem_cpu_level(void);
/* Kernels use no more than this from now on, to measure or to give the bits of another machine.
 * Before anything is packed or prepared, which was made for a level. A level above the machine's
 * changes nothing. INVALID: no such level; the error names all. */
mnem_status mnem_cpu_limit(const char *level);

/* Reports progress of long work: the current activity ("tokenizing"), and done of total in a unit
 * that the function documents (total 0: not known). Return false to end it with MNEM_CANCELLED.
 * Called from time to time, on the thread that called the function. Zero: no reports. */
typedef struct mnem_progress {
    bool (*tell)(void *context, const char *what, uint64_t done, uint64_t total);
    void *context;
} mnem_progress;

/* Parses "64M", "64MiB" (2^20), "64MB" (10^6), "2G", "1.5GiB", "4096" into bytes. K, M, G, T; any
 * case. MNEM_INVALID for anything else, zero, or more than 2^63 - 1. */
mnem_status mnem_size_parse(const char *text, uint64_t *bytes);

/* Writes bytes rounded, such as "1.17 GiB" or "512 B", into out (at most n bytes with the zero);
 * returns out. 24 bytes always suffice. */
char *mnem_size_format(uint64_t bytes, char *out, size_t n);

/* The budget to ask for where bytes are needed, such as "6788K" or "6.625M": they are rounded up to
 * 4 KiB, and mnem_size_parse reads exactly that. Into out (at most n bytes with the zero); returns
 * out. 24 bytes always suffice. */
char *mnem_size_budget(uint64_t bytes, char *out, size_t n);

/* The kernel's count of this process, in bytes. */
typedef struct mnem_process_usage {
    uint64_t bytes_resident; /* VmRSS */
    uint64_t bytes_peak;     /* VmHWM */
} mnem_process_usage;
mnem_status mnem_process_usage_get(mnem_process_usage *usage);

/* Bytes that this process could still take: MemAvailable and every cgroup limit above it. */
mnem_status mnem_process_available(uint64_t *bytes);

/* For a program of one's own: maps in all its code and a fixed part of the main stack, so that what
 * is resident doesn't grow by running it, and sets the C heap (mallopt): best effort. */
void mnem_process_settle(void);

/* What the library itself took from the C heap. */
typedef struct mnem_heap_usage {
    uint64_t bytes_live, bytes_peak;
    uint64_t calls; /* allocations, reallocations and frees since the start */
} mnem_heap_usage;
void mnem_heap_usage_get(mnem_heap_usage *usage);

/* ---- a fixed team of threads that run one function together (SPMD), and their barrier ----
 *
 * The caller of mnem_team_run is worker 0. Workers spin for a short while between runs and then
 * sleep, so that back-to-back runs cost about a microsecond and an idle team costs nothing.
 * Each thread's stack is MNEM_TEAM_STACK_BYTES, touched at the start, so that it can be planned;
 * nothing allocates after mnem_team_create. One run at a time. */

enum { MNEM_TEAM_STACK_BYTES = 256 * 1024, MNEM_TEAM_MAX = 256 };

typedef struct mnem_team mnem_team;

/* One member during a run. */
typedef struct mnem_worker {
    mnem_team *team;
    int32_t index, count;
} mnem_worker;

typedef void mnem_team_function(const mnem_worker *worker, void *context);

mnem_status mnem_team_create(int32_t count, mnem_team **team);
void mnem_team_destroy(mnem_team *team); /* joins (not in a forked child); NULL is fine */
int32_t mnem_team_count(const mnem_team *team);
uint64_t mnem_team_bytes(int32_t count); /* stacks and tables, for the plan */

/* Runs function on every member and returns when all are done. */
void mnem_team_run(mnem_team *team, mnem_team_function *function, void *context);

/* Inside a run: waits until every member has come here; orders memory among them. With one member
 * it does nothing. worker may be a lone {NULL, 0, 1}. */
void mnem_team_barrier(const mnem_worker *worker);

/* Splits [0, n) in units of grain; worker's part is [*begin, *end). */
void mnem_team_split(const mnem_worker *worker, int64_t n, int64_t grain, int64_t *begin,
                     int64_t *end);

#ifdef __cplusplus
}
#endif
#endif
