/* replay_private.h: the targets that replay.c creates by name, and the one that it inlines. */
#ifndef MNEM_SRC_REPLAY_REPLAY_PRIVATE_H
#define MNEM_SRC_REPLAY_REPLAY_PRIVATE_H

#include "mnem/snapshot.h"

/* An offset policy as a target. */
typedef struct mnem__offset_target {
    mnem_replay_target base;
    mnem_offset_policy policy;
    mnem_replay_settings settings; /* segment_bytes 0: chosen from the workload's peak */
    mnem_offset_allocator *a;      /* NULL until the first allocation */
    uint32_t *handles;             /* [blocks] */
    uint64_t *offsets;             /* [blocks]; the inlined path doesn't fill it */
    uint64_t segment, most;
    mnem_replay_usage used;
} mnem__offset_target;

/* The slow path of an allocation: reserves more, if allowed. */
mnem_status mnem__offset_target_grow(mnem__offset_target *t, uint32_t block, uint64_t bytes);

/* Inlined into the timed loop, so that only the allocator's own call is timed. */
static inline mnem_status mnem__offset_target_alloc(mnem_replay_target *self, uint32_t block,
                                                    uint64_t bytes, uint32_t stream) {
    mnem__offset_target *t = (mnem__offset_target *)self;
    mnem_offset_block b;
    (void)stream;
    if (__builtin_expect(!t->a || mnem_offset_alloc(t->a, bytes, &b) != MNEM_OK, 0))
        return mnem__offset_target_grow(t, block, bytes);
    t->handles[block] = b.handle;
    return MNEM_OK;
}

static inline void mnem__offset_target_free(mnem_replay_target *self, uint32_t block,
                                            uint32_t stream) {
    mnem__offset_target *t = (mnem__offset_target *)self;
    (void)stream;
    mnem_offset_free(t->a, t->handles[block]);
}

bool mnem__is_offset_target(const mnem_replay_target *target);

/* The destroy of targets that own nothing but their struct after close. */
void mnem__replay_target_free(mnem_replay_target *self);

/* Rounds a request as PyTorch does with these settings. */
uint64_t mnem__pytorch_round(const mnem_pytorch_settings *settings, uint64_t bytes);

/* Targets for the whole pool, and for fits into remapped granules. MNEM_NO_MEMORY. */
mnem_status mnem__pool_target_create(const mnem_replay_settings *settings,
                                     mnem_replay_target **target);
mnem_status mnem__granule_target_create(const mnem_replay_settings *settings,
                                        mnem_replay_target **target);

/* The default bytes that a target grows by. */
uint64_t mnem__replay_segment(uint64_t bytes_peak);

#endif
