/* trainer_moments.c: writes moments that are divided over ranks to one file, and reads them.
 *
 * Idea: a checkpoint has the form of a single process's, so that any number of ranks can resume
 * from it. Rank 0 writes it and receives the other ranks' runs (moments_walk.h) in order, a
 * piece at a time; every rank reads the whole file and keeps its own part. Invariant: rank 0
 * receives every piece that the others send, even if the disk is full, so that no rank waits
 * forever. Cost: memory of the exchange, which is unused between steps. */
#include <string.h>

#include "base/error.h"
#include "train/ranks/moments_walk.h"
#include "train/step/trainer_private.h"

enum { CHANNEL_SAVE = 2, PIECE = 1 << 20 };

bool mnem__trainer_moments_cut(const mnem_trainer *t) {
    return t->exchange && t->setup.o.shard != MNEM_SHARD_NONE;
}

uint64_t mnem__trainer_moments_bytes(const mnem_trainer *t) {
    uint64_t bytes = mnem__optimizer_bytes(t->optimizer);
    const mnem__train_setup *s = &t->setup;
    if (mnem__trainer_moments_cut(t))
        (void)mnem__optimizer_measure(&s->o.optimizer, s->segments, (size_t)s->shape->params,
                                      &bytes);
    return bytes;
}

static mnem_status walk(mnem_trainer *t, mnem__moments_visit *visit, void *context) {
    const mnem__train_setup *s = &t->setup;
    return mnem__moments_walk(&s->o.optimizer, &s->cut, s->shape, s->segments,
                              mnem_comm_rank(s->comm), visit, context);
}

static uint64_t piece_of(uint64_t left, uint64_t room) {
    const uint64_t most = room < PIECE ? room : PIECE;
    return left < most ? left : most;
}

/* ---- writing ---- */

typedef struct writing {
    mnem_trainer *t;
    mnem__checkpoint_put *put;
    void *to;
    mnem_status status; /* of writing */
    uint8_t *buffer;
    uint64_t room;
} writing;

static void put_section(writing *w, const void *data, uint64_t bytes) {
    if (w->status == MNEM_OK) w->status = w->put(w->to, data, bytes);
}

/* On rank 0: receives a run from its owner. */
static mnem_status gather(void *context, int32_t owner, uint64_t place, uint64_t bytes) {
    static const uint8_t zeros[MNEM__MOMENTS_ALIGNMENT];
    writing *w = context;
    mnem_comm *comm = w->t->setup.comm;
    if (owner < 0) put_section(w, zeros, bytes);
    for (uint64_t n; owner >= 0 && bytes > 0; bytes -= n, place += n) {
        const void *data = w->buffer;
        n = piece_of(bytes, w->room);
        if (owner == 0) {
            MNEM__TRY(mnem__trainer_read(w->t, MNEM__PART_MOMENTS, place, n, w->buffer, &data));
        } else {
            MNEM__TRY(mnem_comm_post(comm, owner, CHANNEL_SAVE, w->buffer, n, &w->t->request));
            MNEM__TRY(mnem_comm_wait(comm, &w->t->request, 1));
        }
        put_section(w, data, n);
    }
    return MNEM_OK;
}

/* On other ranks: sends the rank's own runs to rank 0. */
static mnem_status give(void *context, int32_t owner, uint64_t place, uint64_t bytes) {
    writing *w = context;
    mnem_comm *comm = w->t->setup.comm;
    if (owner != mnem_comm_rank(comm)) return MNEM_OK;
    for (uint64_t n; bytes > 0; bytes -= n, place += n) {
        const void *data;
        n = piece_of(bytes, w->room);
        MNEM__TRY(mnem__trainer_read(w->t, MNEM__PART_MOMENTS, place, n, w->buffer, &data));
        MNEM__TRY(mnem_comm_send(comm, 0, CHANNEL_SAVE, data, n, &w->t->request));
        MNEM__TRY(mnem_comm_wait(comm, &w->t->request, 1));
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_moments_write(void *trainer, mnem__checkpoint_put *to_file, void *to) {
    mnem_trainer *t = trainer;
    writing w = {.t = t, .put = to_file, .to = to};
    if (!mnem__trainer_moments_cut(t))
        return mnem__trainer_part_write(t, MNEM__PART_MOMENTS, mnem__trainer_moments_bytes(t),
                                        to_file, to);
    w.buffer = mnem__exchange_scratch(t->exchange, &w.room);
    t->moments_written = true;
    mnem__moments_visit *visit = mnem_comm_rank(t->setup.comm) == 0 ? gather : give;
    MNEM__TRY(mnem__ranks_end(t->setup.comm, walk(t, visit, &w)));
    return w.status;
}

/* ---- reading ---- */

typedef struct reading {
    mnem_trainer *t;
    mnem__checkpoint_section section;
    uint8_t *buffer;
    uint64_t room;
} reading;

static mnem_status take_section(void *context, int32_t owner, uint64_t place, uint64_t bytes) {
    reading *r = context;
    const bool own = owner == mnem_comm_rank(r->t->setup.comm);
    for (uint64_t n; bytes > 0; bytes -= n, place += n) {
        n = own ? mnem__trainer_piece(r->t, bytes) : piece_of(bytes, r->room);
        void *to = own ? mnem__trainer_piece_at(r->t, MNEM__PART_MOMENTS, place) : r->buffer;
        MNEM__TRY(mnem__checkpoint_section_read(&r->section, to, n));
        if (own) MNEM__TRY(mnem__trainer_piece_put(r->t, MNEM__PART_MOMENTS, place, n));
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_moments_read(mnem_trainer *t, const mnem__checkpoint *c) {
    const uint64_t bytes = mnem__trainer_moments_bytes(t);
    if (!mnem__trainer_moments_cut(t))
        return mnem__trainer_part_read(t, c, "moments", MNEM__PART_MOMENTS, bytes);
    reading r = {.t = t};
    r.buffer = mnem__exchange_scratch(t->exchange, &r.room);
    MNEM__TRY(mnem__checkpoint_section_open(c, "moments", bytes, &r.section));
    MNEM__TRY(walk(t, take_section, &r));
    return mnem__checkpoint_section_end(&r.section);
}
