/* weights_reader.c: the threads that read and pack chunks, in the order of the schedule.
 *
 * The idea: each reader takes the next ticket when its slot is free, reads, packs, and says so. Two
 * of them keep a read in flight while the other packs. The order is a cursor over the passes; past
 * the last scheduled pass it goes on into one pass that is guessed, and is set back when the guess
 * was wrong.
 * Whoever writes to the file would change what the model is: its size and time are compared with
 * those of opening, and a sample of each chunk with that of the pass before.
 * Invariant: a slot belongs to one reader from READING on, to the owner while HELD, and to the lock
 * otherwise. Bytes are read into and packed in a slot with no lock held.
 * Cost: two locks for each chunk; nothing is allocated. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/event.h"
#include "base/file/checksum.h"
#include "model/weights/weights_private.h"

/* ---- files ---- */

/* Through /proc, where it is mounted, the model's own file is opened again; otherwise by its
 * path. */
static int reopen(const mnem__gguf_part *part, int flags) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", part->fd);
    int fd = open(link, O_RDONLY | O_CLOEXEC | flags);
    return fd >= 0 || errno != ENOENT ? fd : open(part->path, O_RDONLY | O_CLOEXEC | flags);
}

mnem_status mnem__weights_part_open(const mnem_model *model, uint32_t index, bool page_cache,
                                    mnem__weights_part *part) {
    const mnem__gguf_part *file = &model->part[index];
    part->file = file;
    part->fd = page_cache ? -1 : reopen(file, O_DIRECT);
    atomic_store(&part->direct, part->fd >= 0);
    if (part->fd < 0) part->fd = reopen(file, 0);
    if (part->fd >= 0) return MNEM_OK;
    return mnem__fail(MNEM_IO, "%s: can't be opened (%s)", file->path, strerrordesc_np(errno));
}

/* Some file systems open with O_DIRECT and refuse to read so: from then on like the others. */
static void direct_stop(mnem__weights_part *part) {
    int flags = fcntl(part->fd, F_GETFL);
    if (flags >= 0) fcntl(part->fd, F_SETFL, flags & ~O_DIRECT);
    atomic_store(&part->direct, false);
}

enum { FILE_ENDS = -1 };

/* Reads length bytes at `at`, of which the first `wanted` must come: a file's end may cut the last
 * unit. Direct reads go on at a whole unit after a short one. Returns 0, FILE_ENDS or an errno. */
