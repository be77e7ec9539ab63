/* swap_file.c: sequences that are set aside, as saves in a file.
 *
 * Idea: a save is the sequence's pages one after another (saved.h), written and read page by page,
 * without a buffer. The file has no name, or is ours as long as we live (swap_file.h).
 * Invariant: a job is in the list or the thread's from write or read until it is done; bytes_live
 * counts saves from when their writing begins.
 * Cost: a pwrite or pread and a checksum for a page; nothing is allocated. */
#include "serve/swap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"

#define SWAP_MAGIC  0x315057534d454e4du /* "MNEMSWP1": of somebody who runs, or has died */
#define CACHE_MAGIC 0x314843434d454e4du /* "MNEMCCH1": cache_file.c */
enum { HEAD_BYTES = 4096, ALIGNMENT = 4096 };

/* ---- the thread ---- */

static mnem_status changed(void) {
    return mnem__fail(
        MNEM_BAD_FILE,
        "swap file: another program changed the file; use a file that no other program writes");
}

/* Its head says whether it is what was written; then the pages. */
static mnem_status read_back(const mnem__swap_job *job) {
    const mnem_saved *wrote = &job->saved;
    mnem_saved there;
    MNEM__TRY(mnem__saved_open(job->sequence->engine, mnem__sequence_scales(job->sequence),
                               wrote->fd, wrote->offset, &there));
    if (there.length != wrote->length || there.ids_checksum != wrote->ids_checksum ||
        there.ready != wrote->ready || there.states != wrote->states ||
        there.first_window != wrote->first_window)
        return changed();
    return mnem_sequence_load_read(job->sequence, wrote);
}

static mnem_status move(const mnem__swap_job *job) {
    const mnem_saved *to = &job->saved;
    if (job->reads) return read_back(job);
    return mnem__sequence_save(job->sequence, job->ids, to->ids_checksum, 0, 0, to->fd, to->offset);
}

/* What it moved, where nothing went wrong. */
static uint64_t moved_by(const mnem__swap_file *f, const mnem__swap_job *job) {
    if (job->status != MNEM_OK) return 0;
    if (!job->reads) return job->bytes;
    const mnem_sequence *s = job->sequence;
    uint64_t bytes = f->page_bytes[MNEM__KV_STATES];
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        bytes += (uint64_t)(s->load.end[k] - s->load.begin[k]) * f->page_bytes[k];
    return bytes;
}

/* With the lock held. */
static void note_failure(mnem__swap_file *f, const char *why) {
    f->failures++;
    snprintf(f->failure, sizeof f->failure, "swap file%s", why ? why : "");
}

static void note_rate(mnem__swap_file *f, uint64_t moved, double seconds) {
    if (f->rate_fixed || moved == 0 || !(seconds > 0)) return;
    f->bytes_per_s += ((double)moved / seconds - f->bytes_per_s) / 4;
}

/* With the lock held at both ends, not between. */
static void run_job(mnem__swap_file *f, mnem__swap_job *job) {
    pthread_mutex_unlock(&f->lock);
    const double start = mnem__seconds();
    job->status = move(job);
    job->seconds = mnem__seconds() - start;
    const uint64_t moved = moved_by(f, job);
    pthread_mutex_lock(&f->lock);
    job->done = true;
    if (job->status != MNEM_OK) note_failure(f, strchr(mnem_last_error(), ':'));
    *(job->reads ? &f->bytes_in : &f->bytes_out) += moved;
    if (!f->shared) note_rate(f, moved, job->seconds);
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

/* ---- the file ---- */

static mnem_status fail_open(const char *path) {
    return mnem__fail(MNEM_IO, "swap file: can't open or create %s (%s)", path,
                      strerrordesc_np(errno));
}

static mnem_status fail_folder(const char *folder) {
    return mnem__fail(MNEM_IO, "swap file: can't create a file in the folder %s (%s)", folder,
                      strerrordesc_np(errno));
}

/* A file without a name, where the folder's file system can, else one whose name is taken away. */
static mnem_status open_unnamed(mnem__swap_file *f, const char *folder) {
    char path[PATH_MAX];
    f->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd >= 0) return MNEM_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return fail_folder(folder);
    if (snprintf(path, sizeof path, "%s/mnem-swap-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return fail_folder(folder);
    }
    f->fd = mkostemp(path, O_CLOEXEC);
    if (f->fd < 0) return fail_folder(folder);
    unlink(path);
    return MNEM_OK;
}

/* Whether nothing is lost that isn't ours: a file of our own kinds, or an empty one. */
static mnem_status check_named(int fd, const char *path) {
    struct stat info;
    uint64_t magic = 0;
    if (fstat(fd, &info) != 0) return fail_open(path);
    if (!S_ISREG(info.st_mode))
        return mnem__fail(MNEM_INVALID, "swap file: %s is neither a file nor a folder", path);
    if (info.st_size == 0) return MNEM_OK;
    if (pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
        (magic == SWAP_MAGIC || magic == CACHE_MAGIC))
        return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "swap file: %s exists and is not a swap file of mnem; it was left unchanged: "
                      "give another path, or a folder",
                      path);
}

