/* mnem/history.h: the history: a line of JSON for each finished run, used to predict later runs.
 *
 * A line has names, sizes, times and counts: no text of a prompt or an answer, and no contents of
 * files. The file is readable by its owner only (mode 0600) and has at most MNEM_HISTORY_BYTES:
 * beyond that the older half is deleted. A line is written with one call under a lock, so that
 * programs that end at the same time don't overwrite each other's lines.
 * Not here: the location of the file, and whether to keep one (the command decides).
 * Threads: every function may be called from any thread and any process.
 *
 *     mnem_history_run run = {.verb = "run", .model = "a.gguf", .peak_bytes = 9 << 20};
 *     run.phase[MNEM_PHASE_TOKENS] = (mnem_history_phase){.tokens = 100, .seconds = 0.5};
 *     if (mnem_history_append(path, &run) == MNEM_OK)
 *         printf("run %llu\n", (unsigned long long)run.run);
 */
#ifndef MNEM_HISTORY_H
#define MNEM_HISTORY_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MNEM_HISTORY_BYTES = 1 << 20, MNEM_HISTORY_LINE = 8192, MNEM_HISTORY_WORKS = 12 };

/* A class of work: an operator's kind, the type of the operand that it reads ("Q8_0"), and the
 * level of memory that this operand comes from ("memory", "disk", or a cache level). */
typedef struct mnem_work {
    char op[12], type[12], level[12];
    double macs, bytes; /* multiply-adds; bytes read and written, as stored */
} mnem_work;

typedef enum mnem_phase {
    MNEM_PHASE_PROMPT, /* tokens of prompts */
    MNEM_PHASE_TOKENS, /* tokens generated */
    MNEM_PHASE_STEPS,  /* tokens of training */
    MNEM_PHASE_COUNT
} mnem_phase;
const char *mnem_phase_text(mnem_phase phase);

typedef struct mnem_history_phase {
    uint64_t tokens;                    /* 0: there was none */
    double seconds;                     /* wall-clock time */
    double cpu_seconds;                 /* of all threads; 0: not known */
    double predicted_seconds;           /* by the plan, for these tokens; 0: no prediction */
    mnem_work work[MNEM_HISTORY_WORKS]; /* for all of its tokens */
    int32_t works;
} mnem_history_phase;

/* Zero and "": not known, or there is none. */
typedef struct mnem_history_run {
    uint64_t run; /* its number, from 1; set by append */
    int64_t time; /* of its end, seconds since 1970; 0: append sets the current time */
    char verb[16], version[16];
    char model[96];   /* the file's name without its folders */
    char folder[256]; /* of training */
    char machine[24]; /* identifies the machine: runs of others aren't comparable */
    char architecture[24], type[16], kv[32], precision[8], moments[8];
    int32_t threads, processors, context, chunk, sequences, batch, micro_batch, lora;
    int32_t context_asked, context_used;         /* most positions; asked 0: by the plan */
    int32_t page_cache, streamed, budget_chosen; /* 1: yes */
    uint64_t parameters, weight_bytes, kv_bytes, optimizer_bytes, gradient_bytes, activation_bytes;
    uint64_t budget_bytes, predicted_bytes, peak_bytes, ledger_bytes; /* peak: the kernel's */
    uint64_t streamed_bytes, refusals, faults;     /* faults: major page faults */
    double seconds, seconds_load, seconds_waiting; /* waiting: for the disk, in phases */
    uint64_t preemptions, tokens_recomputed, refused_full, expert_hits, expert_misses;
    mnem_history_phase phase[MNEM_PHASE_COUNT];
} mnem_history_run;

/* Appends the run and sets its number and, if it is 0, its time. MNEM_IO names the file, also when
 * another process holds the lock for long; MNEM_INVALID: the run exceeds the length of a line. Uses
 * no heap memory. */
mnem_status mnem_history_append(const char *path, mnem_history_run *run);
/* Calls on_run for every run, from the oldest; if it returns false, reading stops with MNEM_OK.
 * Incomplete lines and lines that aren't runs are skipped. If there is no such file: MNEM_OK,
 * without a call. */
typedef bool mnem_on_history(void *context, const mnem_history_run *run);
mnem_status mnem_history_read(const char *path, mnem_on_history *on_run, void *context);
/* Gets the run of a number; 0: the newest. MNEM_NOT_FOUND: the text states the numbers that exist.
 */
mnem_status mnem_history_get(const char *path, uint64_t number, mnem_history_run *run);

#ifdef __cplusplus
}
#endif
#endif
