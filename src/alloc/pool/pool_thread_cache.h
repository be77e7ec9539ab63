/* pool_thread_cache.h: what threads do with a pool's blocks without its lock.
 *
 * A pool whose lock is contended gets thread caches. A thread has one of them (few share one), and
 * it keeps blocks there that it freed, by size, for its own next requests:
 *
 *     cache 0   [held] bins  5: 71 -> 12   32: 40   ...      credits  kv pages 96 KiB, 3 blocks
 *     cache 1   [held] bins 32: 9 -> 3     ...               credits  ...
 *
 * What a cache keeps is live for the allocator and free for the pool. So it never decides anything:
 * whoever needs to know or to have all that is free closes the caches, which empties them. That is
 * every call but an allocation and a free, and these two as well before they ask the device, go the
 * slow path or refuse.
 *
 * Counting. A free in a cache leaves the pool's counters alone and gives the cache credit in the
 * tag; an allocation there uses credit up. Below its peak a counter also lends some. So counters
 * are never too low, and exact after the credits were taken back. A call under the lock that would
 * set a new peak takes them back first: peaks are exact. What has a limit, by its tag or kind, is
 * not kept.
 *
 * Only blocks whose stream has done its work when a call returns (the default stream of the host,
 * every one of `null`) are kept: nothing is to be marked for them.
 * Order: the pool's lock, then a cache's. Who holds a cache waits for nothing. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H
#define MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H

#include "alloc/pool/pool_private.h"

enum {
    MNEM__THREAD_CACHES = 16,
    /* Sizes below, in units of the pool's alignment, have a bin each; those above 8 a doubling. */
    MNEM__THREAD_CACHE_EXACT = 256,
    MNEM__THREAD_CACHE_LOG_MOST = 19,
    MNEM__THREAD_CACHE_BINS = MNEM__THREAD_CACHE_EXACT + (MNEM__THREAD_CACHE_LOG_MOST - 7) * 8,
    MNEM__THREAD_CACHE_WORDS = (MNEM__THREAD_CACHE_BINS + 63) / 64,
    MNEM__THREAD_CACHE_SITES = 16, /* a power of two */
};

typedef struct mnem__thread_cache_credit {
    uint64_t bytes;       /* freed less allocated here */
    uint32_t blocks;      /* the same, may wrap */
    uint32_t allocations; /* here */
} mnem__thread_cache_credit;

/* A site of an allocation, as mnem__site_recent, with the text at hand. */
typedef struct mnem__thread_cache_site {
    const char *text, *file;
    uint32_t line, site;
    mnem_kind kind;
    char copy[MNEM__TAG_TEXT + 1];
} mnem__thread_cache_site;

typedef struct mnem__thread_cache {
    _Alignas(64) _Atomic uint32_t held;
    uint32_t strangers;              /* allocations on other streams since the last on its own */
    mnem__pool_heap *heap;           /* whose blocks it keeps; NULL: it was never used */
    mnem_stream *stream;             /* of the heap */
    uint64_t sequence, sequence_end; /* numbers of allocations that it may give */
    uint64_t bytes, bytes_most;      /* kept */
    uint32_t blocks;
    uint32_t evict; /* the bin that is emptied next */
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
    bool limits;                               /* there are some: */
    uint64_t tag_limited[MNEM__TAGS_MAX / 64]; /* a bit for each */
    uint32_t kind_limited;
    _Alignas(64) mnem_pool *pool; /* from here on under the pool's lock */
    uint32_t pause;               /* so many calls pass before it opens */
    void *memory;                 /* what the C heap gave */
    mnem__thread_cache all[MNEM__THREAD_CACHES];
};

/* Memory for thread caches, closed. NULL: there is none. */
mnem__thread_caches *mnem__thread_caches_make(mnem_pool *pool);

static inline bool mnem__thread_caches_are_open(const mnem__thread_caches *caches) {
    return caches && atomic_load_explicit(&caches->open, memory_order_relaxed);
}

/* Without the lock: whether there are thread caches, and calls may use them now. */
static inline bool mnem__pool_is_shared(const mnem_pool *pool) {
    const mnem__thread_caches *caches = atomic_load_explicit(&pool->caches, memory_order_acquire);
    return caches && mnem__thread_caches_are_open(caches);
}

/* Without the lock. false: the long way. */
bool mnem__thread_cache_alloc(mnem__thread_caches *caches, const mnem_pool_request *request,
                              const char *file, uint32_t line, mnem_pool_block *block);
bool mnem__thread_cache_free(mnem__thread_caches *caches, const mnem_pool_block *block,
                             const mnem_stream *stream);

/* With the lock, caches open. After an allocation that a cache may serve the next time. */
void mnem__thread_cache_learn(mnem__thread_caches *caches, mnem__pool_heap *heap,
                              const mnem_pool_request *request, const char *file, uint32_t line,
                              uint32_t site);
/* After a free that it didn't take: a part goes when it is full. */
void mnem__thread_cache_relieve(mnem__thread_caches *caches);
/* Takes the credits back, so that counters are exact. */
void mnem__thread_caches_recall(mnem__thread_caches *caches);

#endif
