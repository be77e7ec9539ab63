/* swap_file.h: sequences that are set aside, in a file, written and read by a thread; and states
 * of earlier positions (snapshot_store.h), written and read at once.
 *
 *   head    lane 0              lane 1              lane 2 ...          states
 *   [ ]     [ a save of it    ] [                 ] [ a save     ]      [ ][ ][ ]
 *
 * What isn't used is a hole.
 *
 * A save is what saved.h puts into files: its sums say whether it came back as it went. In a folder
 * the file has no name: it goes with the process, however that ends. A file with a name is one
 * process's at a time (a lock); its head says that it holds pages of somebody who runs or has
 * died, so that nobody takes it for more. Both have mode 0600. Whoever hands a sequence over
 * neither steps nor changes it until the job is done; others may share its pages, which nobody
 * writes as long as they are shared. */
#ifndef MNEM_SRC_SERVE_SWAP_FILE_H
#define MNEM_SRC_SERVE_SWAP_FILE_H

#include <pthread.h>

#include "base/thread.h"
#include "engine/engine_private.h"
#include "mnem/saved.h"

/* Where a lane's sequence is, for who steps. */
typedef enum mnem__swap_state {
    MNEM__SWAP_NONE, /* nothing of it is in the file */
    MNEM__SWAP_WRITING,
    MNEM__SWAP_OUT, /* it is in the file, and nowhere else */
    MNEM__SWAP_READING
} mnem__swap_state;

typedef struct mnem__swap_job mnem__swap_job;
struct mnem__swap_job {
    mnem__swap_state state;
    bool reads;
    bool done; /* the thread has finished with it; under the lock */
    mnem_sequence *sequence;
    const int32_t *ids; /* of the sequence, as long as it is; NULL: they aren't known here */
    mnem_saved saved;   /* what is written */
    int32_t lane;
    int32_t length;     /* tokens that are in the file */
    uint64_t at, bytes; /* in the file; of several ranks bytes are those of the widest part */
    mnem_status status;
    double seconds; /* that it took */
    bool joined;    /* others know how it went, and it says how it went with all (swap_ranks.h) */
    mnem__swap_job *next;
};

/* A sequence that goes out or comes back, for the nodes of a stage (swap_nodes.h). */
typedef struct mnem__swap_move {
    struct mnem__swap_file *file;
    mnem__swap_job *job;
    mnem_sequence *sequence;
    const int32_t *ids;
    int32_t lane;
    bool wait;
    mnem_status status; /* of what was read */
} mnem__swap_move;

typedef struct mnem__swap_file {
    int fd; /* below 0: there is none */
    bool named;
    bool shared;    /* other ranks have files, too: what a job took is learned of all of them */
    uint32_t nodes; /* that a move of a sequence has (swap_nodes.h) */
    uint64_t region_bytes, bytes_most;
    uint64_t page_bytes[MNEM__KV_KINDS]; /* of the widest part, by kind */
    mnem_engine *engine;
    mnem_ledger *ledger;   /* charged for the thread's stack */
    mnem__swap_job *asked; /* others have been asked how that went */
    void (*on_done)(void *context);
    void *context;
    mnem__thread thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    mnem__swap_job *head, **tail;
    bool stop, started;
    /* Counters, under the lock. */
    uint64_t bytes_live, bytes_out, bytes_in, failures;
    char failure[160];  /* the last one's text */
    double bytes_per_s; /* of what was written and read lately, or as it was fixed */
    bool rate_fixed;
} mnem__swap_file;

/* A stack's bytes. */
enum { MNEM__SWAP_STACK_BYTES = 64 * 1024 };

/* path: a folder, or a file's own; NULL: there is none, and nothing is ever written. On a rank that
 * follows it is a file without a name, in the folder or in the file's. A file that was there is as
 * it was until swap_begin. on_done is called by the thread. MNEM_IO; MNEM_INVALID:
 * a file of something else; MNEM_BUSY: another process has it. */
mnem_status mnem__swap_open(mnem__swap_file *file, const char *path, mnem_engine *engine,
                            uint64_t bytes_most);
/* Other ranks have files for their parts of pages, too; page_bytes: of the widest part. */
void mnem__swap_share(mnem__swap_file *file, const uint64_t *page_bytes);
/* Forgets what the file held, and starts the thread. */
mnem_status mnem__swap_begin(mnem__swap_file *file);
/* No job is under way any more, nor will be: the file is the caller's. Its head says that it is
 * nobody's. */
void mnem__swap_stop(mnem__swap_file *file);
void mnem__swap_close(mnem__swap_file *file);
/* Of a save of the sequence, as its job has them. */
uint64_t mnem__swap_bytes(const mnem__swap_file *file, const mnem_sequence *sequence);
/* Whether so many bytes more may be in the file. */
bool mnem__swap_has_room(mnem__swap_file *file, uint64_t bytes);
/* Bytes a second of late; a guess until it is known. */
double mnem__swap_rate(mnem__swap_file *file);
/* From now on the file is taken to be as fast as this, whatever jobs take. */
void mnem__swap_fix_rate(mnem__swap_file *file, double bytes_per_s);
/* Of a job that is done, where it isn't the file that took the longest. */
void mnem__swap_learn(mnem__swap_file *file, const mnem__swap_job *job, double seconds);
/* Counts a failure; why: what is to be said behind "swap file". */
void mnem__swap_failed(mnem__swap_file *file, const char *why);
/* Writes the sequence with its ids to the region of a lane; both stay as they are until the job is
 * done. ids NULL: sum stands for them. */
void mnem__swap_write(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence,
                      const int32_t *ids, uint64_t sum, int32_t lane);
/* Reads what was written behind what the sequence has, which is as much of its beginning. A failure
 * here takes nothing. */
mnem_status mnem__swap_read(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence);
/* True: what was begun is done, and nobody touches its sequence any more; the job's status says
 * how. wait: until it is. */
bool mnem__swap_is_done(mnem__swap_file *file, const mnem__swap_job *job, bool wait);
/* A page of an engine alone, at a place behind the regions of lanes; *sum: its checksum. Failures
 * are counted. For the thread that steps. */
mnem_status mnem__swap_page_write(mnem__swap_file *file, uint64_t at, mnem__location from,
                                  uint64_t bytes, uint64_t *sum);
mnem_status mnem__swap_page_read(mnem__swap_file *file, uint64_t at, mnem__location to,
                                 uint64_t bytes, uint64_t sum);
void mnem__swap_page_drop(mnem__swap_file *file, uint64_t at, uint64_t bytes);
/* Where such pages begin. */
uint64_t mnem__swap_pages_at(const mnem__swap_file *file);
/* Nothing of the job is in the file any more; its disk is given back. No thread has it. */
void mnem__swap_drop(mnem__swap_file *file, mnem__swap_job *job);

#endif
