/* live_blocks.h: the blocks that are live, by id. */
#ifndef MNEM_SRC_SIGHT_REPORT_LIVE_BLOCKS_H
#define MNEM_SRC_SIGHT_REPORT_LIVE_BLOCKS_H

#include "base/heap.h"

typedef struct mnem__live {
    uint64_t id, bytes, granted, address, born;
    uint32_t account, owner; /* numbers of holders: its account, its site */
    bool used, before;
} mnem__live;

typedef struct mnem__live_blocks {
    mnem__live *slot; /* [room]; room is a power of two, or 0 */
    size_t room, count;
} mnem__live_blocks;

/* NULL: no such block. Borrowed until the next change. */
mnem__live *mnem__live_find(const mnem__live_blocks *blocks, uint64_t id);
/* Finds or adds a block; a new one has `used` set and is zero otherwise. NULL: out of memory. */
mnem__live *mnem__live_add(mnem__live_blocks *blocks, uint64_t id);
void mnem__live_remove(mnem__live_blocks *blocks, mnem__live *block);
void mnem__live_fini(mnem__live_blocks *blocks);

#endif