static int read_fully(int fd, uint64_t at, uint64_t length, uint64_t wanted, bool direct,
                      uint8_t *out) {
    uint64_t got = 0, best = 0;
    for (;;) {
        ssize_t n = pread(fd, out + got, length - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        got += (uint64_t)n;
        if (got >= wanted) return 0;
        if (direct) got -= got % MNEM__WEIGHTS_ALIGNMENT;
        if (got == best) return FILE_ENDS;
        best = got;
    }
}

mnem_status mnem__weights_part_read(mnem__weights_part *part, bool page_cache, uint64_t offset,
                                    uint64_t bytes, uint8_t *buffer, uint8_t **raw) {
    uint64_t head = offset % MNEM__WEIGHTS_ALIGNMENT;
    int error = EINVAL;
    *raw = buffer + head;
    if (atomic_load(&part->direct)) {
        uint64_t length = mnem__align_up(head + bytes, MNEM__WEIGHTS_ALIGNMENT);
        error = read_fully(part->fd, offset - head, length, head + bytes, true, buffer);
        if (error == EINVAL) direct_stop(part);
    }
    if (error == EINVAL) {
        error = read_fully(part->fd, offset, bytes, bytes, false, *raw);
        if (!page_cache) posix_fadvise(part->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    }
    if (error == 0) return MNEM_OK;
    return mnem__fail(MNEM_IO, "%s: can't read %llu bytes from byte %llu on (%s)", part->file->path,
                      (unsigned long long)bytes, (unsigned long long)offset,
                      error == FILE_ENDS ? "another program made the file shorter"
                                         : strerrordesc_np(error));
}

/* Bytes of the tensor that lie together. */
static mnem_status piece_read(mnem__weights *w, const mnem__matrix *m, uint64_t at, uint64_t bytes,
                              uint8_t *buffer, uint8_t **raw) {
    if (m->made < 0)
        return mnem__weights_part_read(&w->parts[m->file], w->page_cache, m->offset + at, bytes,
                                       buffer, raw);
    *raw = buffer;
    return mnem_model_tensor_read(w->model, (uint32_t)m->made, at, bytes, buffer);
}

/* Bytes of rows that are here, whose places in the tensor may be apart: all but the first are read
 * behind what is there and moved up to it. */
static mnem_status matrix_read(mnem__weights *w, const mnem__matrix *m, uint64_t at, uint64_t bytes,
                               uint8_t *buffer, uint8_t **raw) {
    uint64_t got = 0, piece;
    for (; got < bytes; got += piece) {
        int64_t row;
        const int64_t n = mnem__row_spans_together(&m->here, (int64_t)((at + got) / m->row_bytes),
                                                   (int64_t)((bytes - got) / m->row_bytes), &row);
        const uint64_t from = (uint64_t)row * m->row_bytes;
        piece = (uint64_t)n * m->row_bytes;
        if (got == 0) {
            MNEM__TRY(piece_read(w, m, from, piece, buffer, raw));
            continue;
        }
        const uint64_t taken = (uint64_t)(*raw - buffer) + got;
        uint8_t *more;
        MNEM__TRY(piece_read(w, m, from, piece,
                             buffer + mnem__align_up(taken, MNEM__WEIGHTS_ALIGNMENT), &more));
        memmove(buffer + taken, more, piece);
    }
    return MNEM_OK;
}

static void tell_read(const mnem__weights *w, const mnem__matrix *m, mnem__event_what what,
                      uint64_t bytes) {
    if (mnem__event_told())
        mnem__event_say(what, w->owner, (uint32_t)(m - w->matrices), MNEM__SPAN_READ, m->name, NULL,
                        bytes);
}

mnem_status mnem__matrix_read(mnem__weights *w, const mnem__matrix *m, uint64_t at, uint64_t bytes,
                              uint8_t *buffer, uint8_t **raw) {
    tell_read(w, m, MNEM__EVENT_BEGIN, bytes);
    const mnem_status status = matrix_read(w, m, at, bytes, buffer, raw);
    tell_read(w, m, MNEM__EVENT_END, 0);
    return status;
}

/* ---- the order ---- */

mnem__pass mnem__weights_guess(const mnem__weights *w) {
    return w->pass_list[MNEM__PASS_BODY].count ? MNEM__PASS_BODY : MNEM__PASS_HEAD;
}

const mnem__matrix_list *mnem__weights_list(const mnem__weights *w, uint64_t pass) {
    if (w->mode == MNEM__WEIGHTS_LOADING) return &w->load_list;
    return &w->pass_list[pass < w->passes ? w->pass_kind[pass % MNEM__WEIGHTS_PASSES]
                                          : mnem__weights_guess(w)];
}

bool mnem__weights_cursor_settle(const mnem__weights *w, mnem__weights_cursor *c, bool guess) {
    uint64_t end = w->mode == MNEM__WEIGHTS_LOADING ? 1 : w->passes + guess;
    for (; c->pass < end; *c = (mnem__weights_cursor){.pass = c->pass + 1})
        if (c->at < mnem__weights_list(w, c->pass)->count) return true;
    return false;
}

void mnem__weights_cursor_next(const mnem__weights *w, const mnem__matrix_list *list,
                               mnem__weights_cursor *c) {
    if (++c->chunk < w->matrices[list->index[c->at]].chunks) return;
    c->chunk = 0;
    c->at++;
}

/* ---- jobs ---- */

typedef struct job {
    const mnem__matrix *matrix;
    int64_t chunk;
    uint32_t slot;
    bool load;    /* into the resident block */
    bool check;   /* whether the files are still what they were */
    uint32_t sum; /* of what was read */
} job;

/* The files are looked at after so many bytes, and at the end of a pass. */
enum { CHECK_BYTES = 16 << 20 };

/* Takes the next chunk when its slot is free. The lock is held. */
static bool job_take(mnem__weights *w, job *j) {
    uint32_t slot = (uint32_t)(w->ticket_read % w->slot_count);
    if (w->mode == MNEM__WEIGHTS_IDLE || w->status != MNEM_OK) return false;
    if (w->slots[slot].state != MNEM__SLOT_FREE) return false;
    if (!mnem__weights_cursor_settle(w, &w->read_at, true)) return false;
    const mnem__matrix_list *list = mnem__weights_list(w, w->read_at.pass);
    *j = (job){.matrix = &w->matrices[list->index[w->read_at.at]],
               .chunk = w->read_at.chunk,
               .slot = slot,
               .load = w->mode == MNEM__WEIGHTS_LOADING};
    w->slots[slot] = (mnem__ring_slot){.state = MNEM__SLOT_READING, .pass = w->read_at.pass};
    w->ticket_read++;
    w->reading++;
    mnem__weights_cursor_next(w, list, &w->read_at);
    w->unchecked += mnem__chunk_raw_bytes(j->matrix, j->chunk);
    j->check = w->unchecked >= CHECK_BYTES || w->read_at.at == list->count;
    if (j->check) w->unchecked = 0;
    return true;
}

/* Of some rows that aren't 2:4 the first place. */
static mnem_status not_sparse(const mnem__matrix *m, int64_t row, const uint8_t *raw) {
    int64_t at, tensor_row;
    while ((at = mnem_sparse_check(m->type, m->k, raw)) < 0) {
        raw += m->row_bytes;
        row++;
    }
    mnem__row_spans_together(&m->here, row, 1, &tensor_row);
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: the file says that the model is 2:4 (mnem.sparsity.pattern), but row "
                      "%lld has more than two numbers that aren't 0 in columns %lld to %lld; prune "
                      "the model again",
                      m->name, (long long)tensor_row, (long long)at, (long long)at + 3);
}

mnem_status mnem__weights_pack(const mnem__matrix *m, int64_t row, int64_t rows, const uint8_t *raw,
                               uint8_t *packed) {
    const int64_t end = row + rows;
    if (m->compact) memmove(packed, raw, (uint64_t)rows * m->row_bytes);
    for (; row < end && !m->compact; row += MNEM_PACK_ROWS) {
        const int64_t n = end - row < MNEM_PACK_ROWS ? end - row : MNEM_PACK_ROWS;
        if (m->layout != MNEM_LAYOUT_SPARSE)
            mnem_pack_group(m->type, n, m->k, raw, packed);
        else if (!mnem_sparse_group(m->type, n, m->k, raw, packed))
            return not_sparse(m, row, raw);
        raw += m->raw_bytes;
        packed += m->packed_bytes;
    }
    return MNEM_OK;
}

/* Of one line of every 16 KiB: costs nothing beside packing, and tells of a file that was written
 * over when its time doesn't. Never 0. */
uint32_t mnem__weights_sample(const uint8_t *raw, uint64_t bytes) {
    enum { LINE = 64, STEP = 16384 };
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (uint64_t at = 0; at < bytes; at += STEP)
        mnem__checksum_add(&sum, raw + at, bytes - at < LINE ? bytes - at : LINE);
    return (uint32_t)mnem__checksum_get(&sum) | 1;
}

mnem_status mnem__weights_check_parts(const mnem__weights *w) {
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; i < w->part_count && status == MNEM_OK; i++)
        status = mnem__gguf_part_check(w->parts[i].file, w->parts[i].fd);
    return status;
}

