/* pool_thread_cache.c: blocks that threads keep.
 *
 * The idea: pool_thread_cache.h. A block is kept with the size that it has (slot.capacity), and
 * serves requests of that size and down to 1/16 less; below 256 units of the alignment the bins are
 * exact and a bit scan finds one.
 * Invariant: a kept slot is in state KEPT and in the bin of its capacity; its record isn't live.
 * While the thread caches are closed, all are empty and without credit.
 * Cost: an exchange on a line of the thread's own, one line of the record; one call in 64 fetches
 * numbers under the lock, and a cache that is full gives half of its blocks back at once. */
#include "alloc/pool/pool_thread_cache.h"

#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/thread.h"

enum {
    BLOCKS_MOST = 512,
    NUMBERS = 64,       /* fetched at a time */
    SHARE = 64,         /* a cache keeps this part of what is reserved, at most */
    WASTE = 16,         /* and serves a request with a block that is so much larger */
    TRIES = 4,          /* blocks looked at in a bin of many sizes */
    LOAN = 16,          /* requests like this one that credit is lent for */
    STRANGERS_MOST = 32 /* then it changes its stream */
};
#define NONE MNEM__POOL_SLOT_END

/* ---- whose ---- */

/* Threads are numbered as they come, so that few share a cache. */
static mnem__thread_cache *cache_of_thread(mnem__thread_caches *caches) {
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t number;
    if (!number) number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    return &caches->all[number % MNEM__THREAD_CACHES];
}

static bool cache_try(mnem__thread_cache *cache) {
    return !atomic_load_explicit(&cache->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&cache->held, 1, memory_order_acquire);
}

