/* mnem/base.h: statuses, the last error, sizes as text, and what the process uses.
 *
 * Not here: devices (device.h), budgets (ledger.h).
 * Threads: every function may be called from any thread; the last error is per thread.
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

/* Parses "64M", "64MiB" (2^20), "64MB" (10^6), "2G", "1.5GiB", "4096" into bytes. K, M, G, T; any
 * case. MNEM_INVALID for anything else, zero, or more than 2^63 - 1. */
mnem_status mnem_size_parse(const char *text, uint64_t *bytes);

/* Writes bytes rounded, such as "1.17 GiB" or "512 B", into out (at most n bytes with the zero);
 * returns out. 24 bytes always suffice. */
char *mnem_size_format(uint64_t bytes, char *out, size_t n);

/* The budget to ask for where bytes are needed, such as "6.625M", as mnem_size_parse reads it: an
 * eighth of a MiB upwards, at least 32 KiB above, since a process isn't as large to the page each
 * time that it starts. Into out (at most n bytes with the zero); returns out. 24 bytes always
 * suffice. */
char *mnem_size_budget(uint64_t bytes, char *out, size_t n);

/* The kernel's count of this process, in bytes. */
typedef struct mnem_process_usage {
    uint64_t bytes_resident; /* VmRSS */
    uint64_t bytes_peak;     /* VmHWM */
} mnem_process_usage;
mnem_status mnem_process_usage_get(mnem_process_usage *usage);

/* Bytes that this process could still take: MemAvailable and every cgroup limit above it. */
mnem_status mnem_process_available(uint64_t *bytes);

/* Maps in every page of the program and its libraries and a fixed part of the main stack, so that
 * the bytes resident afterwards don't grow by running code that hadn't run before. Best effort. */
void mnem_process_settle(void);

/* What the library itself took from the C heap. */
typedef struct mnem_heap_usage {
    uint64_t bytes_live, bytes_peak;
    uint64_t calls; /* allocations, reallocations and frees since the start */
} mnem_heap_usage;
void mnem_heap_usage_get(mnem_heap_usage *usage);

#ifdef __cplusplus
}
#endif
#endif
