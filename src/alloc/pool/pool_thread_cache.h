/* pool_thread_cache.h: caches in which threads keep a pool's blocks without its lock.
 *
 * A pool whose lock is contended gets thread caches. A thread uses one of them (a few share
 * one), which keeps blocks that the thread freed, by size, for its next requests:
 *
 *     cache 0   [held] bins  5: 71 -> 12   32: 40   ...      credits  kv pages 96 KiB, 3 blocks
 *     cache 1   [held] bins 32: 9 -> 3     ...               credits  ...
 *
 * A cached block is live for the allocator and free for the pool. Caches never affect a
 * decision: a call that needs all free memory closes the caches, which empties them. That is
 * every call but an allocation and a free, and these two as well before they ask the device,
 * take the slow path or refuse.
 *
 * Counting. A free into a cache doesn't change the pool's counters but adds credit of the tag;
 * an allocation from the cache uses credit. A counter below its peak also lends credit. So
 * counters are never too low, and are exact after the credits were recalled. A call under the
 * lock that would set a new peak recalls them first, so peaks are exact. Blocks whose tag or
 * kind has a limit are not cached.
 *
 * Only blocks of streams whose work is done when a call returns (the default stream of the host,
 * all streams of `null`) are cached: they need no marks. Lock order: the pool's lock, then a
 * cache's. The holder of a cache waits for nothing. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H
#define MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H

#include "alloc/pool/pool_private.h"

enum {
    MNEM__THREAD_CACHES = 16,
    /* Sizes below this, in units of the pool's alignment, have a bin each; larger ones 8 per
     * doubling. */
    MNEM__THREAD_CACHE_EXACT = 256,
    MNEM__THREAD_CACHE_LOG_MOST = 19,
    MNEM__THREAD_CACHE_BINS = MNEM__THREAD_CACHE_EXACT + (MNEM__THREAD_CACHE_LOG_MOST - 7) * 8,
    MNEM__THREAD_CACHE_WORDS = (MNEM__THREAD_CACHE_BINS + 63) / 64,
    MNEM__THREAD_CACHE_SITES = 16, /* a power of two */
};

typedef struct mnem__thread_cache_credit {
    uint64_t bytes;       /* freed minus allocated here */
    uint32_t blocks;      /* the same, may wrap */
    uint32_t allocations; /* here */
} mnem__thread_cache_credit;

/* The site of an allocation, like mnem__site_recent, with its text. */
typedef struct mnem__thread_cache_site {
    const char *text, *file;
    uint32_t line, site;
    mnem_kind kind;
    char copy[MNEM__TAG_TEXT + 1];
} mnem__thread_cache_site;

typedef struct mnem__thread_cache {
    _Alignas(64) _Atomic uint32_t held;
    uint32_t strangers;              /* allocations on other streams since the last on its own */
    mnem__pool_heap *heap;           /* the heap of its blocks; NULL: never used */
    mnem_stream *stream;             /* of the heap */
    uint64_t sequence, sequence_end; /* the numbers that its allocations may get */
    uint64_t bytes, bytes_most;      /* kept */
    uint32_t blocks;
    uint32_t evict; /* the next bin to empty */
    uint64_t frees, served;
    uint64_t filled[MNEM__THREAD_CACHE_WORDS];
    uint64_t dirty[MNEM__TAGS_MAX / 64];     /* tags with credits */
    uint32_t heads[MNEM__THREAD_CACHE_BINS]; /* slots, linked by `waits` */
    mnem__thread_cache_site sites[MNEM__THREAD_CACHE_SITES];
    mnem__thread_cache_credit credits[MNEM__TAGS_MAX];
} mnem__thread_cache;

struct mnem__thread_caches {
    _Alignas(64) _Atomic bool open;
    uint16_t shift; /* of the pool's alignment */
    uint32_t unit_shift, step;
    uint32_t capacity; /* of records */
    mnem__rows records;
    const uint64_t *unit_base;
    mnem_device *device;
    mnem_space space;
    bool limits;                               /* there are limits */
    uint64_t tag_limited[MNEM__TAGS_MAX / 64]; /* a bit for each */
    uint32_t kind_limited;
    _Alignas(64) mnem_pool *pool; /* from here on under the pool's lock */
    uint32_t pause;               /* calls until it opens */
    void *memory;                 /* what the C heap gave */
    mnem__thread_cache all[MNEM__THREAD_CACHES];
};

/* Makes closed thread caches. NULL: no memory. */
mnem__thread_caches *mnem__thread_caches_make(mnem_pool *pool);

static inline bool mnem__thread_caches_are_open(const mnem__thread_caches *caches) {
    return caches && atomic_load_explicit(&caches->open, memory_order_relaxed);
}

/* Without the lock: whether there are open thread caches. */
static inline bool mnem__pool_is_shared(const mnem_pool *pool) {
    const mnem__thread_caches *caches = atomic_load_explicit(&pool->caches, memory_order_acquire);
    return caches && mnem__thread_caches_are_open(caches);
}

/* Without the lock. false: use the long path. */
bool mnem__thread_cache_alloc(mnem__thread_caches *caches, const mnem_pool_request *request,
                              const char *file, uint32_t line, mnem_pool_block *block);
bool mnem__thread_cache_free(mnem__thread_caches *caches, const mnem_pool_block *block,
                             const mnem_stream *stream);

/* With the lock and open caches: after an allocation that a cache may serve next time. */
void mnem__thread_cache_learn(mnem__thread_caches *caches, mnem__pool_heap *heap,
                              const mnem_pool_request *request, const char *file, uint32_t line,
                              uint32_t site);
/* After a free that the cache didn't take: empties a part if it is full. */
void mnem__thread_cache_relieve(mnem__thread_caches *caches);
/* Recalls the credits, so that counters are exact. */
void mnem__thread_caches_recall(mnem__thread_caches *caches);

#endif