/* To where they stay: at once where the host reaches it, else by way of the slot. */
static mnem_status pack_resident(const mnem__weights *w, const mnem__matrix *m, int64_t begin,
                                 int64_t end, const uint8_t *raw, uint8_t *slot) {
    const uint64_t before = (uint64_t)(begin / MNEM_PACK_ROWS) * m->packed_bytes;
    const mnem__location to = mnem__location_at(w->resident, m->place + before);
    const uint64_t groups = (uint64_t)(end - begin + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS;
    uint8_t *packed = mnem__location_open(to, slot);
    MNEM__TRY(mnem__weights_pack(m, begin, end - begin, raw, packed));
    return mnem__location_put(to, packed, (size_t)(groups * m->packed_bytes));
}

/* Reads and packs; no lock is held. */
static mnem_status job_run(mnem__weights *w, job *j) {
    const mnem__matrix *m = j->matrix;
    uint8_t *slot = w->ring + (uint64_t)j->slot * w->slot_bytes, *raw;
    int64_t begin, end;
    mnem__chunk_rows(m, j->chunk, &begin, &end);
    mnem_status status =
        mnem__matrix_read(w, m, (uint64_t)begin * m->row_bytes, mnem__chunk_raw_bytes(m, j->chunk),
                          slot + m->raw_at, &raw);
    if (status != MNEM_OK) status = mnem__fail_in(status, "%s", m->name);
    /* A file that was cut off was written to. */
    if (j->check || status != MNEM_OK) {
        const mnem_status same = mnem__weights_check_parts(w);
        if (same != MNEM_OK) status = same;
    }
    if (status != MNEM_OK) return status;
    if (!j->load) j->sum = mnem__weights_sample(raw, mnem__chunk_raw_bytes(m, j->chunk));
    return j->load ? pack_resident(w, m, begin, end, raw, slot)
                   : mnem__weights_pack(m, begin, end - begin, raw, slot);
}

/* What was read is what it was in earlier passes. The lock is held. */
static mnem_status job_check(mnem__weights *w, const job *j) {
    uint32_t *before = &w->sums[j->matrix->sum_at + (uint64_t)j->chunk];
    if (*before == 0) *before = j->sum;
    if (*before == j->sum) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: %s: the file was overwritten while mnem used it; start again",
                      j->matrix->name, w->parts[j->matrix->file].file->path);
}

