/* pool_lock.h: the pool's lock: one exchange to take, one store to give.
 *
 * Operations are shorter than the transfer of a cache line between processors, so the cost of
 * many threads is the changes of the owner. A thread that finds the lock taken backs off, for
 * longer the more often the lock was taken (`level` doubles with every failed attempt and halves
 * when the first one succeeds). With few threads that is a few pauses. When threads do nothing
 * but call the pool, the owner runs for thousands of operations with its lines in its cache,
 * while one thread sleeps between attempts and the others wait for that thread's seat. The owner
 * wakes nobody: releasing the lock never enters the kernel, and an owner that lost its processor
 * costs the others no more than an attempt. In return the lock isn't fair over short times. The
 * owner is recorded, so that a callback that calls its own pool is refused instead of waiting
 * for itself.
 *
 * A pool with too much contention gets thread caches (pool_thread_cache.h), which serve most
 * calls without the lock. Taking the lock closes them, so that its holder sees the whole pool,
 * except in short calls. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_LOCK_H
#define MNEM_SRC_ALLOC_POOL_POOL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct mnem_pool;
typedef struct mnem__thread_caches mnem__thread_caches;

/* Start with zeros, a seat and a pool. */
typedef struct mnem__pool_lock {
    _Atomic uint32_t held;
    _Atomic uint32_t level; /* how long a thread backs off */
    _Atomic uintptr_t
        owner;             /* the address of a thread-local object; only that thread compares it */
    uint32_t waits;        /* the number of times that a thread found it taken */
    pthread_mutex_t *seat; /* held by the thread that tries while others wait; in another line */
    mnem__thread_caches *caches; /* NULL: none yet */
    struct mnem_pool *pool;
} mnem__pool_lock;

extern _Thread_local char mnem__pool_thread;

static inline uintptr_t mnem__pool_self(void) {
    return (uintptr_t)&mnem__pool_thread;
}

/* ---- pool_thread_cache.c, with the lock held ---- */

/* Empties the caches and closes them to threads, for `pause` calls under the lock. */
void mnem__thread_caches_close(mnem__thread_caches *caches, uint32_t pause);
void mnem__thread_caches_open(mnem__thread_caches *caches);
/* Gives the pool thread caches, if there is memory for them. */
void mnem__pool_crowd(struct mnem_pool *pool);

/* ---- the lock ---- */

/* The error of a call whose own thread holds the lock: MNEM_BUSY. */
mnem_status mnem__pool_busy(void);

/* false: this thread holds it already. */
bool mnem__pool_lock_wait(mnem__pool_lock *lock);

/* For an allocation or a free, which needs the allocator and leaves the thread caches open. */
static inline bool mnem__pool_lock_take_short(mnem__pool_lock *lock) {
    if (__builtin_expect(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0, 0) &&
        !mnem__pool_lock_wait(lock))
        return false;
    atomic_store_explicit(&lock->owner, mnem__pool_self(), memory_order_relaxed);
    return true;
}

static inline bool mnem__pool_lock_take(mnem__pool_lock *lock) {
    if (!mnem__pool_lock_take_short(lock)) return false;
    if (lock->caches) mnem__thread_caches_close(lock->caches, 0);
    return true;
}

/* For a pool that is known to have no thread caches. */
static inline void mnem__pool_lock_give_alone(mnem__pool_lock *lock) {
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

static inline void mnem__pool_lock_give(mnem__pool_lock *lock) {
    if (__builtin_expect(lock->caches != NULL, 0)) mnem__thread_caches_open(lock->caches);
    mnem__pool_lock_give_alone(lock);
}

#endif
