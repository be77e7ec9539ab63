/* pool_thread_cache.h: what threads do with a pool's blocks without its lock.
 *
 * A pool whose lock is contended gets fronts. A thread has one of them (few share one), and it
 * keeps blocks there that it freed, by size, for its own next requests:
 *
 *     front 0   [held] bins  5: 71 -> 12   32: 40   ...      credits  kv pages 96 KiB, 3 blocks
 *     front 1   [held] bins 32: 9 -> 3     ...               credits  ...
 *
 * What a front keeps is live for the allocator and free for the pool. So it never decides anything:
 * whoever needs to know or to have all that is free closes the fronts, which empties them. That is
 * every call but an allocation and a free, and these two as well before they ask the device, climb
 * the ladder or refuse.
 *
 * Counting. A free in a front leaves the pool's counters alone and gives the front credit in the
 * tag; an allocation there uses credit up. Below its peak a counter also lends some. So counters
 * are never too low, and exact after the credits were taken back. A call under the lock that would
 * set a new peak takes them back first: peaks are exact. What has a limit, by its tag or kind, is
 * not kept.
 *
 * Only blocks whose stream has done its work when a call returns (the default stream of the host,
 * every one of `null`) are kept: nothing is to be marked for them.
 * Order: the pool's lock, then a front's. Who holds a front waits for nothing. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H
#define MNEM_SRC_ALLOC_POOL_POOL_THREAD_CACHE_H

#include "alloc/pool/pool_private.h"

enum {
    MNEM__FRONTS = 16,
    MNEM__FRONT_EXACT = 256, /* sizes below, in units of the pool's alignment, have a bin each */
    MNEM__FRONT_LOG_MOST = 19,
    MNEM__FRONT_BINS = MNEM__FRONT_EXACT + (MNEM__FRONT_LOG_MOST - 7) * 8, /* 8 a doubling above */
    MNEM__FRONT_WORDS = (MNEM__FRONT_BINS + 63) / 64,
    MNEM__FRONT_SITES = 16, /* a power of two */
};

typedef struct mnem__front_credit {
    uint64_t bytes;       /* freed less allocated here */
    uint32_t blocks;      /* the same, may wrap */
    uint32_t allocations; /* here */
} mnem__front_credit;

/* A site of an allocation, as mnem__site_recent, with the text at hand. */
typedef struct mnem__front_site {
    const char *text, *file;
    uint32_t line, site;
    mnem_kind kind;
    char copy[MNEM__TAG_TEXT + 1];
} mnem__front_site;

typedef struct mnem__front {
    _Alignas(64) _Atomic uint32_t held;
    uint32_t strangers;              /* allocations on other streams since the last on its own */
    mnem__pool_domain *domain;       /* whose blocks it keeps; NULL: it was never used */
    mnem_stream *stream;             /* of the domain */
    uint64_t sequence, sequence_end; /* numbers of allocations that it may give */
    uint64_t bytes, bytes_most;      /* kept */
    uint32_t blocks;
    uint32_t evict; /* the bin that is emptied next */
    uint64_t frees, served;
    uint64_t filled[MNEM__FRONT_WORDS];
    uint64_t dirty[MNEM__TAGS_MAX / 64]; /* tags with credits */
    uint32_t heads[MNEM__FRONT_BINS];    /* slots, linked by `waits` */
    mnem__front_site sites[MNEM__FRONT_SITES];
    mnem__front_credit credits[MNEM__TAGS_MAX];
} mnem__front;

struct mnem__fronts {
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
    void *memory;                 /* what the heap gave */
    mnem__front fronts[MNEM__FRONTS];
};

/* Memory for fronts, closed. NULL: there is none. */
mnem__fronts *mnem__fronts_make(mnem_pool *pool);

static inline bool mnem__fronts_are_open(const mnem__fronts *fronts) {
    return fronts && atomic_load_explicit(&fronts->open, memory_order_relaxed);
}

/* Without the lock: whether there are fronts, and calls may use them now. */
static inline bool mnem__pool_is_shared(const mnem_pool *pool) {
    const mnem__fronts *fronts = atomic_load_explicit(&pool->fronts, memory_order_acquire);
    return fronts && mnem__fronts_are_open(fronts);
}

/* Without the lock. false: the long way. */
bool mnem__front_alloc(mnem__fronts *fronts, const mnem_pool_request *request, const char *file,
                       uint32_t line, mnem_pool_block *block);
bool mnem__front_free(mnem__fronts *fronts, const mnem_pool_block *block,
                      const mnem_stream *stream);

/* With the lock, fronts open. After an allocation that a front may serve the next time. */
void mnem__front_learn(mnem__fronts *fronts, mnem__pool_domain *domain,
                       const mnem_pool_request *request, const char *file, uint32_t line,
                       uint32_t site);
/* After a free that it didn't take: a part goes when it is full. */
void mnem__front_relieve(mnem__fronts *fronts);
/* Takes the credits back, so that counters are exact. */
void mnem__fronts_recall(mnem__fronts *fronts);

#endif