/* Its holder is done soon, unless it lost its processor. */
static void cache_take(mnem__thread_cache *cache) {
    for (int looks = 0; !cache_try(cache); looks++) {
        mnem__spin_pause();
        if (looks > 200) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void cache_give(mnem__thread_cache *cache) {
    atomic_store_explicit(&cache->held, 0, memory_order_release);
}

static bool is_open(const mnem__thread_caches *caches) {
    return atomic_load_explicit(&caches->open, memory_order_acquire);
}

static mnem__record *record_at(const mnem__thread_caches *caches, uint32_t id) {
    return mnem__row(&caches->records, sizeof(mnem__record), id);
}

static mnem__pool_slot *slot_of(mnem__record *r) {
    return (mnem__pool_slot *)r->place;
}

/* ---- bins ---- */

static bool units_fit(uint64_t units) {
    return units && units >> MNEM__THREAD_CACHE_LOG_MOST < 2;
}

/* One bin for each size up to EXACT, then eight for each power of two:
 *
 *     units   1 2 3 ... 255 | 256..287 288..319 ... 480..511 | 512..575 ...
 *     bin     1 2 3 ... 255 | 256      257      ... 263      | 264 ...
 */
static uint32_t bin_of(uint32_t units) {
    if (units < MNEM__THREAD_CACHE_EXACT) return units;
    const uint32_t log = 31 - (uint32_t)__builtin_clz(units);
    return MNEM__THREAD_CACHE_EXACT + (log - 8) * 8 + (units >> (log - 3) & 7);
}

static void bin_put(mnem__thread_caches *caches, mnem__thread_cache *cache, uint32_t id,
                    mnem__pool_slot *s) {
    const uint32_t bin = bin_of(s->capacity);
    s->waits = cache->heads[bin];
    cache->heads[bin] = id;
    cache->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    cache->blocks++;
    cache->bytes += (uint64_t)s->capacity << caches->shift;
}

/* What *link names leaves its bin. */
static uint32_t bin_pull(mnem__thread_caches *caches, mnem__thread_cache *cache, uint32_t bin,
                         uint32_t *link) {
    const uint32_t id = *link;
    const mnem__pool_slot *s = slot_of(record_at(caches, id));
    *link = s->waits;
    if (cache->heads[bin] == NONE) cache->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    cache->blocks--;
    cache->bytes -= (uint64_t)s->capacity << caches->shift;
    return id;
}

/* The first bin from `bin` to `last` that has a block; at most one word further. */
static uint32_t bin_next(const mnem__thread_cache *cache, uint32_t bin, uint32_t last) {
    uint32_t word = bin / 64;
    uint64_t bits = cache->filled[word] & UINT64_MAX << bin % 64;
    if (!bits && word < last / 64) bits = cache->filled[++word];
    const uint32_t found = bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : NONE;
    return found <= last ? found : NONE;
}

/* What may serve is at most 1/16 larger, and a bin is at least as wide as that: the request's own
 * bin and the next have all of it. */
static uint32_t take_from_mixed(mnem__thread_caches *caches, mnem__thread_cache *cache,
                                uint32_t units, uint32_t most) {
    for (uint32_t bin = bin_of(units), end = bin + 2; bin < end && bin < MNEM__THREAD_CACHE_BINS;
         bin++) {
        uint32_t *link = &cache->heads[bin];
        for (int i = 0; i < TRIES && *link != NONE; i++) {
            mnem__pool_slot *s = slot_of(record_at(caches, *link));
            if (s->capacity >= units && s->capacity <= most)
                return bin_pull(caches, cache, bin, link);
            link = &s->waits;
        }
    }
    return NONE;
}

static uint32_t take_kept(mnem__thread_caches *caches, mnem__thread_cache *cache, uint32_t units) {
    const uint32_t most = units + units / WASTE;
    if (units >= MNEM__THREAD_CACHE_EXACT) return take_from_mixed(caches, cache, units, most);
    const uint32_t last = most < MNEM__THREAD_CACHE_EXACT ? most : MNEM__THREAD_CACHE_EXACT - 1;
    const uint32_t bin = bin_next(cache, units, last);
    return bin == NONE ? NONE : bin_pull(caches, cache, bin, &cache->heads[bin]);
}

/* ---- sites ---- */

static mnem__thread_cache_site *site_at(mnem__thread_cache *cache, const char *text,
                                        const char *file, uint32_t line) {
    const uint64_t h = ((uintptr_t)text + ((uintptr_t)file ^ (uint64_t)line << 40) * 31) *
                       UINT64_C(0x9E3779B97F4A7C15);
    return &cache->sites[h >> 48 & (MNEM__THREAD_CACHE_SITES - 1)];
}

static bool site_is(const mnem__thread_cache_site *e, const mnem_pool_request *r, const char *file,
                    uint32_t line) {
    return e->text == r->tag && e->file == file && e->line == line && e->kind == r->kind &&
           !strncmp(e->copy, r->tag, sizeof e->copy);
}

/* ---- limits ---- */

static bool is_limited(const mnem__thread_caches *caches, uint32_t site) {
    const uint32_t tag = mnem__site_tag(site), kind = mnem__site_kind(site);
    return caches->limits &&
           ((caches->tag_limited[tag / 64] >> tag % 64 & 1) || caches->kind_limited >> kind & 1);
}

static void limits_read(mnem__thread_caches *caches, const mnem__pool_limits *limits) {
    caches->limits = limits;
    if (!limits) return;
    memset(caches->tag_limited, 0, sizeof caches->tag_limited);
    caches->kind_limited = 0;
    for (uint32_t tag = 0; tag < MNEM__TAGS_MAX; tag++)
        caches->tag_limited[tag / 64] |= (uint64_t)(limits->tag_hard[tag] != UINT64_MAX)
                                         << tag % 64;
    for (uint32_t kind = 0; kind < MNEM_KIND_COUNT; kind++)
        caches->kind_limited |= (uint32_t)(limits->kind_hard[kind] != UINT64_MAX) << kind;
}

/* ---- without the pool's lock ---- */

/* What is served is the plain case: the cache's stream, no wishes, a place of the program that was
 * seen before, credit of its tag and a kept block. All else goes the slow way, which learns it. The
 * generation is stored last: whoever sees it odd sees the whole record. */
static bool alloc_held(mnem__thread_caches *caches, mnem__thread_cache *cache,
                       const mnem_pool_request *r, const char *file, uint32_t line,
                       mnem_pool_block *block) {
    if (!cache->heap || cache->stream != r->stream || r->alignment || r->planned || r->moved ||
        !r->tag || cache->sequence == cache->sequence_end)
        return false;
    const mnem__thread_cache_site *e = site_at(cache, r->tag, file, line);
    const uint64_t units = (r->bytes + ((UINT64_C(1) << caches->shift) - 1)) >> caches->shift;
    if (!units_fit(units) || !site_is(e, r, file, line) || is_limited(caches, e->site))
        return false;
    mnem__thread_cache_credit *credit = &cache->credits[mnem__site_tag(e->site)];
    if (credit->bytes < r->bytes) return false;
    const uint32_t id = take_kept(caches, cache, (uint32_t)units);
    if (id == NONE) return false;
    credit->bytes -= r->bytes;
    credit->blocks--;
    credit->allocations++;
    cache->served++;
    mnem__record *record = record_at(caches, id);
    mnem__pool_slot *s = slot_of(record);
    s->state = MNEM__POOL_SLOT_LIVE;
    s->waits = 0;
    s->alignment_log2 = 0;
    s->stream = s->owner;
    record->bytes = r->bytes;
    record->sequence = ++cache->sequence;
    record->site = e->site;
    record->stream = s->owner;
    record->step = caches->step;
    const uint32_t generation = record->generation + 1;
    __atomic_store_n(&record->generation, generation, __ATOMIC_RELEASE);
    const uint64_t address = caches->unit_base[s->offset >> caches->unit_shift] + s->offset;
    *block = (mnem_pool_block){{caches->device, address, r->bytes, caches->space}, id, generation};
    return true;
}

bool mnem__thread_cache_alloc(mnem__thread_caches *caches, const mnem_pool_request *r,
                              const char *file, uint32_t line, mnem_pool_block *block) {
    mnem__thread_cache *cache = cache_of_thread(caches);
    if (!cache_try(cache)) return false;
    const bool done = is_open(caches) && alloc_held(caches, cache, r, file, line, block);
    cache_give(cache);
    return done;
}

/* The block stays where it is and becomes KEPT; what the counters should lose is credit, which the
 * next allocations of the tag use up again. The claim comes last of the checks: of two threads that
 * free one block it lets one through. */
static bool free_held(mnem__thread_caches *caches, mnem__thread_cache *cache,
                      const mnem_pool_block *block, const mnem_stream *stream) {
    if (!cache->heap || cache->stream != stream || block->id >= caches->capacity ||
        !(block->generation & 1))
        return false;
    mnem__record *record = record_at(caches, block->id);
    mnem__pool_slot *s = slot_of(record);
    if (__atomic_load_n(&record->generation, __ATOMIC_ACQUIRE) != block->generation ||
        s->owner != cache->heap->number || s->alone || s->movable || !units_fit(s->capacity) ||
        __atomic_load_n(&s->waits, __ATOMIC_ACQUIRE) || is_limited(caches, record->site))
        return false;
    if (cache->blocks == BLOCKS_MOST ||
        cache->bytes + ((uint64_t)s->capacity << caches->shift) > cache->bytes_most ||
        !mnem__track_claim(record, block->generation))
        return false;
    const uint32_t tag = mnem__site_tag(record->site);
    cache->credits[tag].bytes += record->bytes;
    cache->credits[tag].blocks++;
    cache->dirty[tag / 64] |= UINT64_C(1) << tag % 64;
    cache->frees++;
    s->state = MNEM__POOL_SLOT_KEPT;
    bin_put(caches, cache, block->id, s);
    return true;
}

bool mnem__thread_cache_free(mnem__thread_caches *caches, const mnem_pool_block *block,
                             const mnem_stream *stream) {
    mnem__thread_cache *cache = cache_of_thread(caches);
    if (!cache_try(cache)) return false;
    const bool done = is_open(caches) && free_held(caches, cache, block, stream);
    cache_give(cache);
    return done;
}

/* ---- with the pool's lock ---- */

static void count_correct(mnem__count *c, const mnem__thread_cache_credit *credit) {
    c->bytes_live -= credit->bytes;
    c->blocks_live -= credit->blocks;
    c->allocations += credit->allocations;
}

/* The pool's counters take what the cache owes them; only tags that it touched. */
static void credits_merge(mnem_pool *pool, mnem__thread_cache *cache) {
    for (uint32_t word = 0; word < MNEM__TAGS_MAX / 64; word++)
        for (uint64_t bits = cache->dirty[word]; bits; bits &= bits - 1) {
            const uint32_t tag = word * 64 + (uint32_t)__builtin_ctzll(bits);
            mnem__tag *row = mnem__tag_at(&pool->track.sites, tag);
            count_correct(&row->count, &cache->credits[tag]);
            count_correct(&pool->track.kinds[row->kind], &cache->credits[tag]);
            count_correct(&pool->track.all, &cache->credits[tag]);
            cache->credits[tag] = (mnem__thread_cache_credit){0};
        }
    memset(cache->dirty, 0, sizeof cache->dirty);
    pool->frees += cache->frees;
    pool->counts.rungs[MNEM_POOL_RUNG_REUSE] += cache->served;
    cache->frees = cache->served = 0;
}

static void block_return(mnem_pool *pool, uint32_t id) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    mnem__pool_heap *h = pool->heaps[s->owner];
    mnem__pool_touch(pool, s->offset, (uint64_t)s->capacity * pool->alignment);
    h->freed++;
    mnem_offset_free(h->offsets, s->handle);
    mnem__pool_slot_give(pool, id);
}

/* Until it keeps no more than that, bin after bin. */
static void blocks_return(mnem__thread_caches *caches, mnem__thread_cache *cache, uint32_t keep) {
    for (; cache->blocks > keep; cache->evict = (cache->evict + 1) % MNEM__THREAD_CACHE_BINS)
        while (cache->heads[cache->evict] != NONE && cache->blocks > keep)
            block_return(caches->pool,
                         bin_pull(caches, cache, cache->evict, &cache->heads[cache->evict]));
}

/* Empty, without credit and numbers. */
static void cache_empty(mnem__thread_caches *caches, mnem__thread_cache *cache) {
    credits_merge(caches->pool, cache);
    blocks_return(caches, cache, 0);
    cache->sequence = cache->sequence_end = 0;
}

void mnem__thread_caches_recall(mnem__thread_caches *caches) {
    for (mnem__thread_cache *cache = caches->all; cache < caches->all + MNEM__THREAD_CACHES;
         cache++) {
        if (!cache->heap) continue;
        cache_take(cache);
        credits_merge(caches->pool, cache);
        cache_give(cache);
    }
}

/* Closed first, then emptied: a thread that holds its cache finishes its call, and looks at `open`
 * again before the next. */
void mnem__thread_caches_close(mnem__thread_caches *caches, uint32_t pause) {
    if (caches->pause < pause) caches->pause = pause;
    if (!is_open(caches)) return;
    atomic_store_explicit(&caches->open, false, memory_order_release);
    for (mnem__thread_cache *cache = caches->all; cache < caches->all + MNEM__THREAD_CACHES;
         cache++) {
        if (!cache->heap) continue;
        cache_take(cache);
        cache_empty(caches, cache);
        cache_give(cache);
    }
}

/* Copies what the fast path reads while no thread can be in it. */
void mnem__thread_caches_open(mnem__thread_caches *caches) {
    const mnem_pool *pool = caches->pool;
    if (is_open(caches) || pool->guard || pool->options.backtrace) return;
    if (caches->pause) {
        caches->pause--;
        return;
    }
    for (mnem__thread_cache *cache = caches->all; cache < caches->all + MNEM__THREAD_CACHES;
         cache++)
        if (cache->heap && (cache->heap->orphan || cache->heap->stream != cache->stream))
            cache->heap = NULL;
    limits_read(caches, pool->limits);
    caches->step = pool->track.step;
    caches->records = pool->track.records;
    caches->capacity = pool->track.records.capacity;
    caches->unit_base = pool->unit_base;
    atomic_store_explicit(&caches->open, true, memory_order_release);
}

static void site_learn(mnem__thread_cache_site *e, const mnem_pool *pool,
                       const mnem_pool_request *r, const char *file, uint32_t line, uint32_t site) {
    *e = (mnem__thread_cache_site){r->tag, file, line, site, r->kind, {0}};
    memcpy(e->copy, mnem__tag_at(&pool->track.sites, mnem__site_tag(site))->text, sizeof e->copy);
}

/* Whether the cache keeps blocks of this heap. It changes for a stream that it meets often. */
static bool heap_is(mnem__thread_caches *caches, mnem__thread_cache *cache, mnem__pool_heap *h) {
    if (cache->heap == h && cache->stream == h->stream) {
        cache->strangers = 0;
        return true;
    }
    if (!h->immediate || (cache->heap && ++cache->strangers < STRANGERS_MOST)) return false;
    if (cache->heap) cache_empty(caches, cache);
    cache->heap = h;
    cache->stream = h->stream;
    cache->strangers = 0;
    return true;
}

static void count_lend(mnem__count *c, uint64_t bytes) {
    c->bytes_live += bytes;
}

static uint64_t below_peak(const mnem__count *c) {
    return c->bytes_peak - c->bytes_live;
}

/* Credit without a free, as far as the counters stay below their peaks. */
static void credit_lend(mnem_pool *pool, mnem__thread_cache *cache, uint32_t site, uint64_t bytes) {
    const uint32_t tag = mnem__site_tag(site);
    mnem__count *own = &mnem__tag_at(&pool->track.sites, tag)->count;
    mnem__count *kind = &pool->track.kinds[mnem__site_kind(site)], *all = &pool->track.all;
    if (below_peak(own) < bytes) bytes = below_peak(own);
    if (below_peak(kind) < bytes) bytes = below_peak(kind);
    if (below_peak(all) < bytes) bytes = below_peak(all);
    count_lend(own, bytes);
    count_lend(kind, bytes);
    count_lend(all, bytes);
    cache->credits[tag].bytes += bytes;
    cache->dirty[tag / 64] |= UINT64_C(1) << tag % 64;
}

void mnem__thread_cache_learn(mnem__thread_caches *caches, mnem__pool_heap *h,
                              const mnem_pool_request *r, const char *file, uint32_t line,
                              uint32_t site) {
    mnem_pool *pool = caches->pool;
    mnem__thread_cache *cache = cache_of_thread(caches);
    if (!is_open(caches) || !r->tag || is_limited(caches, site) || !cache_try(cache)) return;
    if (heap_is(caches, cache, h)) {
        mnem__thread_cache_site *e = site_at(cache, r->tag, file, line);
        if (!site_is(e, r, file, line)) site_learn(e, pool, r, file, line, site);
        if (cache->sequence == cache->sequence_end) {
            cache->sequence = pool->track.sequence;
            cache->sequence_end = pool->track.sequence += NUMBERS;
        }
        if (cache->credits[mnem__site_tag(site)].bytes < r->bytes)
            credit_lend(pool, cache, site, r->bytes * LOAN);
        cache->bytes_most = mnem__pool_reserved(pool) / SHARE;
    }
    cache_give(cache);
}

void mnem__thread_cache_relieve(mnem__thread_caches *caches) {
    mnem__thread_cache *cache = cache_of_thread(caches);
    if (!is_open(caches) || !cache->heap || !cache_try(cache)) return;
    if (cache->blocks == BLOCKS_MOST || cache->bytes > cache->bytes_most / 4 * 3) {
        credits_merge(caches->pool, cache);
        blocks_return(caches, cache, cache->blocks / 2);
    }
    cache_give(cache);
}

void mnem__pool_crowd(mnem_pool *pool) {
    if (!pool->caches_made) pool->caches_made = mnem__thread_caches_make(pool);
    pool->lock.caches = pool->caches_made;
    atomic_store_explicit(&pool->caches, pool->caches_made, memory_order_release);
}

mnem__thread_caches *mnem__thread_caches_make(mnem_pool *pool) {
    const size_t line = _Alignof(mnem__thread_caches), bytes = sizeof(mnem__thread_caches) + line;
    void *memory = mnem__alloc("pool", bytes);
    if (!memory) return NULL;
    memset(memory, 0, bytes); /* touched: what is charged is there */
    mnem__thread_caches *caches = (void *)mnem__align_up((uintptr_t)memory, line);
    caches->pool = pool;
    caches->memory = memory;
    caches->shift = (uint16_t)__builtin_ctzll(pool->alignment);
    caches->unit_shift = pool->unit_shift;
    caches->device = pool->options.device;
    caches->space = pool->options.space;
    for (mnem__thread_cache *cache = caches->all; cache < caches->all + MNEM__THREAD_CACHES;
         cache++)
        memset(cache->heads, 0xff, sizeof cache->heads); /* NONE */
    return caches;
}
