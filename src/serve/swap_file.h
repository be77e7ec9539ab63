/* swap_file.h: a file for swapped sequences, which a thread writes and reads, and for states of
 * earlier positions (snapshot_store.c), which are written and read synchronously.
 *
 *   head    lane 0              lane 1              lane 2 ...          states
 *   [ ]     [ its save        ] [                 ] [ its save   ]      [ ][ ][ ]
 *
 * Unused parts are holes.
 *
 * A save has the format of saved.h: its checksums detect changes. In a folder the file has no
 * name, so it disappears with the process, however that ends. A named file belongs to one
 * process at a time (a lock); its head says that it holds pages of a running or dead process, so
 * it isn't mistaken for a cache. Both have mode 0600. The caller neither steps nor changes a
 * sequence until its job is done; other sequences may share its pages, which are not written
 * while they are shared. */
#ifndef MNEM_SRC_SERVE_SWAP_FILE_H
#define MNEM_SRC_SERVE_SWAP_FILE_H

#include <pthread.h>

#include "base/file/checksum.h"
#include "base/thread.h"
#include "engine/engine_private.h"
#include "mnem/saved.h"

/* Where a lane's sequence is, as the stepping thread sees it. */
typedef enum mnem__swap_state {
    MNEM__SWAP_NONE, /* not in the file */
    MNEM__SWAP_WRITING,
    MNEM__SWAP_OUT, /* only in the file */
    MNEM__SWAP_READING
} mnem__swap_state;

typedef struct mnem__swap_job mnem__swap_job;
struct mnem__swap_job {
    mnem__swap_state state;
    bool reads;
    bool done; /* the thread has finished with it; under the lock */
    mnem_sequence *sequence;
    const int32_t *ids; /* of the sequence, all of its length; NULL: unknown on this rank */
    mnem_saved saved;   /* describes what was written */
    int32_t lane;
    int32_t length;     /* tokens in the file */
    uint64_t at, bytes; /* in the file; over ranks, bytes of the widest part */
    mnem_status status;
    double seconds; /* the duration of the job */
    bool joined;    /* all ranks have answered: status is that of all (swap_ranks.h) */
    mnem__swap_job *next;
};

/* A write or read of a sequence, for the nodes of a stage (swap_nodes.h). */
typedef struct mnem__swap_move {
    struct mnem__swap_file *file;
    mnem__swap_job *job;
    mnem_sequence *sequence;
    const int32_t *ids;
    int32_t lane;
    bool wait;
    mnem_status status; /* of the read */
} mnem__swap_move;

typedef struct mnem__swap_file {
    int fd; /* below 0: no file */
    bool named;
    bool shared;    /* other ranks have files too: rates are learned from the slowest */
    uint32_t nodes; /* of each write or read (swap_nodes.h) */
    uint64_t region_bytes, bytes_most;
    uint64_t page_bytes[MNEM__KV_KINDS]; /* of the widest part, by kind */
    mnem_engine *engine;
    mnem_ledger *ledger;   /* charged for the thread's stack */
    mnem__swap_job *asked; /* the job about which the other ranks were asked */
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
    double bytes_per_s; /* of recent writes and reads, or fixed */
    bool rate_fixed;
} mnem__swap_file;

/* The bytes of the thread's stack. */
enum { MNEM__SWAP_STACK_BYTES = 64 * 1024 };

/* path: a folder, or the path of a file; NULL: no file, and nothing is written. Ranks other than 0
 * use a file without a name, in the folder or in the file's folder. An existing file is unchanged
 * until swap_begin. The thread calls on_done. MNEM_IO; MNEM_INVALID: the file is not a swap file;
 * MNEM_BUSY: another process uses it. */
mnem_status mnem__swap_open(mnem__swap_file *file, const char *path, mnem_engine *engine,
                            uint64_t bytes_most);
/* Says that other ranks have files for their parts too; page_bytes: of the widest part. */
void mnem__swap_share(mnem__swap_file *file, const uint64_t *page_bytes);
/* Drops the contents of the file, and starts the thread. */
mnem_status mnem__swap_begin(mnem__swap_file *file);
/* Ends the thread after its jobs; the caller may use the file then. Its head says that no process
 * uses it. */
void mnem__swap_stop(mnem__swap_file *file);
void mnem__swap_close(mnem__swap_file *file);
/* The bytes of a save of the sequence, as in mnem__swap_job. */
uint64_t mnem__swap_bytes(const mnem__swap_file *file, const mnem_sequence *sequence);
/* Whether the file may take this many more bytes. */
bool mnem__swap_has_room(mnem__swap_file *file, uint64_t bytes);
/* The recent rate in bytes per second; an estimate until it is known. */
double mnem__swap_rate(mnem__swap_file *file);
/* Fixes the rate, whatever jobs take. */
void mnem__swap_fix_rate(mnem__swap_file *file, double bytes_per_s);
/* Learns the rate from a completed job whose slowest part was another rank's. */
void mnem__swap_learn(mnem__swap_file *file, const mnem__swap_job *job, double seconds);
/* Counts a failure; why: the text behind "swap file". */
void mnem__swap_failed(mnem__swap_file *file, const char *why);
/* Writes the sequence with its ids to the region of a lane; neither may change until the job is
 * done. ids NULL: sum is used in their place. */
void mnem__swap_write(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence,
                      const int32_t *ids, uint64_t sum, int32_t lane);
/* Reads the written part behind the tokens that the sequence has, which are its first ones. A
 * failure changes nothing. */
mnem_status mnem__swap_read(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence);
/* Whether the job is done; then the thread no longer uses its sequence, and the job has a status.
 * wait: waits for it. */
bool mnem__swap_is_done(mnem__swap_file *file, const mnem__swap_job *job, bool wait);
/* Write, read or drop a page at a position behind the regions of lanes; *sum: its checksum.
 * Failures are counted. Only in a single process, by the stepping thread. */
mnem_status mnem__swap_page_write(mnem__swap_file *file, uint64_t at, mnem__location from,
                                  uint64_t bytes, uint64_t *sum);
mnem_status mnem__swap_page_read(mnem__swap_file *file, uint64_t at, mnem__location to,
                                 uint64_t bytes, uint64_t sum);
/* The same between such a page and `bytes` bytes at a position of another file, which are added to
 * `whole`. save: MNEM_NOT_READY: the page can't be read, or is damaged; MNEM_IO: the other file
 * can't be written. load: any failure; nothing is counted as stored then. */
mnem_status mnem__swap_page_save(mnem__swap_file *file, uint64_t at, uint64_t bytes, uint64_t sum,
                                 int to, uint64_t to_at, mnem__checksum *whole);
mnem_status mnem__swap_page_load(mnem__swap_file *file, uint64_t at, uint64_t bytes, uint64_t *sum,
                                 int from, uint64_t from_at, mnem__checksum *whole);
void mnem__swap_page_drop(mnem__swap_file *file, uint64_t at, uint64_t bytes);
/* The position of the first such page. */
uint64_t mnem__swap_pages_at(const mnem__swap_file *file);
/* Drops the job's contents and frees their disk space. The job must not be under way. */
void mnem__swap_drop(mnem__swap_file *file, mnem__swap_job *job);

#endif
