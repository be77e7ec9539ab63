/* heap.c: the one file that calls malloc and free; mmap is pages.c's and memory_file.c's.
 *
 * The idea: each block carries a header of 16 bytes, its size and the number of its tag, so that a
 * free needs no lookup and the counts are exact. A tag is a row in a table of fixed size that only
 * grows: found by its address, then by its text, added with one compare-and-swap.
 *
 *     [ bytes 8 | tag 4 | guard 4 ][ n bytes, 16-byte aligned ]
 *
 * Large blocks are mappings of their own, so that they go back to the machine when they are freed,
 * however large the blocks are that the C heap of another program keeps.
 * Invariant: the sum of the tags' live bytes is what was asked for and not freed; the watcher was
 * asked for each of them while it was set. Peaks are kept with a compare-and-swap each.
 * Cost: a few atomic additions for each call; nothing is locked. */
#include "base/heap.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail_point.h"
#include "base/heap_private.h"
#include "base/pages.h"
#include "mnem/thread_heap.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define MAPPED_LEAST UINT64_MAX /* they look after blocks of malloc only */
#else
#define MAPPED_LEAST (128 * 1024)
#endif
enum { GUARD_LIVE = 0x6d6e656d };

typedef struct block_header {
    uint64_t bytes;
    uint32_t tag;
    uint32_t guard;
} block_header;
_Static_assert(sizeof(block_header) == 16, "keeps the caller's bytes 16-byte aligned");

typedef struct tag_row {
    _Atomic(const char *) text;
    _Atomic uint64_t live, peak;
} tag_row;

static tag_row tags[MNEM__HEAP_TAGS_MAX];
static _Atomic uint64_t total_live, total_peak, total_calls;
static _Atomic(const mnem__heap_watcher *) watcher_now;
static mnem__fail_point fail_point;
static _Thread_local mnem_status last_status;
static _Thread_local int64_t charged_here;

