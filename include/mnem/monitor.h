/* mnem/monitor.h: what a program does right now, in a small file that others look at: accounts of
 * its ledger by kind and tag, steps, tokens a second, pages, requests. `mnem top` shows it.
 *
 * The file is mnem_monitor_file as it stands below, of this machine's order of bytes. Its sequence
 * is odd while it is written: who maps it reads sequence, copies, and reads sequence again, and has
 * a whole view when both are the same even number. Not here: events over time (trace.h).
 * Cost: a copy of 5 KiB with system calls, at most ten times a second, unless asked for; nothing is
 * allocated. Threads: any, once init has returned and until fini is called.
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

enum { MNEM_MONITOR_VERSION = 1, MNEM_MONITOR_ACCOUNTS = 64 };
#define MNEM_MONITOR_MAGIC "MNEMstat"

/* What the program says of its work; zeros and empty texts where it has none. */
typedef struct mnem_monitor_numbers {
    char phase[24]; /* "loading", "prompt", "generating", "training", "serving", ... */
    uint64_t steps, steps_planned;
    uint64_t tokens;
    double tokens_per_s, step_seconds; /* lately; of the last step */
    double loss;
    uint64_t pages_used, pages_total; /* of keys and values */
    uint64_t requests_running, requests_waiting, requests_preempted;
    uint64_t requests_done, requests_refused;
} mnem_monitor_numbers;

typedef struct mnem_monitor_account {
    char kind[16], tag[32];
    uint64_t bytes_live, bytes_peak, limit_bytes; /* limit 0: none */
} mnem_monitor_account;

typedef struct mnem_monitor_view {
    uint32_t pid, accounts;          /* accounts: of the table below */
    uint64_t process_start;          /* /proc/PID/stat's 22nd: a number may be another's later */
    uint64_t started_ms, updated_ms; /* since 1970 */
    char program[32], model[96];
    uint64_t budget_bytes, bytes_live, bytes_peak, refusals; /* of the ledger; budget 0: none */
    uint64_t bytes_resident, bytes_resident_peak;            /* as the kernel counts them */
    mnem_monitor_numbers numbers;
    /* In the ledger's order; where it has more, the last one is the rest. */
    mnem_monitor_account account[MNEM_MONITOR_ACCOUNTS];
} mnem_monitor_view;

typedef struct mnem_monitor_file {
    char magic[8]; /* MNEM_MONITOR_MAGIC, without a zero */
    uint32_t version, file_bytes;
    uint32_t sequence, reserved;
    mnem_monitor_view view;
} mnem_monitor_file;

/* ---- writing ---- */

/* The caller's storage, zeroed; its fields are the library's. */
typedef struct mnem_monitor {
    int fd;              /* below 1: it isn't open */
    uint32_t lock;       /* 1: someone writes */
    uint64_t written_ns; /* when, last */
    const mnem_ledger *ledger;
    char path[256];
    mnem_monitor_file file;
} mnem_monitor;

/* Makes the file (0600; what was there is replaced), with the process and the texts in it; NULL is
 * "". MNEM_IO names the file; the monitor may be used all the same, and writes nothing. */
mnem_status mnem_monitor_init(mnem_monitor *monitor, const char *path, const char *program,
                              const char *model);
/* Whose accounts are told; it must stay until fini, or until another is watched (NULL: none). */
void mnem_monitor_watch(mnem_monitor *monitor, const mnem_ledger *ledger);
/* The program's numbers. now: written in any case; else where the last time was 100 ms ago. numbers
 * NULL: as before. What can't be written is left out. */
void mnem_monitor_tell(mnem_monitor *monitor, const mnem_monitor_numbers *numbers, bool now);
void mnem_monitor_fini(mnem_monitor *monitor); /* removes the file */

/* ---- reading ---- */

/* A whole view. MNEM_IO, MNEM_NOT_FOUND (no such file), MNEM_BAD_FILE for what isn't a status file,
 * or is cut off or damaged, MNEM_UNSUPPORTED for another version, MNEM_BUSY where its writer
 * stopped in the middle. All texts of a view end, and have no bytes that steer a terminal. */
mnem_status mnem_monitor_read(const char *path, mnem_monitor_view *view);
/* The same from bytes in memory. name is for messages. */
mnem_status mnem_monitor_read_bytes(const char *name, const void *bytes, size_t n,
                                    mnem_monitor_view *view);
/* Does the process still run that wrote it? */
bool mnem_monitor_alive(const mnem_monitor_view *view);

#ifdef __cplusplus
}
#endif
#endif
