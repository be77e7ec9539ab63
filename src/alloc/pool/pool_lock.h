/* pool_lock.h: the pool's lock: one exchange to take, one store to give.
 *
 * The idea: operations are shorter than the way of a line from one processor to another, so what
 * many threads may cost is the changes of the owner. A thread that finds the lock taken stays away,
 * the longer the more often threads found it taken (`level`: it doubles with every look in vain and
 * halves when the first one was enough). Alone or nearly, that is a few pauses; when threads do
 * nothing but call the pool, the owner goes on for thousands of operations, with its lines in its
 * cache, while one thread sleeps between looks and the others wait for its seat. Nobody is woken
 * by the owner: giving the lock back never enters the kernel, and an owner that lost its processor
 * costs nobody more than a look. The price is fairness in the small. The owner is known, so that a
 * callback which calls the pool it came from is refused instead of waiting for itself.
 *
 * A pool that threads found taken too often gets thread caches (pool_thread_cache.h), with which
 * most calls don't come here. Who takes the lock closes them, so that it sees all of the pool, but
 * for the short calls. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_LOCK_H
#define MNEM_SRC_ALLOC_POOL_POOL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct mnem_pool;
typedef struct mnem__thread_caches mnem__thread_caches;

/* Zero, a seat and a pool to start. */
typedef struct mnem__pool_lock {
    _Atomic uint32_t held;
    _Atomic uint32_t level;      /* how long a thread that finds it taken stays away */
    _Atomic uintptr_t owner;     /* a thread's address of its own; meaningful to that thread only */
    uint32_t waits;              /* how often a thread found it taken */
    pthread_mutex_t *seat;       /* of the thread that looks while others wait; not in this line */
    mnem__thread_caches *caches; /* NULL: none yet */
    struct mnem_pool *pool;
} mnem__pool_lock;

extern _Thread_local char mnem__pool_thread;

static inline uintptr_t mnem__pool_self(void) {
    return (uintptr_t)&mnem__pool_thread;
}

/* ---- pool_thread_cache.c, with the lock held ---- */

/* Empties the caches and keeps threads out of them until they open. They stay closed for so many
 * calls under the lock. */
void mnem__thread_caches_close(mnem__thread_caches *caches, uint32_t pause);
void mnem__thread_caches_open(mnem__thread_caches *caches);
/* The pool gets thread caches, if there is memory for them. */
void mnem__pool_crowd(struct mnem_pool *pool);

/* ---- the lock ---- */

/* What a call says that found the lock held by its own thread: MNEM_BUSY. */
mnem_status mnem__pool_busy(void);

/* false when this thread holds it already. */
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

/* Of a pool that is known to have no thread caches. */
static inline void mnem__pool_lock_give_alone(mnem__pool_lock *lock) {
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

static inline void mnem__pool_lock_give(mnem__pool_lock *lock) {
    if (__builtin_expect(lock->caches != NULL, 0)) mnem__thread_caches_open(lock->caches);
    mnem__pool_lock_give_alone(lock);
}

#endif
