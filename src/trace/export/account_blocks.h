/* account_blocks.h: what an account has live, as blocks: viewers of memory know allocations and
 * frees of addresses, and a ledger knows charges and releases of bytes.
 *
 * A charge is a block. A release ends the latest block of as many bytes; where there is none, the
 * latest ones, the last of them in part: it ends, and what is left begins anew. So at every moment
 * the blocks of an account sum to what it has live, to the byte. */
#ifndef MNEM_SRC_TRACE_EXPORT_ACCOUNT_BLOCKS_H
#define MNEM_SRC_TRACE_EXPORT_ACCOUNT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/export/block.h"

typedef struct mnem__account_block {
    mnem__block block; /* address: made up; no two live blocks overlap */
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
    uint64_t address; /* where the next one lies */
} mnem__account_blocks;

/* So many bytes of the account are live now; site: where that happened. MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET; MNEM_UNSUPPORTED when addresses run out, at 4 PiB charged. */
mnem_status mnem__account_blocks_set(mnem__account_blocks *a, uint64_t ns, uint32_t account,
                                     uint64_t live, uint32_t site);
void mnem__account_blocks_fini(mnem__account_blocks *a);

#endif
