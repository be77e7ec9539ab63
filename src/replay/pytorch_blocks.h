/* pytorch_blocks.h: blocks, segments and free sets of the model of PyTorch's caching allocator,
 * shared by the target (replay_pytorch.c), its blocks (pytorch_blocks.c) and its expandable
 * segments (pytorch_expand.c). */
#ifndef MNEM_SRC_REPLAY_PYTORCH_BLOCKS_H
#define MNEM_SRC_REPLAY_PYTORCH_BLOCKS_H

#include "mnem/snapshot.h"

#define MNEM__MIB ((uint64_t)1 << 20)

/* Block 0 is never used. There are two kinds of sets: free blocks, and unmapped address space. */
enum { MNEM__NONE = 0, MNEM__LARGE = 0, MNEM__SMALL = 1, MNEM__KINDS = 2 };

typedef struct mnem__cached_block {
    uint64_t address, bytes;
    uint32_t previous, next; /* neighbours in the segment */
    uint32_t left,
        right; /* children in a set; in the list of unused blocks, left is the next one */
    uint32_t priority, stream;
    uint32_t call; /* the number of searches of its kind at the time of its free */
    uint8_t kind;
    bool live, mapped;
} mnem__cached_block;

typedef struct mnem__caching {
    mnem_replay_target base;
    mnem_pytorch_settings settings;
    uint64_t split_max; /* settings.max_split_bytes, or UINT64_MAX */
    mnem__cached_block *blocks;
    size_t count, room;
    uint32_t unused;                /* head of the list of released block numbers */
    uint32_t free[MNEM__KINDS];     /* roots */
    uint32_t unmapped[MNEM__KINDS]; /* roots */
    uint32_t calls[MNEM__KINDS];
    uint32_t *ids; /* [blocks of the workload + 1] */
    uint64_t most, address;
    uint32_t random;
    mnem_replay_usage used;
} mnem__caching;

/* A request in the allocator's units. */
typedef struct mnem__request {
    uint64_t bytes; /* rounded */
    uint32_t stream;
    int kind;
} mnem__request;

/* ---- sets: ordered by stream, bytes, address; sets of unmapped space by stream, address ---- */
void mnem__cached_add(mnem__caching *c, uint32_t id);
void mnem__cached_remove(mnem__caching *c, uint32_t id);
/* from: the first block of the set at or behind the key; before: the last block in front of it.
 * NONE: there is none. */
uint32_t mnem__cached_from(const mnem__caching *c, uint32_t root, const mnem__cached_block *key);
uint32_t mnem__cached_before(const mnem__caching *c, uint32_t root, const mnem__cached_block *key);
/* Returns the successor of a block in its set. */
uint32_t mnem__cached_after(const mnem__caching *c, uint32_t id);

/* ---- blocks ---- */
/* Returns an unused block number; NONE: out of memory. */
uint32_t mnem__cached_take(mnem__caching *c);
void mnem__cached_drop(mnem__caching *c, uint32_t id);
/* Shortens a block that is in no set to bytes; *tail is a new block for the rest, in no set
 * either. */
mnem_status mnem__cached_cut(mnem__caching *c, uint32_t id, uint64_t bytes, uint32_t *tail);
/* Joins a block that is neither live nor in a set with neighbours of the same state. Returns the
 * joined block. */
uint32_t mnem__cached_join(mnem__caching *c, uint32_t id);
void mnem__cached_reserve(mnem__caching *c, uint64_t bytes);

/* ---- segments that expand ---- */
/* Removes a free block of at least r->bytes from its set and returns it; maps memory as needed.
 * MNEM_OVER_BUDGET, MNEM_NO_MEMORY. */
mnem_status mnem__expand_alloc(mnem__caching *c, const mnem__request *r, uint32_t *id);
/* Unmaps all free granules. */
mnem_status mnem__expand_release(mnem__caching *c);

#endif