/* Nobody but its owner reads it, whatever mode it had. */
static mnem_status open_named(mnem__swap_file *f, const char *path) {
    f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (f->fd < 0) return fail_open(path);
    f->named = true;
    MNEM__TRY(check_named(f->fd, path));
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
        return mnem__fail(MNEM_BUSY, "swap file: another process is using %s; choose another file",
                          path);
    return fchmod(f->fd, 0600) == 0 ? MNEM_OK : fail_open(path);
}

/* In the folder of the file, which is rank 0's. */
static mnem_status open_beside(mnem__swap_file *f, const char *path) {
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/');
    const int n = name ? (int)(name - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", name ? (n ? n : 1) : 1, name ? path : ".");
    return open_unnamed(f, folder);
}

static mnem_status open_file(mnem__swap_file *f, const char *path) {
    struct stat info;
    const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder) return open_unnamed(f, path);
    return mnem__relay_first(&f->engine->relay) ? open_named(f, path) : open_beside(f, path);
}

/* ---- life ---- */

static mnem_status start_thread(mnem__swap_file *f) {
    MNEM__TRY(mnem_ledger_charge(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES));
    const mnem_status status = mnem__thread_start(&f->thread, MNEM__SWAP_STACK_BYTES, swap_main, f);
    if (status != MNEM_OK)
        mnem_ledger_release(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES);
    f->started = status == MNEM_OK;
    return status;
}

/* By how much the widest part's state is more than the own one; a save has one state. */
static uint64_t wider_state(const mnem__swap_file *f) {
    return f->page_bytes[MNEM__KV_STATES] - f->engine->pages[MNEM__KV_STATES].page_bytes;
}

/* Of the longest save. */
static uint64_t save_most(const mnem__swap_file *f) {
    mnem__saved_header h = mnem__saved_header_of(f->engine, 0, f->engine->choice.context, 0);
    mnem__saved_pages pages[MNEM__KV_PAGED];
    memcpy(h.page_bytes, f->page_bytes, sizeof h.page_bytes);
    h.state_count = mnem__engine_has_states(f->engine);
    mnem__saved_lay_out(f->engine, &h, pages, &h.bytes);
    return h.bytes + wider_state(f);
}

mnem_status mnem__swap_open(mnem__swap_file *f, const char *path, mnem_engine *engine,
                            uint64_t bytes_most) {
    uint64_t identity;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->done, NULL);
    f->fd = -1;
    f->tail = &f->head;
    f->engine = engine;
    f->ledger = engine->ledger;
    for (int k = 0; k < MNEM__KV_KINDS; k++) f->page_bytes[k] = engine->pages[k].page_bytes;
    f->bytes_most = bytes_most;
    f->bytes_per_s = 200e6; /* until it is known */
    f->region_bytes = mnem__align_up(save_most(f), ALIGNMENT);
    if (!path) return MNEM_OK;
    MNEM__TRY(mnem__saved_identity(engine, &identity)); /* kept: the thread only looks */
    return open_file(f, path);
}

void mnem__swap_share(mnem__swap_file *f, const uint64_t *page_bytes) {
    f->shared = true;
    memcpy(f->page_bytes, page_bytes, sizeof f->page_bytes);
    f->region_bytes = mnem__align_up(save_most(f), ALIGNMENT);
}

