/* pool_counters.c: a pool's counters and their limits: hard ones refuse, soft ones call back.
 *
 *     reserved   [ live blocks | pending | free runs of heaps | unowned units ]
 *                                          largest of these = bytes_largest_free
 *     limits     live + bytes  > soft: on_soft is called, which may free      > hard: refused
 *
 * A limit is stored beside its counter: of a kind, or of a tag of a kind.
 * Cost: mnem_pool_info_get passes over the runs of every heap; the others look rows up. */
#include <string.h>

#include "alloc/pool/pool_private.h"
#include "base/heap.h"

/* ---- counters ---- */

const char *mnem_pool_rung_text(mnem_pool_rung rung) {
    static const char *const texts[] = {MNEM_POOL_RUNG_LIST(MNEM__TEXT_ROW)};
    return (unsigned)rung < MNEM_POOL_RUNGS ? texts[rung] : "unknown rung";
}

/* The largest allocation without more memory from the device: a free run of a heap, or adjacent
 * unowned units. */
static uint64_t largest_free(const mnem_pool *pool) {
    uint64_t largest = 0, run = 0;
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        mnem_offset_info info;
        if (!pool->heaps[i]->ready) continue;
        mnem_offset_info_get(pool->heaps[i]->ready, &info);
        if (info.bytes_largest_free > largest) largest = info.bytes_largest_free;
    }
    if (mnem__pool_in_range(pool)) run = pool->granules_nobody * mnem__pool_unit_bytes(pool);
    if (run > largest) largest = run;
    for (uint32_t i = 0; i < pool->units; i++) {
        run = pool->unit_owner[i] == MNEM__UNIT_NOBODY ? run + mnem__pool_unit_bytes(pool) : 0;
        if (run > largest) largest = run;
    }
    return largest;
}

/* Reserved bytes without a block of an allocator. */
static uint64_t free_bytes(const mnem_pool *pool) {
    uint64_t free = mnem__pool_reserved(pool);
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        mnem_offset_info info;
        if (!h->ready) continue;
        mnem_offset_info_get(h->ready, &info);
        free -= info.bytes_live;
        for (uint32_t hole = 0; hole < h->hole_count; hole++)
            free += (uint64_t)h->holes[hole].count << pool->unit_shift;
    }
    return free;
}

void mnem__pool_info_fill(mnem_pool *pool, mnem_pool_info *info) {
    const mnem__count *all = &pool->track.all;
    *info = pool->counts;
    info->bytes_max = pool->options.bytes_max;
    info->unit_bytes = mnem__pool_unit_bytes(pool);
    info->bytes_live = all->bytes_live;
    info->bytes_peak = all->bytes_peak;
    info->blocks_live = all->blocks_live;
    info->bytes_reserved = mnem__pool_reserved(pool);
    info->bytes_reserved_peak = pool->bytes_reserved_peak;
    info->bytes_planned = pool->bytes_planned;
    info->bytes_direct = pool->bytes_direct;
    info->bytes_pending = pool->bytes_pending;
    info->bytes_largest_free = largest_free(pool);
    info->streams = pool->heap_count;
    const uint64_t free = free_bytes(pool);
    if (free) info->fragmentation_free = 1 - (double)info->bytes_largest_free / (double)free;
    info->fragmentation = mnem__pool_fragmentation(pool);
    for (uint32_t i = 0; i < pool->segment_count; i++)
        if (pool->segments[i].memory.bytes) info->segments++;
}

void mnem_pool_info_get(mnem_pool *pool, mnem_pool_info *info) {
    *info = (mnem_pool_info){0};
    if (!mnem__pool_lock_take(&pool->lock)) return;
    mnem__pool_info_fill(pool, info);
    mnem__pool_lock_give(&pool->lock);
}

uint64_t mnem_pool_mark(mnem_pool *pool) {
    if (!mnem__pool_lock_take(&pool->lock)) return 0;
    const uint64_t mark = mnem__track_mark(&pool->track);
    mnem__pool_lock_give(&pool->lock);
    return mark;
}

size_t mnem_pool_live(mnem_pool *pool, const mnem_live_query *query, mnem_live_group *groups,
                      size_t max) {
    if (!mnem__pool_lock_take(&pool->lock)) return 0;
    const size_t count = mnem__track_live(&pool->track, query, groups, max);
    mnem__pool_lock_give(&pool->lock);
    return count;
}

/* ---- accounts ---- */

/* The index-th used tag; the first tags collect those that don't fit in the table. */
static const mnem__tag *account_find(const mnem_pool *pool, unsigned index, uint32_t *tag) {
    for (*tag = 0; *tag < pool->track.sites.tag_count; ++*tag) {
        const mnem__tag *row = mnem__tag_at(&pool->track.sites, *tag);
        if (row->count.allocations && !index--) return row;
    }
    return NULL;
}