/* The first failure is the one that is told. The lock is held. */
static void note_failure(mnem__weights *w, mnem_status status) {
    if (w->status != MNEM_OK) return;
    w->status = status;
    strncpy(w->error, mnem_last_error(), sizeof w->error - 1);
}

/* The lock is held. */
static void job_finish(mnem__weights *w, const job *j, mnem_status status) {
    mnem__ring_slot *slot = &w->slots[j->slot];
    uint64_t bytes = mnem__chunk_raw_bytes(j->matrix, j->chunk);
    w->reading--;
    if (status == MNEM_OK && !j->load) status = job_check(w, j);
    bool wanted = slot->state == MNEM__SLOT_READING && !j->load && status == MNEM_OK;
    slot->state = wanted ? MNEM__SLOT_READY : MNEM__SLOT_FREE;
    if (status == MNEM_OK) {
        w->stats.bytes_read += bytes;
        if (j->load) w->bytes_loaded += bytes;
    } else {
        note_failure(w, status);
    }
    pthread_cond_signal(&w->for_owner);
    if (!wanted) pthread_cond_broadcast(&w->for_readers);
}

/* Takes a job and does it; false: there is none. The lock is held, but not while it is done. */
static bool chunk_do(mnem__weights *w) {
    job j;
    if (!job_take(w, &j)) return false;
    pthread_mutex_unlock(&w->lock);
    const mnem_status status = job_run(w, &j);
    pthread_mutex_lock(&w->lock);
    job_finish(w, &j, status);
    return true;
}

static bool expert_do(mnem__weights *w) {
    mnem__expert_job j;
    if (!mnem__expert_job_take(w, &j)) return false;
    pthread_mutex_unlock(&w->lock);
    mnem_status status = mnem__expert_job_run(w, &j);
    pthread_mutex_lock(&w->lock);
    status = mnem__expert_job_finish(w, &j, status);
    if (status != MNEM_OK) note_failure(w, status);
    pthread_cond_signal(&w->for_owner);
    return true;
}

/* Experts first: when any are wanted, somebody waits for them. */
void mnem__weights_reader(void *context) {
    mnem__weights *w = context;
    pthread_mutex_lock(&w->lock);
    while (!w->stop)
        if (!expert_do(w) && !chunk_do(w)) pthread_cond_wait(&w->for_readers, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
