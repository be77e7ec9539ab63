/* mnem/history.h: the history: a line of JSON for each finished run, and what it says of the next.
 *
 * A line has names, sizes, times and counts: no text of a prompt, no answer, no file's contents.
 * The file is its owner's (mode 0600), of at most MNEM_HISTORY_BYTES: beyond, the older half goes.
 * A line is written with one call under a lock, so that programs that end together keep theirs.
 * Not here: where the file is, and whether one is wanted (the command decides).
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

/* A class of work: an operator's kind, the type of what it reads ("Q8_0"), and the level that this
 * comes from ("memory", "disk", or of a cache). */
typedef struct mnem_work {
    char op[12], type[12], level[12];
    double macs, bytes; /* multiply-adds; bytes read and written, as stored */
} mnem_work;

typedef enum mnem_phase {
    MNEM_PHASE_PROMPT, /* tokens of prompts */
    MNEM_PHASE_TOKENS, /* tokens made */
    MNEM_PHASE_STEPS,  /* tokens learned from */
    MNEM_PHASE_COUNT
} mnem_phase;
const char *mnem_phase_text(mnem_phase phase);

typedef struct mnem_history_phase {
    uint64_t tokens;                    /* 0: there was none */
    double seconds;                     /* by the wall's clock */
    double cpu_seconds;                 /* of all threads; 0: not known */
    double predicted_seconds;           /* of the plan for these tokens; 0: nothing was predicted */
    mnem_work work[MNEM_HISTORY_WORKS]; /* for all of its tokens */
    int32_t works;
} mnem_history_phase;

/* Zero and "": not known, or there is none. */
typedef struct mnem_history_run {
    uint64_t run; /* its number, from 1; append gives it */
    int64_t time; /* when it ended, seconds since 1970; 0: append takes the clock's */
    char verb[16], version[16];
    char model[96];   /* the file's name without its folders */
    char folder[256]; /* of training */
    char machine[24]; /* which machine: runs of others aren't like this one */
    char architecture[24], type[16], kv[8], precision[8], moments[8];
    int32_t threads, processors, context, chunk, sequences, batch, micro_batch, lora;
    int32_t context_asked, context_used;         /* positions at the most; asked 0: it was chosen */
    int32_t page_cache, streamed, budget_chosen; /* 1: yes */
    uint64_t parameters, weight_bytes, kv_bytes, optimizer_bytes, gradient_bytes, activation_bytes;
    uint64_t budget_bytes, predicted_bytes, peak_bytes, ledger_bytes; /* peak: the kernel's */
    uint64_t streamed_bytes, refusals, faults;     /* faults: that waited for a disk */
    double seconds, seconds_load, seconds_waiting; /* waiting: for the disk, of the phases */
    uint64_t preemptions, tokens_recomputed, refused_full, expert_hits, expert_misses;
    mnem_history_phase phase[MNEM_PHASE_COUNT];
} mnem_history_run;

/* Adds the run, and gives it its number and, where it has none, its time. MNEM_IO names the file,
 * also where another holds the lock for long; MNEM_INVALID: longer than a line. Takes nothing of
 * the heap. */
mnem_status mnem_history_append(const char *path, mnem_history_run *run);
/* Every run, from the oldest; false from on_run stops, with MNEM_OK. Lines that aren't whole or
 * aren't runs are passed over. No such file: MNEM_OK, and no run. */
typedef bool mnem_on_history(void *context, const mnem_history_run *run);
mnem_status mnem_history_read(const char *path, mnem_on_history *on_run, void *context);
/* That of a number; 0: the newest. MNEM_NOT_FOUND says which there are. */
mnem_status mnem_history_get(const char *path, uint64_t number, mnem_history_run *run);

#ifdef __cplusplus
}
#endif
#endif
