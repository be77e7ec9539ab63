/* preload_stacks.c: a number for each different stack.
 *
 * Idea: frames lie one stack after another in mapped chunks that never move; an open hash table
 * says where. Looking up takes no lock: a table only gains entries, and one that outgrew its room
 * is replaced as a whole, the old one staying mapped for who still reads it.
 * Invariant: an entry is published after its frames; a number is never reused.
 * Cost: a hash over the frames, one or two misses of the cache. 16 bytes and 8 a frame each. */
#include "preload.h"

#include <string.h>

enum { STACKS_MAX = 1 << 22, FIRST_KEYS = 1 << 12, CHUNK_WORDS = 1 << 15, ROW_BITS = 12 };

typedef struct keys {
    size_t mask;
    atomic_uint at[]; /* number; 0: none */
} keys;

typedef struct stack {
    uint32_t hash, count;
    uintptr_t pcs[];
} stack;

static preload_lock lock;
static _Atomic(keys *) table;
static _Atomic(stack *) *_Atomic rows[STACKS_MAX >> ROW_BITS];
static atomic_uint stack_count = 1;
static uintptr_t *chunk;
static size_t chunk_left;

static stack *stack_at(uint32_t number) {
    _Atomic(stack *) *row = atomic_load_explicit(&rows[number >> ROW_BITS], memory_order_acquire);
    return atomic_load_explicit(&row[number & ((1 << ROW_BITS) - 1)], memory_order_acquire);
}

static uint32_t hash_of(const uintptr_t *pcs, int count) {
    uint64_t h = (uint64_t)count;
    for (int i = 0; i < count; i++) h = (h ^ pcs[i]) * UINT64_C(0x9E3779B97F4A7C15) >> 7 ^ h << 5;
    return (uint32_t)((h * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

static uint32_t find(const keys *k, uint32_t hash, const uintptr_t *pcs, int count) {
    for (size_t i = hash & k->mask;; i = (i + 1) & k->mask) {
        const uint32_t number = atomic_load_explicit(&k->at[i], memory_order_acquire);
        if (!number) return 0;
        const stack *s = stack_at(number);
        if (s->hash == hash && s->count == (uint32_t)count &&
            !memcmp(s->pcs, pcs, (size_t)count * sizeof *pcs))
            return number;
    }
}

static void put_stack(keys *k, uint32_t hash, uint32_t number) {
    size_t i = hash & k->mask;
    while (atomic_load_explicit(&k->at[i], memory_order_relaxed)) i = (i + 1) & k->mask;
    atomic_store_explicit(&k->at[i], number, memory_order_release);
}

static keys *keys_make(size_t n) {
    keys *k = preload_map(sizeof *k + n * sizeof k->at[0]);
    if (k) k->mask = n - 1;
    return k;
}

/* Room for one more, at most half full; NULL: none. */
static keys *keys_room(void) {
    keys *k = atomic_load_explicit(&table, memory_order_relaxed);
    const uint32_t count = atomic_load_explicit(&stack_count, memory_order_relaxed);
    if (k && count * 2 < k->mask) return k;
    keys *more = keys_make(k ? (k->mask + 1) * 2 : FIRST_KEYS);
    if (!more) return k && count < k->mask ? k : NULL;
    for (uint32_t i = 1; i < count; i++) put_stack(more, stack_at(i)->hash, i);
    atomic_store_explicit(&table, more, memory_order_release);
    return more;
}

static stack *stack_make(uint32_t hash, const uintptr_t *pcs, int count) {
    const size_t words = 1 + (size_t)count;
    if (chunk_left < words) {
        uintptr_t *fresh = preload_map(CHUNK_WORDS * sizeof *fresh);
        if (!fresh) return NULL;
        chunk = fresh;
        chunk_left = CHUNK_WORDS;
    }
    stack *s = (stack *)(void *)chunk;
    chunk += words;
    chunk_left -= words;
    s->hash = hash;
    s->count = (uint32_t)count;
    memcpy(s->pcs, pcs, (size_t)count * sizeof *pcs);
    return s;
}

/* Under the lock. */
static uint32_t add(uint32_t hash, const uintptr_t *pcs, int count) {
    const uint32_t number = atomic_load_explicit(&stack_count, memory_order_relaxed);
    _Atomic(stack *) *row = NULL;
    if (number == STACKS_MAX) return 0;
    keys *k = keys_room();
    row = atomic_load_explicit(&rows[number >> ROW_BITS], memory_order_relaxed);
    if (!row) {
        row = preload_map(sizeof *row << ROW_BITS);
        atomic_store_explicit(&rows[number >> ROW_BITS], row, memory_order_release);
    }
    stack *s = k && row ? stack_make(hash, pcs, count) : NULL;
    if (!s) return 0;
    atomic_store_explicit(&row[number & ((1 << ROW_BITS) - 1)], s, memory_order_release);
    atomic_store_explicit(&stack_count, number + 1, memory_order_release);
    put_stack(k, hash, number);
    return number;
}

uint32_t preload_stack_number(const uintptr_t *pcs, int count) {
    const uint32_t hash = hash_of(pcs, count);
    const keys *k = atomic_load_explicit(&table, memory_order_acquire);
    uint32_t number = k ? find(k, hash, pcs, count) : 0;
    if (PRELOAD_LIKELY(number)) return number;
    preload_lock_take(&lock);
    k = atomic_load_explicit(&table, memory_order_relaxed);
    number = k ? find(k, hash, pcs, count) : 0;
    if (!number) number = add(hash, pcs, count);
    preload_lock_give(&lock);
    return number;
}

const uintptr_t *preload_stack_frames(uint32_t number, int *count) {
    const stack *s = number ? stack_at(number) : NULL;
    *count = s ? (int)s->count : 0;
    return s ? s->pcs : NULL;
}

uint32_t preload_stack_count(void) {
    return atomic_load_explicit(&stack_count, memory_order_acquire);
}

void preload_stacks_lock(bool take) {
    if (take)
        preload_lock_take(&lock);
    else
        preload_lock_give(&lock);
}
