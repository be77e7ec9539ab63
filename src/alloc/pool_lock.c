/* pool_lock.c: waiting for the pool's lock.
 *
 * Cost: 1 to PAUSES_MOST pauses (some 2 us) before the second look; after one more as long the
 * thread sleeps, at most 0.4 ms at a time, which leaves the processor, or what its neighbour shares
 * of it, to the owner. */
#include "alloc/pool_lock.h"

#include <time.h>

#include "base/thread.h"

enum { PAUSES_MOST = 64, SLEEP_NS = 50000, SLEEP_MOST_NS = 400000 };

_Thread_local char mnem__pool_thread;

static bool take_now(mnem__pool_lock *lock) {
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static void pause_for(uint32_t pauses) {
    for (uint32_t i = 0; i < pauses; i++) mnem__spin_pause();
}

bool mnem__pool_lock_wait(mnem__pool_lock *lock) {
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == mnem__pool_self()) return false;
    const uint32_t first = atomic_load_explicit(&lock->pauses, memory_order_relaxed) + 1;
    pause_for(first);
    if (take_now(lock)) {
        atomic_store_explicit(&lock->pauses, first / 2, memory_order_relaxed);
        return true;
    }
    const uint32_t next = 2 * first < PAUSES_MOST ? 2 * first : PAUSES_MOST;
    atomic_store_explicit(&lock->pauses, next, memory_order_relaxed);
    for (uint32_t pauses = next; pauses <= PAUSES_MOST; pauses *= 2) {
        pause_for(pauses);
        if (take_now(lock)) return true;
    }
    for (long ns = SLEEP_NS; !take_now(lock); ns = 2 * ns < SLEEP_MOST_NS ? 2 * ns : SLEEP_MOST_NS)
        nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    return true;
}
