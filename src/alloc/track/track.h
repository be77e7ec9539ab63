/* track.h: which blocks are live, since when, and whose they are.
 *
 * One record for each number that the pool gives to its blocks (small and dense: the offset
 * allocator's handle, or the pool's own node). Always on: add and remove are inline, write one
 * record and the counters of its tag, its kind and all, and take no heap. A mark is the number of
 * allocations so far, so what is live now and wasn't then has a larger sequence: no generation is
 * stored for it.
 *
 *     mnem__track_reserve(t, id + 1)                        // when the pool's own table grows
 *     mnem__site_find(&t->sites, kind, tag, file, line, 0, &site);
 *     generation = mnem__track_add(t, id, bytes, site, stream);
 *     if (!mnem__track_is(t, id, generation)) ... refuse: freed before, or never allocated
 *     mnem__track_remove(t, id);
 *
 * Threads: the caller's lock. */
#ifndef MNEM_SRC_ALLOC_TRACK_TRACK_H
#define MNEM_SRC_ALLOC_TRACK_TRACK_H

#include "alloc/track/site.h"
#include "mnem/live.h"

typedef struct mnem__record {
    uint64_t bytes, sequence;
    uint32_t site, stream, step;
    uint32_t generation; /* odd: live; one more with each add and each remove. What else is said of
                            a block stays until its number is used again. */
    uint64_t place[4];   /* the pool's (pool_private.h), so that a free touches one line */
} mnem__record;
_Static_assert(sizeof(mnem__record) == 64, "one line of the cache");

typedef struct mnem__track {
    uint64_t sequence; /* of the last allocation */
    uint32_t salt; /* the first generation of every number, even: its own for each track, so that
                          another pool's handle isn't taken for one of this pool's */
    uint32_t step; /* set by the pool */
    uint32_t used; /* numbers from here on were never used */
    mnem__count all;
    mnem__count kinds[MNEM_KIND_COUNT];
    mnem__sites sites;
    mnem__rows records;
} mnem__track;

/* site_max: bound on call sites (0: the default). MNEM_NO_MEMORY leaves nothing behind. */
mnem_status mnem__track_init(mnem__track *t, uint32_t site_max);
void mnem__track_fini(mnem__track *t);

/* Room for the numbers 0..count - 1, without which they must not be added. */
mnem_status mnem__track_reserve(mnem__track *t, uint32_t count);

static inline mnem__record *mnem__record_at(const mnem__track *t, uint32_t id) {
    return mnem__row(&t->records, sizeof(mnem__record), id);
}

static inline void mnem__count_add(mnem__count *c, uint64_t bytes) {
    const uint64_t live = c->bytes_live += bytes;
    if (__builtin_expect(live > c->bytes_peak, 0)) c->bytes_peak = live;
    c->blocks_live++;
    c->allocations++;
}

static inline void mnem__count_remove(mnem__count *c, uint64_t bytes) {
    c->bytes_live -= bytes;
    c->blocks_live--;
}

/* Block id, whose record is r, is live from now on. Returns its generation, for the handle. */
static inline uint32_t mnem__track_add_at(mnem__track *t, uint32_t id, mnem__record *r,
                                          uint64_t bytes, uint32_t site, uint32_t stream) {
    r->bytes = bytes;
    r->sequence = ++t->sequence;
    r->site = site;
    r->stream = stream;
    r->step = t->step;
    if (id >= t->used) t->used = id + 1;
    mnem__count_add(&mnem__tag_at(&t->sites, mnem__site_tag(site))->count, bytes);
    mnem__count_add(&t->kinds[mnem__site_kind(site)], bytes);
    mnem__count_add(&t->all, bytes);
    const uint32_t generation = r->generation + 1;
    __atomic_store_n(&r->generation, generation, __ATOMIC_RELAXED);
    return generation;
}

static inline uint32_t mnem__track_add(mnem__track *t, uint32_t id, uint64_t bytes, uint32_t site,
                                       uint32_t stream) {
    return mnem__track_add_at(t, id, mnem__record_at(t, id), bytes, site, stream);
}

/* Whether a handle's block is live: false for a stale one, and for a number that isn't one. */
static inline bool mnem__track_is(const mnem__track *t, uint32_t id, uint32_t generation) {
    return id < t->used && generation & 1 &&
           __atomic_load_n(&mnem__record_at(t, id)->generation, __ATOMIC_RELAXED) == generation;
}

/* Whether a handle's block was live here once, as far as its numbers tell. */
static inline bool mnem__track_was(const mnem__track *t, uint32_t id, uint32_t generation) {
    return id < t->used && generation & 1 &&
           generation - t->salt < mnem__record_at(t, id)->generation - t->salt;
}

/* A live block isn't live any more. false: another thread said so before. */
static inline bool mnem__track_claim(mnem__record *r, uint32_t generation) {
    return __atomic_compare_exchange_n(&r->generation, &generation, generation + 1, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* What was claimed is counted out. */
static inline void mnem__track_uncount(mnem__track *t, const mnem__record *r) {
    const uint64_t bytes = r->bytes;
    const uint32_t site = r->site;
    mnem__count_remove(&mnem__tag_at(&t->sites, mnem__site_tag(site))->count, bytes);
    mnem__count_remove(&t->kinds[mnem__site_kind(site)], bytes);
    mnem__count_remove(&t->all, bytes);
}

/* The live block of this record goes. */
static inline void mnem__track_remove_at(mnem__track *t, mnem__record *r) {
    mnem__track_uncount(t, r);
    __atomic_store_n(&r->generation, r->generation + 1, __ATOMIC_RELAXED);
}

static inline void mnem__track_remove(mnem__track *t, uint32_t id) {
    mnem__track_remove_at(t, mnem__record_at(t, id));
}

/* For queries: blocks allocated from now on are newer. */
static inline uint64_t mnem__track_mark(const mnem__track *t) {
    return t->sequence;
}

/* The groups of live blocks that the query asks for (NULL: the defaults), the first max of them in
 * its order. Returns how many there are. Takes no heap; costs a pass over the numbers in use. */
size_t mnem__track_live(mnem__track *t, const mnem_live_query *query, mnem_live_group *out,
                        size_t max);
/* A block, live or the last one that had this number; false when there was none. */
bool mnem__track_block(const mnem__track *t, uint32_t id, mnem_live_block *out);

#endif
