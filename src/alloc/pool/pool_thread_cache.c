/* pool_thread_cache.c: blocks that threads keep.
 *
 * The idea: pool_thread_cache.h. A block is kept with the size that it has (slot.capacity), and serves
 * requests of that size and down to 1/16 less; below 256 units of the alignment the bins are exact
 * and a bit scan finds one.
 * Invariant: a kept slot is in state KEPT and in the bin of its capacity; its record isn't live.
 * While the fronts are closed, all are empty and without credit.
 * Cost: an exchange on a line of the thread's own, one line of the record; one call in 64 fetches
 * numbers under the lock, and a front that is full gives half of its blocks back at once. */
#include "alloc/pool/pool_thread_cache.h"

#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/thread.h"

enum {
    BLOCKS_MOST = 512,
    NUMBERS = 64,       /* fetched at a time */
    SHARE = 64,         /* a front keeps this part of what is reserved, at most */
    WASTE = 16,         /* and serves a request with a block that is so much larger */
    TRIES = 4,          /* blocks looked at in a bin of many sizes */
    LOAN = 16,          /* requests like this one that credit is lent for */
    STRANGERS_MOST = 32 /* then it changes its stream */
};
#define NONE MNEM__SLOT_END

/* ---- whose ---- */

/* Threads are numbered as they come, so that few share a front. */
static mnem__front *front_of_thread(mnem__fronts *fs) {
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t number;
    if (!number) number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    return &fs->fronts[number % MNEM__FRONTS];
}

static bool front_try(mnem__front *f) {
    return !atomic_load_explicit(&f->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&f->held, 1, memory_order_acquire);
}