static void raise_peak(_Atomic uint64_t *peak, uint64_t live) {
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (seen < live && !atomic_compare_exchange_weak_explicit(
                              peak, &seen, live, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* The tag's row; the last row takes every tag that found no room. */
static uint32_t tag_index(const char *tag) {
    for (uint32_t i = 0; i < MNEM__HEAP_TAGS_MAX; i++) {
        const char *text = atomic_load_explicit(&tags[i].text, memory_order_acquire);
        if (!text && atomic_compare_exchange_strong(&tags[i].text, &text, tag)) return i;
        if (text == tag || !strcmp(text, tag)) return i;
    }
    return MNEM__HEAP_TAGS_MAX - 1;
}

static void count_add(uint32_t tag, uint64_t bytes) {
    raise_peak(&tags[tag].peak, atomic_fetch_add(&tags[tag].live, bytes) + bytes);
    raise_peak(&total_peak, atomic_fetch_add(&total_live, bytes) + bytes);
}

static void count_sub(uint32_t tag, uint64_t bytes) {
    atomic_fetch_sub(&tags[tag].live, bytes);
    atomic_fetch_sub(&total_live, bytes);
}

void mnem__heap_count_call(void) {
    atomic_fetch_add_explicit(&total_calls, 1, memory_order_relaxed);
}

bool mnem__heap_fails_now(void) {
    return mnem__fail_point_hit(&fail_point);
}

void *mnem__heap_refuse(const char *tag, uint64_t bytes) {
    last_status =
        mnem__fail(MNEM_NO_MEMORY,
                   "%s: the operating system refused %llu bytes of memory: free some, or raise "
                   "the limit of the process (ulimit -v) or container",
                   tag, (unsigned long long)bytes);
    return NULL;
}

void *mnem__heap_cancel(const char *tag) {
    last_status = mnem__fail(MNEM_CANCELLED, "%s: taking memory was stopped by the caller", tag);
    return NULL;
}

static bool watcher_charge(const char *tag, uint64_t bytes) {
    const mnem__heap_watcher *w = atomic_load_explicit(&watcher_now, memory_order_acquire);
    if (!w) return true;
    const mnem_status status = w->charge(w->context, tag, bytes);
    if (status != MNEM_OK) last_status = status; /* keeps why an earlier one failed */
    if (status == MNEM_OK) charged_here += (int64_t)bytes;
    return status == MNEM_OK;
}

static void watcher_release(const char *tag, uint64_t bytes) {
    const mnem__heap_watcher *w = atomic_load_explicit(&watcher_now, memory_order_acquire);
    if (!w) return;
    w->release(w->context, tag, bytes);
    charged_here -= (int64_t)bytes;
}

int64_t mnem_thread_heap_bytes(void) {
    return charged_here;
}

/* ---- memory of a block, of size bytes with its header ---- */

static void *memory_take(uint64_t size, bool zero) {
    if (size >= MAPPED_LEAST) return mnem__map(size);
    return zero ? calloc(1, size) : malloc(size);
}

static void memory_give(void *p, uint64_t size) {
    if (size >= MAPPED_LEAST)
        mnem__pages_unmap(p, size);
    else
        free(p);
}

/* NULL: refused, and what is at p stays. */
static void *memory_resize(void *p, uint64_t old, uint64_t size) {
    if (old < MAPPED_LEAST && size < MAPPED_LEAST) return realloc(p, size);
    if (old >= MAPPED_LEAST && size >= MAPPED_LEAST) return mnem__map_resize(p, old, size);
    void *q = memory_take(size, false);
    if (!q) return NULL;
    memcpy(q, p, old < size ? old : size);
    memory_give(p, old);
    return q;
}

/* ---- blocks ---- */

static void *block_take(const char *tag, size_t n, bool zero) {
    mnem__heap_count_call();
    uint64_t size;
    if (!mnem__add_u64(n, sizeof(block_header), &size) || size > PTRDIFF_MAX ||
        mnem__heap_fails_now())
        return mnem__heap_refuse(tag, n);
    uint32_t row = tag_index(tag);
    const char *text = atomic_load(&tags[row].text); /* the tag's, or of the one that it shares */
    if (!watcher_charge(text, n)) return NULL;
    block_header *h = memory_take(size, zero);
    if (!h) {
        watcher_release(text, n);
        return mnem__heap_refuse(tag, n);
    }
    *h = (block_header){.bytes = n, .tag = row, .guard = GUARD_LIVE};
    count_add(row, n);
    return h + 1;
}

void *mnem__alloc(const char *tag, size_t n) {
    return block_take(tag, n, false);
}

void *mnem__calloc(const char *tag, size_t count, size_t size) {
    uint64_t n;
    if (!mnem__mul_u64(count, size, &n)) return mnem__heap_refuse(tag, UINT64_MAX);
    return block_take(tag, n, true);
}

/* The header of a live block. A pointer that isn't one, or was freed, is our own bug. */
static block_header *header_of(void *p) {
    block_header *h = (block_header *)p - 1;
    if (h->guard != GUARD_LIVE) __builtin_trap();
    return h;
}

void *mnem__realloc(const char *tag, void *p, size_t n) {
    if (!p) return mnem__alloc(tag, n);
    mnem__heap_count_call();
    block_header *h = header_of(p);
    uint64_t old = h->bytes, size;
    const char *own = atomic_load(&tags[h->tag].text);
    if (!mnem__add_u64(n, sizeof *h, &size) || size > PTRDIFF_MAX || mnem__heap_fails_now())
        return mnem__heap_refuse(own, n);
    if (n > old && !watcher_charge(own, n - old)) return NULL;
    h = memory_resize(h, old + sizeof *h, size);
    if (!h) {
        if (n > old) watcher_release(own, n - old);
        return mnem__heap_refuse(own, n);
    }
    h->bytes = n;
    if (n > old) {
        count_add(h->tag, n - old);
    } else {
        count_sub(h->tag, old - n);
        watcher_release(own, old - n);
    }
    return h + 1;
}

void mnem__free(void *p) {
    if (!p) return;
    mnem__heap_count_call();
    block_header *h = header_of(p);
    count_sub(h->tag, h->bytes);
    watcher_release(atomic_load(&tags[h->tag].text), h->bytes);
    h->guard = 0;
    memory_give(h, h->bytes + sizeof *h);
}

char *mnem__strndup(const char *tag, const char *text, size_t n) {
    char *copy = mnem__alloc(tag, n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

mnem_status mnem__heap_status(void) {
    return last_status;
}

bool mnem__heap_tag_get(unsigned index, mnem__heap_tag *out) {
    if (index >= MNEM__HEAP_TAGS_MAX || !atomic_load(&tags[index].text)) return false;
    *out = (mnem__heap_tag){.tag = atomic_load(&tags[index].text),
                            .bytes_live = atomic_load(&tags[index].live),
                            .bytes_peak = atomic_load(&tags[index].peak)};
    return true;
}

void mnem_heap_usage_get(mnem_heap_usage *usage) {
    *usage = (mnem_heap_usage){.bytes_live = atomic_load(&total_live),
                               .bytes_peak = atomic_load(&total_peak),
                               .calls = atomic_load(&total_calls)};
}

void mnem__heap_watch(const mnem__heap_watcher *watcher) {
    atomic_store_explicit(&watcher_now, watcher, memory_order_release);
}

void mnem__heap_fail_at(uint64_t n, bool sticky) {
    mnem__fail_point_set(&fail_point, n, sticky);
}

/* Freed blocks go back to the machine: large ones at once, the top of the heap in small steps; and
 * threads don't open heaps of their own. */
void mnem__heap_settle(void) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    mallopt(M_TOP_PAD, 64 * 1024);
}
