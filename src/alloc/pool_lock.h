/* pool_lock.h: the pool's lock: one exchange to take, one store to give.
 *
 * The idea: operations are shorter than a wake-up, so a thread that finds the lock taken looks
 * again after a pause that doubles, and sleeps only when the owner seems to have lost its
 * processor (more threads than processors). Nobody is woken: giving the lock back never enters the
 * kernel. The first pause adapts: it grows while threads find the lock taken again, and shrinks
 * when one look was enough. So under contention the thread that has the lines in its cache goes on
 * for long while others stay away, which keeps the throughput of many threads at that of one;
 * without, a collision costs a few pauses. The price is fairness in the small. The owner is known,
 * so that a callback which calls the pool it came from is refused instead of waiting for itself. */
#ifndef MNEM_SRC_ALLOC_POOL_LOCK_H
#define MNEM_SRC_ALLOC_POOL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mnem__pool_lock {
    _Atomic uint32_t held;
    _Atomic uintptr_t owner; /* a thread's address of its own; meaningful to that thread only */
    _Atomic uint32_t pauses; /* how long a thread that finds it taken stays away, at first */
} mnem__pool_lock;

extern _Thread_local char mnem__pool_thread;

static inline uintptr_t mnem__pool_self(void) {
    return (uintptr_t)&mnem__pool_thread;
}

/* false when this thread holds it already. */
bool mnem__pool_lock_wait(mnem__pool_lock *lock);

static inline bool mnem__pool_lock_take(mnem__pool_lock *lock) {
    if (__builtin_expect(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0, 0) &&
        !mnem__pool_lock_wait(lock))
        return false;
    atomic_store_explicit(&lock->owner, mnem__pool_self(), memory_order_relaxed);
    return true;
}

static inline void mnem__pool_lock_give(mnem__pool_lock *lock) {
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
