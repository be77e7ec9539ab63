/* pool_blocks.c: a table with open addressing; removing an entry moves those behind it up, so that
 * no tombstones are left. Cost: constant, and 64 bytes for each two live blocks. */
#include "trace/export/pool_blocks.h"

#include "base/heap.h"

static uint32_t home(const mnem__pool_blocks *p, uint32_t owner, uint64_t address) {
    const uint64_t mixed = (address ^ (uint64_t)owner << 52) * 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(mixed >> 32) & (p->room - 1);
}

/* Where it is, or the empty slot where it would be. room isn't 0. */
static uint32_t find(const mnem__pool_blocks *p, uint32_t owner, uint64_t address) {
    uint32_t at = home(p, owner, address);
    while (p->slot[at].block.bytes &&
           (p->slot[at].block.address != address || p->slot[at].owner != owner))
        at = (at + 1) & (p->room - 1);
    return at;
}

static mnem_status grow(mnem__pool_blocks *p) {
    mnem__pool_blocks more = {.on = p->on, .room = p->room ? 2 * p->room : 64, .used = p->used};
    more.slot = mnem__calloc("trace", more.room, sizeof *more.slot);
    if (!more.slot) return mnem__heap_status();
    for (uint32_t i = 0; i < p->room; i++) {
        const mnem__pool_block *b = &p->slot[i];
        if (b->block.bytes) more.slot[find(&more, b->owner, b->block.address)] = *b;
    }
    mnem__free(p->slot);
    *p = more;
    return MNEM_OK;
}

mnem_status mnem__pool_blocks_begin(mnem__pool_blocks *p, uint32_t owner, mnem__block b) {
    if (p->room) mnem__pool_blocks_end(p, owner, b.address, b.born_ns);
    if (2 * (p->used + 1) > p->room) MNEM__TRY(grow(p));
    mnem__pool_block *slot = &p->slot[find(p, owner, b.address)];
    *slot = (mnem__pool_block){b, owner};
    p->used++;
    p->on.begin(p->on.context, &slot->block);
    return MNEM_OK;
}

/* The slot `at` is free: a later one of the same run moves there if it may. */
static void close_gap(mnem__pool_blocks *p, uint32_t at) {
    const uint32_t mask = p->room - 1;
    for (uint32_t i = (at + 1) & mask; p->slot[i].block.bytes; i = (i + 1) & mask) {
        const uint32_t wanted = home(p, p->slot[i].owner, p->slot[i].block.address);
        if (((i - wanted) & mask) < ((i - at) & mask)) continue;
        p->slot[at] = p->slot[i];
        at = i;
    }
    p->slot[at].block.bytes = 0;
}

void mnem__pool_blocks_end(mnem__pool_blocks *p, uint32_t owner, uint64_t address, uint64_t ns) {
    if (!p->room) return;
    const uint32_t at = find(p, owner, address);
    if (!p->slot[at].block.bytes) return;
    p->on.end(p->on.context, &p->slot[at].block, ns);
    p->used--;
    close_gap(p, at);
}

void mnem__pool_blocks_fini(mnem__pool_blocks *p) {
    mnem__free(p->slot);
    p->slot = NULL;
    p->room = p->used = 0;
}
