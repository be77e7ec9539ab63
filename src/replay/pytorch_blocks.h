/* pytorch_blocks.h: blocks, segments and free sets of the model of PyTorch's caching allocator:
 * between the target (replay_pytorch.c), its blocks (pytorch_blocks.c) and segments that expand
 * (pytorch_expand.c). */
#ifndef MNEM_SRC_REPLAY_PYTORCH_BLOCKS_H
#define MNEM_SRC_REPLAY_PYTORCH_BLOCKS_H

#include "mnem/snapshot.h"

#define MNEM__MIB ((uint64_t)1 << 20)

/* Block 0 isn't used. The sets: blocks that are free, and address space that isn't mapped. */
enum { MNEM__NONE = 0, MNEM__LARGE = 0, MNEM__SMALL = 1, MNEM__KINDS = 2 };

typedef struct mnem__cached_block {
    uint64_t address, bytes;
    uint32_t previous, next; /* neighbours in the segment */
    uint32_t left, right;    /* in a set; next unused block by left */
    uint32_t priority, stream;
    uint32_t call; /* searches of its kind when it became free */
    uint8_t kind;
    bool live, mapped;
} mnem__cached_block;

typedef struct mnem__caching {
    mnem_replay_target base;
    mnem_pytorch_settings settings;
    uint64_t split_max; /* settings.max_split_bytes, or UINT64_MAX */
    mnem__cached_block *blocks;
    size_t count, room;
    uint32_t unused;                /* a list of blocks that went back */
    uint32_t free[MNEM__KINDS];     /* roots */
    uint32_t unmapped[MNEM__KINDS]; /* roots */
    uint32_t calls[MNEM__KINDS];
    uint32_t *ids; /* [blocks of the workload + 1] */
    uint64_t most, address;
    uint32_t random;
    mnem_replay_usage used;
} mnem__caching;

/* A request as the allocator sees it. */
typedef struct mnem__request {
    uint64_t bytes; /* rounded */
    uint32_t stream;
    int kind;
} mnem__request;

/* ---- sets: in the order of stream, bytes, address; without bytes where nothing is mapped ---- */
void mnem__cached_add(mnem__caching *c, uint32_t id);
void mnem__cached_remove(mnem__caching *c, uint32_t id);
/* The first of the set that doesn't lie before the key; the last that does; NONE. */
uint32_t mnem__cached_from(const mnem__caching *c, uint32_t root, const mnem__cached_block *key);
uint32_t mnem__cached_before(const mnem__caching *c, uint32_t root, const mnem__cached_block *key);
/* The next of the set behind a block of it. */
uint32_t mnem__cached_after(const mnem__caching *c, uint32_t id);

/* ---- blocks ---- */
/* NONE without memory. */
uint32_t mnem__cached_take(mnem__caching *c);
void mnem__cached_drop(mnem__caching *c, uint32_t id);
/* Cuts a block, which is in no set, to bytes; *tail, in no set either, is the rest. */
mnem_status mnem__cached_cut(mnem__caching *c, uint32_t id, uint64_t bytes, uint32_t *tail);
/* Joins a block, which is in no set and isn't live, with neighbours like it. Returns which it is
 * now. */
uint32_t mnem__cached_join(mnem__caching *c, uint32_t id);
void mnem__cached_reserve(mnem__caching *c, uint64_t bytes);

/* ---- segments that expand ---- */
/* A free block of at least so many bytes, taken out of its set: maps what is missing.
 * MNEM_OVER_BUDGET, MNEM_NO_MEMORY. */
mnem_status mnem__expand_alloc(mnem__caching *c, const mnem__request *r, uint32_t *id);
/* Unmaps every granule that is free. */
mnem_status mnem__expand_release(mnem__caching *c);

#endif
