/* pool_lock.c: waiting for the pool's lock.
 *
 * The pauses double from one to SPIN_MOST, about 20 us in all; after that the owner isn't running,
 * and the processor is left to it. */
#include "alloc/pool_lock.h"

#include <time.h>

#include "base/thread.h"

enum { SPIN_MOST = 256, SLEEP_NS = 50000 };

_Thread_local char mnem__pool_thread;

static bool take_now(mnem__pool_lock *lock) {
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

bool mnem__pool_lock_wait(mnem__pool_lock *lock) {
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == mnem__pool_self()) return false;
    for (int pauses = 1; pauses <= SPIN_MOST; pauses *= 2) {
        for (int i = 0; i < pauses; i++) mnem__spin_pause();
        if (take_now(lock)) return true;
    }
    while (!take_now(lock)) nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return true;
}