/* The head is all that is written where nothing is ever set aside. */
static mnem_status write_head(const mnem__swap_file *f) {
    const uint64_t magic = SWAP_MAGIC;
    if (ftruncate(f->fd, 0) == 0) return mnem__saved_write(f->fd, 0, &magic, sizeof magic);
    return mnem__fail(MNEM_IO,
                      "swap file: can't be emptied (%s); check its disk, or use another file",
                      strerrordesc_np(errno));
}

mnem_status mnem__swap_begin(mnem__swap_file *f) {
    if (f->fd < 0) return MNEM_OK;
    if (f->named) MNEM__TRY(write_head(f));
    return start_thread(f);
}

void mnem__swap_stop(mnem__swap_file *f) {
    if (!f->started) return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
    mnem__thread_join(&f->thread);
    mnem_ledger_release(f->ledger, MNEM_KIND_IO, "swap", MNEM__SWAP_STACK_BYTES);
    f->started = false;
}

/* Where it can't be cut its head still says that it is nobody's. */
static void empty(const mnem__swap_file *f) {
    if (ftruncate(f->fd, 0) != 0) return;
}

void mnem__swap_close(mnem__swap_file *f) {
    if (!f->engine) return; /* never opened */
    if (f->started && f->named) empty(f);
    mnem__swap_stop(f);
    if (f->fd >= 0) close(f->fd);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->done);
    pthread_mutex_destroy(&f->lock);
}

/* ---- jobs ---- */

uint64_t mnem__swap_bytes(const mnem__swap_file *f, const mnem_sequence *sequence) {
    return mnem__saved_of(sequence, f->page_bytes).bytes + wider_state(f);
}

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

void mnem__swap_fix_rate(mnem__swap_file *f, double bytes_per_s) {
    pthread_mutex_lock(&f->lock);
    f->bytes_per_s = bytes_per_s;
    f->rate_fixed = true;
    pthread_mutex_unlock(&f->lock);
}

void mnem__swap_learn(mnem__swap_file *f, const mnem__swap_job *job, double seconds) {
    pthread_mutex_lock(&f->lock);
    note_rate(f, moved_by(f, job), seconds);
    pthread_mutex_unlock(&f->lock);
}

void mnem__swap_failed(mnem__swap_file *f, const char *why) {
    pthread_mutex_lock(&f->lock);
    note_failure(f, why);
    pthread_mutex_unlock(&f->lock);
}

