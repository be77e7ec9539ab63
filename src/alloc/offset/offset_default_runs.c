/* offset_default_runs.c: nodes for runs, and runs taken and freed where time doesn't count.
 *
 * Cost: nodes come in chunks of 64 KiB that never move; only the table of chunks is copied when it
 * doubles. */
#include "alloc/offset/offset_default_runs.h"
#include "base/carve.h"

static bool chunks_room(mnem__default *d) {
    if (d->chunk_count == d->chunk_room) MNEM__GROW("metadata", d->chunks, d->chunk_room, 8, false);
    return true;
}

bool mnem__nodes_grow(mnem__default *d) {
    if (d->node_room > MNEM__NODES_MAX - MNEM__NODE_CHUNK)
        return mnem__alloc("metadata", SIZE_MAX) != NULL; /* refused: more runs than numbers */
    mnem__node *chunk =
        chunks_room(d) ? mnem__alloc("metadata", MNEM__NODE_CHUNK * sizeof *chunk) : NULL;
    if (!chunk) return false;
    d->chunks[d->chunk_count++] = chunk;
    d->node_room += MNEM__NODE_CHUNK;
    return true;
}

uint32_t mnem__class_search(const mnem__default *d, uint32_t class, uint32_t units) {
    for (uint64_t zones = d->zones[class]; zones; zones &= zones - 1) {
        uint32_t i = d->heads[class << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(zones)];
        for (; i; i = mnem__node_at(d, i)->right)
            if (mnem__node_at(d, i)->units >= units) return i;
    }
    return 0;
}

mnem_status mnem__run_alloc(mnem__default *d, uint32_t units, mnem_offset_block *block) {
    return mnem__run_alloc_inline(d, units, block);
}

void mnem__run_free(mnem__default *d, uint32_t i) {
    mnem__run_free_inline(d, i);
}
