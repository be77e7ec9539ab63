/* trainer_memory.c: a trainer's blocks, on a device whose memory the host may not be able to
 * access.
 *
 * Idea: computation (graphs, the optimizer) uses pointers bound to the device, and runs between
 * the device's enter and leave. Data that the host writes or reads (new weights, rows of files,
 * losses, checkpoints) passes through a pinned block, a piece at a time; if the host can access
 * the memory, it works in place. Invariant: the numbers are the same on every device. Cost: on
 * such a device a copy of each piece; on others none. */
#include "base/error.h"
#include "base/minmax.h"
#include "train/step/trainer_private.h"

mnem_status mnem__trainer_device_check(const mnem_trainer *t) {
    if (t->taken.runs) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED, "train: operators can't run on this device, which is for "
                                        "planning only; use the device \"host\"");
}

mnem_status mnem__trainer_team_run(mnem_trainer *t, mnem_team_function *job, void *context) {
    MNEM__TRY(mnem__device_enter(t->taken.device));
    mnem_team_run(t->team, job, context);
    mnem__device_leave(t->taken.device);
    return MNEM_OK;
}

static mnem__location at(const mnem_trainer *t, mnem__part part, uint64_t place) {
    return mnem__location_at(mnem__part_at(&t->taken, part), place);
}

uint64_t mnem__trainer_piece(const mnem_trainer *t, uint64_t n) {
    return t->taken.apart ? mnem__min_u64(n, mnem__train_piece_bytes(&t->setup)) : n;
}

void *mnem__trainer_piece_at(const mnem_trainer *t, mnem__part part, uint64_t place) {
    return mnem__location_open(at(t, part, place), mnem__trainer_host(t, MNEM__PART_STAGING));
}

mnem_status mnem__trainer_piece_put(const mnem_trainer *t, mnem__part part, uint64_t place,
                                    uint64_t n) {
    return mnem__location_put(at(t, part, place), mnem__trainer_piece_at(t, part, place), n);
}

mnem_status mnem__trainer_read(const mnem_trainer *t, mnem__part part, uint64_t place, uint64_t n,
                               void *memory, const void **data) {
    return mnem__location_get(at(t, part, place), memory, n, data);
}

mnem_status mnem__trainer_piece_get(const mnem_trainer *t, mnem__part part, uint64_t place,
                                    uint64_t n, const void **data) {
    return mnem__trainer_read(t, part, place, n, mnem__trainer_host(t, MNEM__PART_STAGING), data);
}

void *mnem__trainer_scratch(const mnem_trainer *t) {
    if (!t->taken.apart) return t->gradients;
    return mnem__trainer_host(t, MNEM__PART_STAGING) + mnem__train_piece_bytes(&t->setup);
}

mnem_status mnem__trainer_part_write(const mnem_trainer *t, mnem__part part, uint64_t bytes,
                                     mnem__checkpoint_put *put, void *to) {
    for (uint64_t done = 0, n; done < bytes; done += n) {
        const void *piece;
        n = mnem__trainer_piece(t, bytes - done);
        MNEM__TRY(mnem__trainer_piece_get(t, part, done, n, &piece));
        MNEM__TRY(put(to, piece, n));
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_part_read(const mnem_trainer *t, const mnem__checkpoint *c,
                                    const char *name, mnem__part part, uint64_t bytes) {
    mnem__checkpoint_section section;
    MNEM__TRY(mnem__checkpoint_section_open(c, name, bytes, &section));
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = mnem__trainer_piece(t, bytes - done);
        MNEM__TRY(
            mnem__checkpoint_section_read(&section, mnem__trainer_piece_at(t, part, done), n));
        MNEM__TRY(mnem__trainer_piece_put(t, part, done, n));
    }
    return mnem__checkpoint_section_end(&section);
}