static void hand_over(mnem__swap_file *f, mnem__swap_job *job, bool reads) {
    job->reads = reads;
    job->next = NULL;
    job->done = job->joined = false;
    job->state = reads ? MNEM__SWAP_READING : MNEM__SWAP_WRITING;
    pthread_mutex_lock(&f->lock);
    if (!reads) f->bytes_live += job->bytes;
    *f->tail = job;
    f->tail = &job->next;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

void mnem__swap_write(mnem__swap_file *f, mnem__swap_job *job, mnem_sequence *sequence,
                      const int32_t *ids, uint64_t sum, int32_t lane) {
    job->sequence = sequence;
    job->ids = ids;
    job->length = mnem_sequence_length(sequence);
    job->lane = lane;
    job->at = HEAD_BYTES + f->region_bytes * (uint64_t)lane;
    job->bytes = mnem__swap_bytes(f, sequence);
    job->saved = mnem__saved_of(sequence, NULL);
    job->saved.fd = f->fd;
    job->saved.offset = job->at;
    job->saved.ids_checksum = ids ? mnem__checksum_of(ids, (size_t)job->length * sizeof *ids) : sum;
    hand_over(f, job, false);
}

mnem_status mnem__swap_read(mnem__swap_file *f, mnem__swap_job *job, mnem_sequence *sequence) {
    const mnem_status status = mnem_sequence_load_begin(sequence, &job->saved, job->length);
    if (status != MNEM_OK) {
        mnem__swap_failed(f, strchr(mnem_last_error(), ':'));
        return status;
    }
    job->sequence = sequence;
    hand_over(f, job, true);
    return MNEM_OK;
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

/* ---- states ---- */

uint64_t mnem__swap_pages_at(const mnem__swap_file *f) {
    return HEAD_BYTES + f->region_bytes * (uint64_t)f->engine->sequences;
}

static void note_live(mnem__swap_file *f, uint64_t more) {
    pthread_mutex_lock(&f->lock);
    f->bytes_live += more;
    pthread_mutex_unlock(&f->lock);
}

/* What moving a page came to. */
static mnem_status note_page(mnem__swap_file *f, mnem_status status, uint64_t bytes, double start,
                             uint64_t *moved) {
    pthread_mutex_lock(&f->lock);
    if (status == MNEM_OK) {
        *moved += bytes;
        note_rate(f, bytes, mnem__seconds() - start);
    } else {
        note_failure(f, strchr(mnem_last_error(), ':'));
    }
    pthread_mutex_unlock(&f->lock);
    return status;
}

/* The start of a page's checksum, which includes its position. */
static mnem__checksum page_sum(uint64_t at) {
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    mnem__checksum_add(&sum, &at, sizeof at);
    return sum;
}

mnem_status mnem__swap_page_write(mnem__swap_file *f, uint64_t at, mnem__location from,
                                  uint64_t bytes, uint64_t *sum) {
    const double start = mnem__seconds();
    mnem__checksum checksum = page_sum(at);
    const mnem_status status = mnem__saved_write_from(f->fd, at, from, bytes, &checksum);
    *sum = mnem__checksum_get(&checksum);
    MNEM__TRY(note_page(f, status, bytes, start, &f->bytes_out));
    note_live(f, bytes);
    return MNEM_OK;
}

mnem_status mnem__swap_page_read(mnem__swap_file *f, uint64_t at, mnem__location to, uint64_t bytes,
                                 uint64_t sum) {
    const double start = mnem__seconds();
    mnem__checksum checksum = page_sum(at);
    mnem_status status = mnem__saved_read_to(f->fd, at, to, bytes, &checksum);
    if (status == MNEM_OK && mnem__checksum_get(&checksum) != sum) status = changed();
    return note_page(f, status, bytes, start, &f->bytes_in);
}

/* A range of bytes that is copied from a file to another. */
typedef struct copied {
    int from, to;
    uint64_t from_at, to_at;
    mnem__checksum page, *whole;
    bool was_read; /* all pieces up to the one that failed */
} copied;

static mnem_status copy_bytes(copied *c, uint64_t bytes) {
    uint8_t piece[8192];
    for (uint64_t at = 0, n; at < bytes; at += n) {
        n = mnem__min_u64(sizeof piece, bytes - at);
        c->was_read = false;
        MNEM__TRY(mnem__saved_read(c->from, c->from_at + at, piece, n));
        c->was_read = true;
        mnem__checksum_add(&c->page, piece, n);
        mnem__checksum_add(c->whole, piece, n);
        MNEM__TRY(mnem__saved_write(c->to, c->to_at + at, piece, n));
    }
    return MNEM_OK;
}

mnem_status mnem__swap_page_save(mnem__swap_file *f, uint64_t at, uint64_t bytes, uint64_t sum,
                                 int to, uint64_t to_at, mnem__checksum *whole) {
    copied c = {f->fd, to, at, to_at, page_sum(at), whole, true};
    mnem_status status = copy_bytes(&c, bytes);
    if (status != MNEM_OK && c.was_read) return MNEM_IO; /* the other file */
    if (status == MNEM_OK && mnem__checksum_get(&c.page) != sum) status = changed();
    if (status == MNEM_OK) return MNEM_OK;
    mnem__swap_failed(f, strchr(mnem_last_error(), ':'));
    return MNEM_NOT_READY;
}

mnem_status mnem__swap_page_load(mnem__swap_file *f, uint64_t at, uint64_t bytes, uint64_t *sum,
                                 int from, uint64_t from_at, mnem__checksum *whole) {
    copied c = {from, f->fd, from_at, at, page_sum(at), whole, true};
    const mnem_status status = copy_bytes(&c, bytes);
    *sum = mnem__checksum_get(&c.page);
    if (status == MNEM_OK)
        note_live(f, bytes);
    else if (c.was_read)
        mnem__swap_failed(f, strchr(mnem_last_error(), ':'));
    return status;
}

void mnem__swap_page_drop(mnem__swap_file *f, uint64_t at, uint64_t bytes) {
    fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
    pthread_mutex_lock(&f->lock);
    f->bytes_live -= bytes;
    pthread_mutex_unlock(&f->lock);
}
