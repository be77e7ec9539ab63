/* pool_units.c: the units of the space of offsets: one table of rows, what is known of each.
 *
 * Invariant, in a pool of segments (of a range: pool_range.c): a unit has memory exactly when its
 * owner isn't ABSENT or LOST; there are units_reserved of them, but for those that a growing thread
 * has spoken for. */
#include <string.h>

#include "alloc/pool/pool_private.h"
#include "base/heap.h"

/* The columns of a table of n rows in one piece of memory. NULL: measures. */
static size_t columns_lay_out(mnem_pool *pool, char *memory, uint32_t n) {
    char *at = memory;
    const size_t bytes = (size_t)n * (sizeof *pool->unit_base + sizeof *pool->unit_owner + 3);
    if (!memory) return bytes;
    pool->unit_base = (void *)at;
    at += n * sizeof *pool->unit_base;
    pool->unit_owner = (void *)at;
    at += n * sizeof *pool->unit_owner;
    pool->unit_touched = (void *)at;
    pool->unit_idle = pool->unit_touched + n;
    pool->unit_free = pool->unit_idle + n;
    return bytes;
}

static void columns_copy(mnem_pool *to, const mnem_pool *from, uint32_t n) {
    if (!n) return;
    memcpy(to->unit_base, from->unit_base, n * sizeof *to->unit_base);
    memcpy(to->unit_owner, from->unit_owner, n * sizeof *to->unit_owner);
    memcpy(to->unit_touched, from->unit_touched, n);
    memcpy(to->unit_idle, from->unit_idle, n);
    memcpy(to->unit_free, from->unit_free, n);
}

bool mnem__pool_units_room(mnem_pool *pool, uint32_t count) {
    if (count > pool->units_room) {
        uint32_t room = pool->units_room ? 2 * pool->units_room : 64;
        if (room < count) room = count;
        char *memory = mnem__alloc("pool", columns_lay_out(pool, NULL, room));
        if (!memory) return false;
        const mnem_pool old = {.unit_base = pool->unit_base,
                               .unit_owner = pool->unit_owner,
                               .unit_touched = pool->unit_touched,
                               .unit_idle = pool->unit_idle,
                               .unit_free = pool->unit_free};
        columns_lay_out(pool, memory, room);
        columns_copy(pool, &old, pool->units);
        mnem__free(old.unit_base);
        pool->units_room = room;
    }
    const uint32_t first = pool->units, more = count > first ? count - first : 0;
    memset(pool->unit_base + first, 0, more * sizeof *pool->unit_base);
    memset(pool->unit_owner + first, 0xff, more * sizeof *pool->unit_owner); /* ABSENT */
    memset(pool->unit_touched + first, 0, more);
    memset(pool->unit_idle + first, 0, more);
    memset(pool->unit_free + first, 0, more);
    pool->units += more;
    return true;
}

mnem_status mnem__pool_units_init(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t units = o->bytes_max >> pool->unit_shift;
    if (units > UINT32_MAX / 32)
        return mnem__fail(MNEM_INVALID,
                          "pool %s: %llu units of %llu bytes are too many, expected at most 2^27; "
                          "use a larger unit_bytes",
                          pool->tag, (unsigned long long)units, (unsigned long long)o->unit_bytes);
    pool->units_max = (uint32_t)units;
    return MNEM_OK;
}

/* Segments go back, and what the ledger was charged. */
void mnem__pool_units_fini(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    for (uint32_t i = 0; i < pool->segment_count; i++) mnem_device_free(&pool->segments[i].memory);
    if (o->ledger && pool->units_reserved)
        mnem_ledger_release(o->ledger, o->kind, pool->tag, mnem__pool_reserved(pool));
    mnem__free(pool->segments);
    mnem__free(pool->unit_base);
}

/* Blocks of units first, without a branch for each: a pool that grows may have thousands. */
uint32_t mnem__pool_unit_next(const mnem_pool *pool, uint32_t from, uint16_t owner) {
    enum { BLOCK = 64 };
    const uint16_t *owners = pool->unit_owner;
    for (; from + BLOCK <= pool->units; from += BLOCK) {
        const uint16_t *block = owners + from;
        uint16_t any = 0;
        for (int i = 0; i < BLOCK; i++) any |= (uint16_t) - (block[i] == owner);
        if (any) break;
    }
    while (from < pool->units && owners[from] != owner) from++;
    return from;
}
