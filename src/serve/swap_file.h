/* swap_file.h: pages of sequences that are set aside, in a file, written and read by a thread.
 *
 *   lane 0              lane 1              lane 2 ...       a region for each lane's whole context
 *   [ pages of it     ] [                 ] [ pages      ]   what isn't used is a hole
 *
 * The file has no name, and mode 0600: it goes with the process, however that ends. Whoever hands a
 * sequence over neither steps nor changes it until the job is done; others may share its pages,
 * which nobody writes as long as they are shared. */
#ifndef MNEM_SRC_SERVE_SWAP_FILE_H
#define MNEM_SRC_SERVE_SWAP_FILE_H

#include <pthread.h>

#include "base/thread.h"
#include "engine/pages/sequence_image.h"

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
    mnem__sequence_shape shape; /* of what is in the file */
    int32_t first_page;         /* those before needn't be read */
    uint64_t at, bytes;         /* in the file; bytes: of the whole image */
    mnem_status status;
    mnem__swap_job *next;
};

typedef struct mnem__swap_file {
    int fd; /* below 0: there is none */
    uint64_t region_bytes, bytes_most;
    mnem_ledger *ledger; /* charged for the thread's stack */
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
    double bytes_per_s; /* of what was written and read lately */
} mnem__swap_file;

/* A stack's bytes. */
enum { MNEM__SWAP_STACK_BYTES = 64 * 1024 };

/* folder NULL: there is none, and nothing is ever written. on_done is called by the thread. */
mnem_status mnem__swap_open(mnem__swap_file *file, const char *folder, const mnem_engine *engine,
                            uint64_t bytes_most);
void mnem__swap_close(mnem__swap_file *file);
/* Whether so many bytes more may be in the file. */
bool mnem__swap_has_room(mnem__swap_file *file, uint64_t bytes);
/* Bytes a second of late; a guess until it is known. */
double mnem__swap_rate(mnem__swap_file *file);
/* Writes the sequence to the region of a lane; it stays open until the job is done. */
void mnem__swap_write(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence,
                      int32_t lane);
/* Reads what was written into a sequence of the same shape, from page first_page on. */
void mnem__swap_read(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence,
                     int32_t first_page);
/* True: what was begun is done, and nobody touches its sequence any more; the job's status says
 * how. wait: until it is. */
bool mnem__swap_is_done(mnem__swap_file *file, const mnem__swap_job *job, bool wait);
/* Nothing of the job is in the file any more; its disk is given back. No thread has it. */
void mnem__swap_drop(mnem__swap_file *file, mnem__swap_job *job);

#endif
