/* account_blocks.h: the live bytes of an account as blocks, because memory viewers show
 * allocations and frees of addresses, while a ledger records charges and releases of bytes.
 *
 * A charge is a block. A release ends the latest block of the same size; without one, it ends
 * the latest blocks, and begins the rest of the last one again. So at all times the blocks of an
 * account add up to its live bytes. */
#ifndef MNEM_SRC_TRACE_EXPORT_ACCOUNT_BLOCKS_H
#define MNEM_SRC_TRACE_EXPORT_ACCOUNT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/export/block.h"

typedef struct mnem__account_block {
    mnem__block block; /* address: invented; live blocks don't overlap */
    uint32_t below;    /* the account's next older one; UINT32_MAX: none */
    bool live;
} mnem__account_block;

typedef struct mnem__account_blocks {
    mnem__block_listener on;
    mnem__account_block *block; /* [count], live or not */
    uint32_t count, room, unused;
    struct mnem__account_top {
        uint64_t live;
        uint32_t top;
    } * account; /* [accounts] */
    uint32_t accounts;
    uint64_t address; /* of the next block */
} mnem__account_blocks;

/* Sets the live bytes of an account; site: of the change. MNEM_NO_MEMORY, MNEM_OVER_BUDGET;
 * MNEM_UNSUPPORTED: no addresses are left, after 4 PiB of charges. */
mnem_status mnem__account_blocks_set(mnem__account_blocks *a, uint64_t ns, uint32_t account,
                                     uint64_t live, uint32_t site);
void mnem__account_blocks_fini(mnem__account_blocks *a);

#endif