/* Its holder is done soon, unless it lost its processor. */
static void front_take(mnem__front *f) {
    for (int looks = 0; !front_try(f); looks++) {
        mnem__spin_pause();
        if (looks > 200) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void front_give(mnem__front *f) {
    atomic_store_explicit(&f->held, 0, memory_order_release);
}

static bool is_open(const mnem__fronts *fs) {
    return atomic_load_explicit(&fs->open, memory_order_acquire);
}

static mnem__record *record_at(const mnem__fronts *fs, uint32_t id) {
    return mnem__row(&fs->records, sizeof(mnem__record), id);
}

static mnem__pool_slot *slot_of(mnem__record *r) {
    return (mnem__pool_slot *)r->place;
}

/* ---- bins ---- */

static bool units_fit(uint64_t units) {
    return units && units >> MNEM__FRONT_LOG_MOST < 2;
}

static uint32_t bin_of(uint32_t units) {
    if (units < MNEM__FRONT_EXACT) return units;
    const uint32_t log = 31 - (uint32_t)__builtin_clz(units);
    return MNEM__FRONT_EXACT + (log - 8) * 8 + (units >> (log - 3) & 7);
}

static void bin_put(mnem__fronts *fs, mnem__front *f, uint32_t id, mnem__pool_slot *s) {
    const uint32_t bin = bin_of(s->capacity);
    s->waits = f->heads[bin];
    f->heads[bin] = id;
    f->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    f->blocks++;
    f->bytes += (uint64_t)s->capacity << fs->shift;
}

/* What *link names leaves its bin. */
static uint32_t bin_pull(mnem__fronts *fs, mnem__front *f, uint32_t bin, uint32_t *link) {
    const uint32_t id = *link;
    const mnem__pool_slot *s = slot_of(record_at(fs, id));
    *link = s->waits;
    if (f->heads[bin] == NONE) f->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    f->blocks--;
    f->bytes -= (uint64_t)s->capacity << fs->shift;
    return id;
}

/* The first bin from `bin` to `last` that has a block; at most one word further. */
static uint32_t bin_next(const mnem__front *f, uint32_t bin, uint32_t last) {
    uint32_t word = bin / 64;
    uint64_t bits = f->filled[word] & UINT64_MAX << bin % 64;
    if (!bits && word < last / 64) bits = f->filled[++word];
    const uint32_t found = bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : NONE;
    return found <= last ? found : NONE;
}

static uint32_t take_from_mixed(mnem__fronts *fs, mnem__front *f, uint32_t units, uint32_t most) {
    for (uint32_t bin = bin_of(units), end = bin + 2; bin < end && bin < MNEM__FRONT_BINS; bin++) {
        uint32_t *link = &f->heads[bin];
        for (int i = 0; i < TRIES && *link != NONE; i++) {
            mnem__pool_slot *s = slot_of(record_at(fs, *link));
            if (s->capacity >= units && s->capacity <= most) return bin_pull(fs, f, bin, link);
            link = &s->waits;
        }
    }
    return NONE;
}

static uint32_t take_kept(mnem__fronts *fs, mnem__front *f, uint32_t units) {
    const uint32_t most = units + units / WASTE;
    if (units >= MNEM__FRONT_EXACT) return take_from_mixed(fs, f, units, most);
    const uint32_t last = most < MNEM__FRONT_EXACT ? most : MNEM__FRONT_EXACT - 1;
    const uint32_t bin = bin_next(f, units, last);
    return bin == NONE ? NONE : bin_pull(fs, f, bin, &f->heads[bin]);
}

/* ---- sites ---- */

static mnem__front_site *site_at(mnem__front *f, const char *text, const char *file,
                                 uint32_t line) {
    const uint64_t h = ((uintptr_t)text + ((uintptr_t)file ^ (uint64_t)line << 40) * 31) *
                       UINT64_C(0x9E3779B97F4A7C15);
    return &f->sites[h >> 48 & (MNEM__FRONT_SITES - 1)];
}

static bool site_is(const mnem__front_site *e, const mnem_pool_request *r, const char *file,
                    uint32_t line) {
    return e->text == r->tag && e->file == file && e->line == line && e->kind == r->kind &&
           !strncmp(e->copy, r->tag, sizeof e->copy);
}

/* ---- limits ---- */

static bool is_limited(const mnem__fronts *fs, uint32_t site) {
    const uint32_t tag = mnem__site_tag(site), kind = mnem__site_kind(site);
    return fs->limits &&
           ((fs->tag_limited[tag / 64] >> tag % 64 & 1) || fs->kind_limited >> kind & 1);
}

static void limits_read(mnem__fronts *fs, const mnem__pool_limits *limits) {
    fs->limits = limits;
    if (!limits) return;
    memset(fs->tag_limited, 0, sizeof fs->tag_limited);
    fs->kind_limited = 0;
    for (uint32_t tag = 0; tag < MNEM__TAGS_MAX; tag++)
        fs->tag_limited[tag / 64] |= (uint64_t)(limits->tag_hard[tag] != UINT64_MAX) << tag % 64;
    for (uint32_t kind = 0; kind < MNEM_KIND_COUNT; kind++)
        fs->kind_limited |= (uint32_t)(limits->kind_hard[kind] != UINT64_MAX) << kind;
}

/* ---- without the pool's lock ---- */

static bool alloc_held(mnem__fronts *fs, mnem__front *f, const mnem_pool_request *r,
                       const char *file, uint32_t line, mnem_pool_block *block) {
    if (!f->domain || f->stream != r->stream || r->alignment || r->planned || r->moved || !r->tag ||
        f->sequence == f->sequence_end)
        return false;
    const mnem__front_site *e = site_at(f, r->tag, file, line);
    const uint64_t units = (r->bytes + ((UINT64_C(1) << fs->shift) - 1)) >> fs->shift;
    if (!units_fit(units) || !site_is(e, r, file, line) || is_limited(fs, e->site)) return false;
    mnem__front_credit *credit = &f->credits[mnem__site_tag(e->site)];
    if (credit->bytes < r->bytes) return false;
    const uint32_t id = take_kept(fs, f, (uint32_t)units);
    if (id == NONE) return false;
    credit->bytes -= r->bytes;
    credit->blocks--;
    credit->allocations++;
    f->served++;
    mnem__record *record = record_at(fs, id);
    mnem__pool_slot *s = slot_of(record);
    s->state = MNEM__SLOT_LIVE;
    s->waits = 0;
    s->alignment_log2 = 0;
    s->stream = s->owner;
    record->bytes = r->bytes;
    record->sequence = ++f->sequence;
    record->site = e->site;
    record->stream = s->owner;
    record->step = fs->step;
    const uint32_t generation = record->generation + 1;
    __atomic_store_n(&record->generation, generation, __ATOMIC_RELEASE);
    const uint64_t address = fs->unit_base[s->offset >> fs->unit_shift] + s->offset;
    *block = (mnem_pool_block){{fs->device, address, r->bytes, fs->space}, id, generation};
    return true;
}

bool mnem__front_alloc(mnem__fronts *fs, const mnem_pool_request *r, const char *file,
                       uint32_t line, mnem_pool_block *block) {
    mnem__front *f = front_of_thread(fs);
    if (!front_try(f)) return false;
    const bool done = is_open(fs) && alloc_held(fs, f, r, file, line, block);
    front_give(f);
    return done;
}

static bool free_held(mnem__fronts *fs, mnem__front *f, const mnem_pool_block *block,
                      const mnem_stream *stream) {
    if (!f->domain || f->stream != stream || block->id >= fs->capacity || !(block->generation & 1))
        return false;
    mnem__record *record = record_at(fs, block->id);
    mnem__pool_slot *s = slot_of(record);
    if (__atomic_load_n(&record->generation, __ATOMIC_ACQUIRE) != block->generation ||
        s->owner != f->domain->number || s->alone || s->movable || !units_fit(s->capacity) ||
        __atomic_load_n(&s->waits, __ATOMIC_ACQUIRE) || is_limited(fs, record->site))
        return false;
    if (f->blocks == BLOCKS_MOST ||
        f->bytes + ((uint64_t)s->capacity << fs->shift) > f->bytes_most ||
        !mnem__track_claim(record, block->generation))
        return false;
    const uint32_t tag = mnem__site_tag(record->site);
    f->credits[tag].bytes += record->bytes;
    f->credits[tag].blocks++;
    f->dirty[tag / 64] |= UINT64_C(1) << tag % 64;
    f->frees++;
    s->state = MNEM__SLOT_KEPT;
    bin_put(fs, f, block->id, s);
    return true;
}

bool mnem__front_free(mnem__fronts *fs, const mnem_pool_block *block, const mnem_stream *stream) {
    mnem__front *f = front_of_thread(fs);
    if (!front_try(f)) return false;
    const bool done = is_open(fs) && free_held(fs, f, block, stream);
    front_give(f);
    return done;
}

/* ---- with the pool's lock ---- */

static void count_correct(mnem__count *c, const mnem__front_credit *credit) {
    c->bytes_live -= credit->bytes;
    c->blocks_live -= credit->blocks;
    c->allocations += credit->allocations;
}

static void credits_merge(mnem_pool *pool, mnem__front *f) {
    for (uint32_t word = 0; word < MNEM__TAGS_MAX / 64; word++)
        for (uint64_t bits = f->dirty[word]; bits; bits &= bits - 1) {
            const uint32_t tag = word * 64 + (uint32_t)__builtin_ctzll(bits);
            mnem__tag *row = mnem__tag_at(&pool->track.sites, tag);
            count_correct(&row->count, &f->credits[tag]);
            count_correct(&pool->track.kinds[row->kind], &f->credits[tag]);
            count_correct(&pool->track.all, &f->credits[tag]);
            f->credits[tag] = (mnem__front_credit){0};
        }
    memset(f->dirty, 0, sizeof f->dirty);
    pool->frees += f->frees;
    pool->counts.rungs[MNEM_POOL_RUNG_REUSE] += f->served;
    f->frees = f->served = 0;
}

static void block_return(mnem_pool *pool, uint32_t id) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    mnem__pool_domain *d = pool->domains[s->owner];
    mnem__pool_touch(pool, s->offset, (uint64_t)s->capacity * pool->alignment);
    d->freed++;
    mnem_offset_free(d->offsets, s->handle);
    mnem__pool_slot_give(pool, id);
}

/* Until it keeps no more than that, bin after bin. */
static void blocks_return(mnem__fronts *fs, mnem__front *f, uint32_t keep) {
    for (; f->blocks > keep; f->evict = (f->evict + 1) % MNEM__FRONT_BINS)
        while (f->heads[f->evict] != NONE && f->blocks > keep)
            block_return(fs->pool, bin_pull(fs, f, f->evict, &f->heads[f->evict]));
}

/* Empty, without credit and numbers. */
static void front_empty(mnem__fronts *fs, mnem__front *f) {
    credits_merge(fs->pool, f);
    blocks_return(fs, f, 0);
    f->sequence = f->sequence_end = 0;
}

void mnem__fronts_recall(mnem__fronts *fs) {
    for (mnem__front *f = fs->fronts; f < fs->fronts + MNEM__FRONTS; f++) {
        if (!f->domain) continue;
        front_take(f);
        credits_merge(fs->pool, f);
        front_give(f);
    }
}

void mnem__fronts_close(mnem__fronts *fs, uint32_t pause) {
    if (fs->pause < pause) fs->pause = pause;
    if (!is_open(fs)) return;
    atomic_store_explicit(&fs->open, false, memory_order_release);
    for (mnem__front *f = fs->fronts; f < fs->fronts + MNEM__FRONTS; f++) {
        if (!f->domain) continue;
        front_take(f);
        front_empty(fs, f);
        front_give(f);
    }
}

void mnem__fronts_open(mnem__fronts *fs) {
    const mnem_pool *pool = fs->pool;
    if (is_open(fs) || pool->guard || pool->options.backtrace) return;
    if (fs->pause) {
        fs->pause--;
        return;
    }
    for (mnem__front *f = fs->fronts; f < fs->fronts + MNEM__FRONTS; f++)
        if (f->domain && (f->domain->orphan || f->domain->stream != f->stream)) f->domain = NULL;
    limits_read(fs, pool->limits);
    fs->step = pool->track.step;
    fs->records = pool->track.records;
    fs->capacity = pool->track.records.capacity;
    fs->unit_base = pool->unit_base;
    atomic_store_explicit(&fs->open, true, memory_order_release);
}

static void site_learn(mnem__front_site *e, const mnem_pool *pool, const mnem_pool_request *r,
                       const char *file, uint32_t line, uint32_t site) {
    *e = (mnem__front_site){r->tag, file, line, site, r->kind, {0}};
    memcpy(e->copy, mnem__tag_at(&pool->track.sites, mnem__site_tag(site))->text, sizeof e->copy);
}

/* Whether the front keeps blocks of this domain. It changes for a stream that it meets often. */
static bool domain_is(mnem__fronts *fs, mnem__front *f, mnem__pool_domain *d) {
    if (f->domain == d && f->stream == d->stream) {
        f->strangers = 0;
        return true;
    }
    if (!d->immediate || (f->domain && ++f->strangers < STRANGERS_MOST)) return false;
    if (f->domain) front_empty(fs, f);
    f->domain = d;
    f->stream = d->stream;
    f->strangers = 0;
    return true;
}

static void count_lend(mnem__count *c, uint64_t bytes) {
    c->bytes_live += bytes;
}

static uint64_t below_peak(const mnem__count *c) {
    return c->bytes_peak - c->bytes_live;
}

/* Credit without a free, as far as the counters stay below their peaks. */
static void credit_lend(mnem_pool *pool, mnem__front *f, uint32_t site, uint64_t bytes) {
    const uint32_t tag = mnem__site_tag(site);
    mnem__count *own = &mnem__tag_at(&pool->track.sites, tag)->count;
    mnem__count *kind = &pool->track.kinds[mnem__site_kind(site)], *all = &pool->track.all;
    if (below_peak(own) < bytes) bytes = below_peak(own);
    if (below_peak(kind) < bytes) bytes = below_peak(kind);
    if (below_peak(all) < bytes) bytes = below_peak(all);
    count_lend(own, bytes);
    count_lend(kind, bytes);
    count_lend(all, bytes);
    f->credits[tag].bytes += bytes;
    f->dirty[tag / 64] |= UINT64_C(1) << tag % 64;
}

void mnem__front_learn(mnem__fronts *fs, mnem__pool_domain *d, const mnem_pool_request *r,
                       const char *file, uint32_t line, uint32_t site) {
    mnem_pool *pool = fs->pool;
    mnem__front *f = front_of_thread(fs);
    if (!is_open(fs) || !r->tag || is_limited(fs, site) || !front_try(f)) return;
    if (domain_is(fs, f, d)) {
        mnem__front_site *e = site_at(f, r->tag, file, line);
        if (!site_is(e, r, file, line)) site_learn(e, pool, r, file, line, site);
        if (f->sequence == f->sequence_end) {
            f->sequence = pool->track.sequence;
            f->sequence_end = pool->track.sequence += NUMBERS;
        }
        if (f->credits[mnem__site_tag(site)].bytes < r->bytes)
            credit_lend(pool, f, site, r->bytes * LOAN);
        f->bytes_most = mnem__pool_reserved(pool) / SHARE;
    }
    front_give(f);
}

void mnem__front_relieve(mnem__fronts *fs) {
    mnem__front *f = front_of_thread(fs);
    if (!is_open(fs) || !f->domain || !front_try(f)) return;
    if (f->blocks == BLOCKS_MOST || f->bytes > f->bytes_most / 4 * 3) {
        credits_merge(fs->pool, f);
        blocks_return(fs, f, f->blocks / 2);
    }
    front_give(f);
}

void mnem__pool_crowd(mnem_pool *pool) {
    if (!pool->fronts_made) pool->fronts_made = mnem__fronts_make(pool);
    pool->lock.fronts = pool->fronts_made;
    atomic_store_explicit(&pool->fronts, pool->fronts_made, memory_order_release);
}

mnem__fronts *mnem__fronts_make(mnem_pool *pool) {
    const size_t line = _Alignof(mnem__fronts);
    void *memory = mnem__calloc("pool", 1, sizeof(mnem__fronts) + line);
    if (!memory) return NULL;
    mnem__fronts *fs = (void *)mnem__align_up((uintptr_t)memory, line);
    fs->pool = pool;
    fs->memory = memory;
    fs->shift = (uint16_t)__builtin_ctzll(pool->alignment);
    fs->unit_shift = pool->unit_shift;
    fs->device = pool->options.device;
    fs->space = pool->options.space;
    for (mnem__front *f = fs->fronts; f < fs->fronts + MNEM__FRONTS; f++)
        memset(f->heads, 0xff, sizeof f->heads); /* NONE */
    return fs;
}
