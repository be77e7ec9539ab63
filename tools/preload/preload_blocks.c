/* preload_blocks.c: the live blocks, by address.
 *
 * Idea: 64 tables, each with a lock and open addressing, chosen by a hash of the address; a freed
 * entry's followers move back, so that there are no graves and looking up stays short.
 * Invariant: the sums of the tables' counts are the totals; a block is in at most one entry.
 * Cost: a lock and about one miss of the cache; 40 bytes an entry, tables at most 3/4 full. */
#include "preload.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

enum { TABLES = 64, FIRST = 64 };

typedef struct blocks {
    _Alignas(64) preload_lock lock;
    preload_block *at;
    size_t mask, count;
    uint64_t allocations, frees;
} blocks;

static blocks tables[TABLES];
static atomic_uint_fast64_t mapped, bytes_live, bytes_peak;
atomic_uint_fast64_t preload_lost, preload_unknown;

/* ---- pages and locks ---- */

void *preload_map(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    atomic_fetch_add_explicit(&mapped, bytes, memory_order_relaxed);
    return start;
}

void preload_unmap(void *start, size_t bytes) {
    if (!start) return;
    munmap(start, bytes);
    atomic_fetch_sub_explicit(&mapped, bytes, memory_order_relaxed);
}

uint64_t preload_mapped_bytes(void) {
    return atomic_load_explicit(&mapped, memory_order_relaxed);
}

void preload_lock_wait(preload_lock *lock) {
    for (int i = 0; atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire); i++)
        if (i > 64) sched_yield();
}

/* ---- tables ---- */

static uint64_t hash_of(uintptr_t address) {
    return (address >> 4) * UINT64_C(0x9E3779B97F4A7C15);
}

static blocks *table_of(uintptr_t address) {
    return &tables[hash_of(address) >> 58];
}

static size_t place_of(const blocks *b, uintptr_t address) {
    return (hash_of(address) >> 20) & b->mask;
}

/* Where the address is, or the empty place where it would be. */
static preload_block *find(const blocks *b, uintptr_t address) {
    size_t i = place_of(b, address);
    while (b->at[i].address && b->at[i].address != address) i = (i + 1) & b->mask;
    return &b->at[i];
}

static bool grow(blocks *b) {
    const size_t had = b->at ? b->mask + 1 : 0, n = had ? had * 2 : FIRST;
    preload_block *old = b->at, *fresh = preload_map(n * sizeof *fresh);
    if (!fresh) return had && b->count + 1 < had;
    b->at = fresh;
    b->mask = n - 1;
    for (size_t i = 0; i < had; i++)
        if (old[i].address) *find(b, old[i].address) = old[i];
    preload_unmap(old, had * sizeof *old);
    return true;
}

static void leave(blocks *b, preload_block *entry) {
    size_t hole = (size_t)(entry - b->at);
    for (size_t i = hole;;) {
        i = (i + 1) & b->mask;
        if (!b->at[i].address) break;
        const size_t home = place_of(b, b->at[i].address);
        if (((i - home) & b->mask) < ((i - hole) & b->mask)) continue; /* it stands behind home */
        b->at[hole] = b->at[i];
        hole = i;
    }
    b->at[hole].address = 0;
    b->count--;
}

static void peak_note(uint64_t live) {
    uint64_t peak = atomic_load_explicit(&bytes_peak, memory_order_relaxed);
    while (live > peak &&
           !atomic_compare_exchange_weak_explicit(&bytes_peak, &peak, live, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

bool preload_block_add(const preload_block *block) {
    blocks *b = table_of(block->address);
    uint64_t gone = 0; /* of a block whose free we didn't see */
    preload_lock_take(&b->lock);
    const bool room = (b->at && b->count * 4 < (b->mask + 1) * 3) || grow(b);
    if (room) {
        preload_block *entry = find(b, block->address);
        if (entry->address) {
            gone = entry->bytes;
            b->frees++;
        } else {
            b->count++;
        }
        *entry = *block;
        b->allocations++;
    }
    preload_lock_give(&b->lock);
    if (!room) {
        atomic_fetch_add_explicit(&preload_lost, 1, memory_order_relaxed);
        return false;
    }
    const uint64_t more = block->bytes - gone;
    peak_note(atomic_fetch_add_explicit(&bytes_live, more, memory_order_relaxed) + more);
    return true;
}

bool preload_block_take(uintptr_t address, preload_block *block) {
    blocks *b = table_of(address);
    preload_lock_take(&b->lock);
    preload_block *entry = b->at ? find(b, address) : NULL;
    const bool known = entry && entry->address;
    if (known) {
        *block = *entry;
        leave(b, entry);
        b->frees++;
    }
    preload_lock_give(&b->lock);
    if (known) atomic_fetch_sub_explicit(&bytes_live, block->bytes, memory_order_relaxed);
    return known;
}

void preload_block_each(void (*each)(void *context, const preload_block *block), void *context) {
    for (int t = 0; t < TABLES; t++) {
        blocks *b = &tables[t];
        preload_lock_take(&b->lock);
        for (size_t i = 0; b->at && i <= b->mask; i++)
            if (b->at[i].address) each(context, &b->at[i]);
        preload_lock_give(&b->lock);
    }
}

void preload_totals_get(preload_totals *totals) {
    *totals = (preload_totals){
        .bytes_live = atomic_load_explicit(&bytes_live, memory_order_relaxed),
        .bytes_peak = atomic_load_explicit(&bytes_peak, memory_order_relaxed),
        .unknown = atomic_load_explicit(&preload_unknown, memory_order_relaxed),
        .lost = atomic_load_explicit(&preload_lost, memory_order_relaxed),
    };
    for (int t = 0; t < TABLES; t++) {
        blocks *b = &tables[t];
        preload_lock_take(&b->lock);
        totals->blocks_live += b->count;
        totals->allocations += b->allocations;
        totals->frees += b->frees;
        preload_lock_give(&b->lock);
    }
}

void preload_blocks_lock(bool take) {
    for (int t = 0; t < TABLES; t++) {
        if (take)
            preload_lock_take(&tables[t].lock);
        else
            preload_lock_give(&tables[t].lock);
    }
}
