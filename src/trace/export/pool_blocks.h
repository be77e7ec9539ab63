/* pool_blocks.h: the live blocks of pools, by address. Several pools may use one address. */
#ifndef MNEM_SRC_TRACE_EXPORT_POOL_BLOCKS_H
#define MNEM_SRC_TRACE_EXPORT_POOL_BLOCKS_H

#include "trace/export/block.h"

typedef struct mnem__pool_block {
    mnem__block block; /* bytes 0: the slot is empty */
    uint32_t owner;    /* the pool */
} mnem__pool_block;

typedef struct mnem__pool_blocks {
    mnem__block_listener on;
    mnem__pool_block *slot; /* [room], a power of two; at most half of them are used */
    uint32_t room, used;
} mnem__pool_blocks;

/* Begins a block of nonzero bytes. An existing block at the address has ended without an event. */
mnem_status mnem__pool_blocks_begin(mnem__pool_blocks *p, uint32_t owner, mnem__block b);
/* Ends a block; ignores unknown ones. */
void mnem__pool_blocks_end(mnem__pool_blocks *p, uint32_t owner, uint64_t address, uint64_t ns);
void mnem__pool_blocks_fini(mnem__pool_blocks *p);

#endif
