/* swap_file.c: pages of sequences that are set aside.
 *
 * Idea: an image is the sequence's pages one after another (sequence_image.h); it is written and
 * read page by page, without a buffer. The file's name is gone before a byte is in it.
 * Invariant: a job is in the list or the thread's from write or read until it is done; bytes_live
 * counts images from when their writing begins.
 * Cost: one pwrite or pread for a page; nothing is allocated. */
#include "serve/swap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* ---- the thread ---- */

static mnem_status fail_io(const char *what, int error) {
    return mnem__fail(MNEM_IO, "swap file: a page can't be %s (%s)", what,
                      error ? strerrordesc_np(error) : "somebody has cut the file");
}

static mnem_status move_bytes(int fd, bool reads, uint8_t *bytes, size_t n, uint64_t at) {
    while (n > 0) {
        const ssize_t moved =
            reads ? pread(fd, bytes, n, (off_t)at) : pwrite(fd, bytes, n, (off_t)at);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return fail_io(reads ? "read" : "written", moved < 0 ? errno : 0);
        bytes += moved;
        at += (uint64_t)moved;
        n -= (size_t)moved;
    }
    return MNEM_OK;
}

/* All pieces of the sequence, at their places behind the job's; *moved: bytes. */
static mnem_status move_pieces(int fd, const mnem__swap_job *job, uint64_t *moved) {
    mnem__sequence_piece piece;
    uint64_t at = job->at;
    *moved = 0;
    for (int32_t i = 0; mnem__sequence_piece_get(job->sequence, i, &piece); i++) {
        if (piece.page >= job->first_page) {
            MNEM__TRY(move_bytes(fd, job->reads, piece.address, piece.bytes, at));
            *moved += piece.bytes;
        }
        at += piece.bytes;
    }
    return MNEM_OK;
}

/* With the lock held at both ends, not between. */
static void run_job(mnem__swap_file *f, mnem__swap_job *job) {
    uint64_t moved;
    pthread_mutex_unlock(&f->lock);
    const double start = mnem__seconds();
    const mnem_status status = move_pieces(f->fd, job, &moved);
    const double seconds = mnem__seconds() - start;
    pthread_mutex_lock(&f->lock);
    job->status = status;
    job->done = true;
    if (status != MNEM_OK) {
        f->failures++;
        snprintf(f->failure, sizeof f->failure, "%s", mnem_last_error());
    }
    *(job->reads ? &f->bytes_in : &f->bytes_out) += moved;
    if (moved > 0 && seconds > 0) f->bytes_per_s += ((double)moved / seconds - f->bytes_per_s) / 4;
}

static void swap_main(void *context) {
    mnem__swap_file *f = context;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        mnem__swap_job *job = f->head;
        if (!job && f->stop) break;
        if (!job) {
            pthread_cond_wait(&f->work, &f->lock);
            continue;
        }
        f->head = job->next;
        if (!f->head) f->tail = &f->head;
        run_job(f, job);
        pthread_cond_broadcast(&f->done);
        pthread_mutex_unlock(&f->lock);
        f->on_done(f->context);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- life ---- */

/* A file without a name, where the folder's file system can, else one whose name is taken away. */
static int open_unnamed(const char *folder) {
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    if (snprintf(path, sizeof path, "%s/mnem-swap-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static mnem_status start_thread(mnem__swap_file *f) {
    MNEM__TRY(mnem_ledger_charge(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES));
    const mnem_status status = mnem__thread_start(&f->thread, MNEM__SWAP_STACK_BYTES, swap_main, f);
    if (status != MNEM_OK)
        mnem_ledger_release(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES);
    f->started = status == MNEM_OK;
    return status;
}

mnem_status mnem__swap_open(mnem__swap_file *f, const char *folder, const mnem_engine *engine,
                            uint64_t bytes_most) {
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->done, NULL);
    f->fd = -1;
    f->tail = &f->head;
    f->ledger = engine->ledger;
    f->bytes_most = bytes_most;
    f->bytes_per_s = 200e6; /* until it is known */
    f->region_bytes = mnem__sequence_image_most(engine);
    if (!folder) return MNEM_OK;
    f->fd = open_unnamed(folder);
    if (f->fd < 0)
        return mnem__fail(MNEM_IO, "swap file: none can be made in %s (%s)", folder,
                          strerrordesc_np(errno));
    return start_thread(f);
}

void mnem__swap_close(mnem__swap_file *f) {
    if (!f->tail) return; /* never opened */
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
    mnem__thread_join(&f->thread);
    if (f->started) mnem_ledger_release(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES);
    if (f->fd >= 0) close(f->fd);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->done);
    pthread_mutex_destroy(&f->lock);
}

/* ---- jobs ---- */

bool mnem__swap_has_room(mnem__swap_file *f, uint64_t bytes) {
    pthread_mutex_lock(&f->lock);
    const bool room = f->fd >= 0 && f->bytes_live + bytes <= f->bytes_most;
    pthread_mutex_unlock(&f->lock);
    return room;
}

double mnem__swap_rate(mnem__swap_file *f) {
    pthread_mutex_lock(&f->lock);
    const double rate = f->bytes_per_s;
    pthread_mutex_unlock(&f->lock);
    return rate;
}

static void hand_over(mnem__swap_file *f, mnem__swap_job *job, bool reads) {
    job->reads = reads;
    job->next = NULL;
    job->done = false;
    job->state = reads ? MNEM__SWAP_READING : MNEM__SWAP_WRITING;
    pthread_mutex_lock(&f->lock);
    if (!reads) f->bytes_live += job->bytes;
    *f->tail = job;
    f->tail = &job->next;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

void mnem__swap_write(mnem__swap_file *f, mnem__swap_job *job, mnem_sequence *sequence,
                      int32_t lane) {
    job->sequence = sequence;
    job->shape = mnem__sequence_shape_get(sequence);
    job->first_page = 0;
    job->at = f->region_bytes * (uint64_t)lane;
    job->bytes = mnem__sequence_image_bytes(sequence);
    hand_over(f, job, false);
}

void mnem__swap_read(mnem__swap_file *f, mnem__swap_job *job, mnem_sequence *sequence,
                     int32_t first_page) {
    job->sequence = sequence;
    job->first_page = first_page;
    hand_over(f, job, true);
}

bool mnem__swap_is_done(mnem__swap_file *f, const mnem__swap_job *job, bool wait) {
    pthread_mutex_lock(&f->lock);
    while (wait && !job->done) pthread_cond_wait(&f->done, &f->lock);
    const bool done = job->done;
    pthread_mutex_unlock(&f->lock);
    return done;
}

/* Where holes can't be made the region is written over next time. */
void mnem__swap_drop(mnem__swap_file *f, mnem__swap_job *job) {
    fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)job->at, (off_t)job->bytes);
    pthread_mutex_lock(&f->lock);
    f->bytes_live -= job->bytes;
    pthread_mutex_unlock(&f->lock);
    job->state = MNEM__SWAP_NONE;
}