bool mnem_pool_account_get(mnem_pool *pool, unsigned index, mnem_account_info *info) {
    uint32_t tag;
    if (!mnem__pool_lock_take(&pool->lock)) return false;
    const mnem__tag *row = account_find(pool, index, &tag);
    if (row) {
        const uint64_t limit = pool->limits ? pool->limits->tag_hard[tag] : UINT64_MAX;
        *info = (mnem_account_info){.kind = row->kind,
                                    .bytes_live = row->count.bytes_live,
                                    .bytes_peak = row->count.bytes_peak,
                                    .limit_bytes = limit == UINT64_MAX ? 0 : limit,
                                    .charges = row->count.allocations};
        memcpy(info->tag, row->text, sizeof info->tag);
    }
    mnem__pool_lock_give(&pool->lock);
    return row != NULL;
}

/* ---- limits ---- */

static mnem_status limits_make(mnem_pool *pool) {
    if (pool->limits) return MNEM_OK;
    pool->limits = mnem__alloc("pool", sizeof *pool->limits);
    if (!pool->limits) return mnem__heap_status();
    memset(pool->limits, 0xff, sizeof *pool->limits);
    pool->careful = true;
    return MNEM_OK;
}

static mnem_status limit_set(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes) {
    uint32_t index = 0;
    mnem_status status = limits_make(pool);
    if (status == MNEM_OK && tag) status = mnem__tag_of(&pool->track.sites, kind, tag, &index);
    if (status != MNEM_OK) return status;
    *(tag ? &pool->limits->tag_hard[index] : &pool->limits->kind_hard[kind]) =
        bytes ? bytes : UINT64_MAX;
    return MNEM_OK;
}

mnem_status mnem_pool_limit_set(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes) {
    if ((unsigned)kind >= MNEM_KIND_COUNT)
        return mnem__fail(MNEM_INVALID,
                          "pool %s: kind %d does not exist, expected a constant of mnem_kind",
                          pool->tag, (int)kind);
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = limit_set(pool, kind, tag, bytes);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

/* Releases the lock for the call, since the caller should free blocks of this pool; in_soft
 * prevents calls for what it allocates meanwhile. */
void mnem__pool_soft_call(mnem_pool *pool, const mnem_pool_soft *soft) {
    if (!pool->options.on_soft || pool->in_soft) return;
    pool->in_soft = true;
    pool->counts.soft_calls++;
    mnem__pool_lock_give(&pool->lock);
    pool->options.on_soft(pool->options.context, soft);
    mnem__pool_lock_take(&pool->lock);
    pool->in_soft = false;
}

static mnem_status over_limit(const mnem_pool *pool, const char *tag, mnem_kind kind,
                              uint64_t bytes, uint64_t live, uint64_t limit) {
    const uint64_t left = limit > live ? limit - live : 0;
    char most[24], room[24], asked[24];
    return mnem__fail(MNEM_OVER_BUDGET,
                      "pool %s: %s%s%s: the limit is %s, of which %s are left: can't allocate %s "
                      "(%llu bytes, %llu over); raise the limit, or free blocks",
                      pool->tag, mnem_kind_text(kind), *tag ? " " : "", tag,
                      mnem_size_format(limit, most, sizeof most),
                      mnem_size_format(left, room, sizeof room),
                      mnem_size_format(bytes, asked, sizeof asked), (unsigned long long)bytes,
                      (unsigned long long)(bytes - left));
}

/* Checks one limit: live + bytes must be at most hard; above the soft limit, calls the caller. */
static mnem_status limit_pass(mnem_pool *pool, const mnem__count *live, uint64_t hard,
                              uint64_t bytes, mnem_kind kind, const char *tag) {
    if (hard == UINT64_MAX) return MNEM_OK;
    const double after = (double)live->bytes_live + (double)bytes;
    const double soft = (double)hard * pool->options.soft_fraction;
    if (after > soft)
        mnem__pool_soft_call(
            pool,
            &(mnem_pool_soft){.kind = kind, .tag = tag, .bytes_over = (uint64_t)(after - soft)});
    if (bytes <= hard && live->bytes_live <= hard - bytes) return MNEM_OK;
    pool->counts.rungs[MNEM_POOL_RUNG_REFUSE]++;
    return over_limit(pool, tag, kind, bytes, live->bytes_live, hard);
}

mnem_status mnem__pool_limits_pass(mnem_pool *pool, uint32_t tag, uint64_t bytes) {
    const mnem__tag *row = mnem__tag_at(&pool->track.sites, tag);
    const mnem_kind kind = row->kind;
    MNEM__TRY(limit_pass(pool, &row->count, pool->limits->tag_hard[tag], bytes, kind, row->text));
    return limit_pass(pool, &pool->track.kinds[kind], pool->limits->kind_hard[kind], bytes, kind,
                      "");
}
