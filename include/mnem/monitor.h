/* mnem/monitor.h: publishes the current state of a program in a small status file: accounts of its
 * ledger by kind and tag, steps, tokens per second, pages, requests, models. `mnem top` shows such
 * files.
 *
 * The file has the layout of mnem_monitor_file below, in this machine's byte order. Its sequence
 * number is odd during a write: a reader reads sequence, copies the view, and reads sequence again;
 * the copy is consistent when both are the same even number. Not here: events over time (trace.h).
 * Cost: writes 6 KiB at most ten times a second, unless `now` is set; allocates nothing.
 * Threads: any, between init and fini.
 *
 *     static mnem_monitor m;
 *     if (mnem_monitor_init(&m, "/tmp/mine.status", "my program", NULL) == MNEM_OK)
 *         mnem_monitor_watch(&m, ledger);
 *     mnem_monitor_numbers now = {.steps = 12, .tokens = 4096, .tokens_per_s = 350};
 *     mnem_monitor_tell(&m, &now, false);
 *     mnem_monitor_fini(&m);
 */
#ifndef MNEM_MONITOR_H
#define MNEM_MONITOR_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MNEM_MONITOR_VERSION = 2, MNEM_MONITOR_ACCOUNTS = 64, MNEM_MONITOR_MODELS = 16 };
#define MNEM_MONITOR_MAGIC "MNEMstat"

/* The state of the program's work; zero or empty where a number doesn't apply. */
typedef struct mnem_monitor_numbers {
    char phase[24]; /* "loading", "prompt", "generating", "training", "serving", ... */
    uint64_t steps, steps_planned;
    uint64_t tokens;
    double tokens_per_s, step_seconds; /* recent average; duration of the last step */
    double loss;
    uint64_t pages_used, pages_total; /* of keys and values */
    uint64_t requests_running, requests_waiting, requests_preempted;
    uint64_t requests_done, requests_refused;
} mnem_monitor_numbers;

typedef struct mnem_monitor_account {
    char kind[16], tag[32];
    uint64_t bytes_live, bytes_peak, limit_bytes; /* limit 0: none */
} mnem_monitor_account;

/* One of several models that a program serves. */
typedef struct mnem_monitor_model {
    char name[32], state[12]; /* "unloaded", "loading", "loaded", "leaving" */
    uint32_t requests;        /* running and waiting */
    uint64_t bytes;           /* its size while it is loaded */
} mnem_monitor_model;

typedef struct mnem_monitor_view {
    uint32_t pid, accounts;          /* accounts: number of entries in the table below */
    uint64_t process_start;          /* field 22 of /proc/PID/stat: detects a reused pid */
    uint64_t started_ms, updated_ms; /* since 1970 */
    char program[32], model[96];
    uint64_t budget_bytes, bytes_live, bytes_peak, refusals; /* of the ledger; budget 0: none */
    uint64_t bytes_resident, bytes_resident_peak;            /* VmRSS and VmHWM of the kernel */
    mnem_monitor_numbers numbers;
    /* In the ledger's order; where it has more accounts, the last entry is the sum of the rest. */
    mnem_monitor_account account[MNEM_MONITOR_ACCOUNTS];
    uint32_t models, models_more; /* number of entries below, and of further models */
    mnem_monitor_model served[MNEM_MONITOR_MODELS];
} mnem_monitor_view;

typedef struct mnem_monitor_file {
    char magic[8]; /* MNEM_MONITOR_MAGIC, without a zero */
    uint32_t version, file_bytes;
    uint32_t sequence, reserved;
    mnem_monitor_view view;
} mnem_monitor_file;

/* ---- writing ---- */

/* Caller's storage, zeroed before init; the members are private. */
typedef struct mnem_monitor {
    int fd;              /* below 1: it isn't open */
    uint32_t lock;       /* 1: someone writes */
    uint64_t written_ns; /* when, last */
    const mnem_ledger *ledger;
    char path[256];
    mnem_monitor_file file;
} mnem_monitor;

/* Creates the file with mode 0600, or replaces it, and writes the process, program and model into
 * it (NULL: ""). MNEM_IO: the error names the file; the monitor may still be used, and writes
 * nothing. */
mnem_status mnem_monitor_init(mnem_monitor *monitor, const char *path, const char *program,
                              const char *model);
/* Sets the ledger whose accounts are published (NULL: none). It must outlive the monitor, or
 * another call of this function. */
void mnem_monitor_watch(mnem_monitor *monitor, const mnem_ledger *ledger);
/* Sets the models that the next call of mnem_monitor_tell publishes; copied. */
void mnem_monitor_serve(mnem_monitor *monitor, const mnem_monitor_model *models, uint32_t count);
/* Publishes the program's numbers (NULL: those of the last call). Writes the file if now is true,
 * or if the last write was at least 100 ms ago. Errors of writing are ignored. */
void mnem_monitor_tell(mnem_monitor *monitor, const mnem_monitor_numbers *numbers, bool now);
void mnem_monitor_fini(mnem_monitor *monitor); /* removes the file */

/* ---- reading ---- */

/* Reads a consistent view. MNEM_IO, MNEM_NOT_FOUND (no such file), MNEM_BAD_FILE (not a status
 * file, truncated or damaged), MNEM_UNSUPPORTED (another version), MNEM_BUSY (the writer stopped
 * during a write). All texts of a view are terminated and have no control characters. */
mnem_status mnem_monitor_read(const char *path, mnem_monitor_view *view);
/* The same from bytes in memory. name is for messages. */
mnem_status mnem_monitor_read_bytes(const char *name, const void *bytes, size_t n,
                                    mnem_monitor_view *view);
/* Is the process that wrote the view still running? */
bool mnem_monitor_alive(const mnem_monitor_view *view);

#ifdef __cplusplus
}
#endif
#endif
