/* pool_lock.c: waits for the pool's lock.
 *
 * Cost: a pause of `level` (1 to PAUSES_MOST, 2 us at most) before each try, doubled each time;
 * then, or at once if the level is higher, the thread waits for the seat; in the seat it tries
 * every SLEEP_NS. So only one timer runs, however many threads wait. */
#include "alloc/pool/pool_lock.h"

#include <time.h>

#include "base/thread.h"

enum { PAUSES_MOST = 64, LEVEL_MOST = 1024, SLEEP_NS = 100000, CROWD = 4 };

_Thread_local char mnem__pool_thread;

static bool take_now(mnem__pool_lock *lock) {
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

/* Returns the level of the successful try; 0: none. */
static uint32_t spin(mnem__pool_lock *lock, uint32_t level) {
    for (; level <= PAUSES_MOST; level *= 2) {
        for (uint32_t i = 0; i < level; i++) mnem__spin_pause();
        if (take_now(lock)) return level;
    }
    return 0;
}

/* The same; never 0. */
static uint32_t sit(mnem__pool_lock *lock, uint32_t level) {
    pthread_mutex_lock(lock->seat);
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    while (!take_now(lock)) {
        if (level < LEVEL_MOST) level *= 2;
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
    pthread_mutex_unlock(lock->seat);
    return level;
}

bool mnem__pool_lock_wait(mnem__pool_lock *lock) {
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == mnem__pool_self()) return false;
    const uint32_t first = atomic_load_explicit(&lock->level, memory_order_relaxed) | 1;
    uint32_t level = spin(lock, first);
    if (!level) level = sit(lock, first > PAUSES_MOST ? first : 2 * PAUSES_MOST);
    atomic_store_explicit(&lock->level, level == first ? first / 2 : level, memory_order_relaxed);
    if (!(++lock->waits % CROWD) && !lock->caches) mnem__pool_crowd(lock->pool);
    return true;
}

mnem_status mnem__pool_busy(void) {
    return mnem__fail(MNEM_BUSY, "pool: a function of the pool was called from one of the pool's "
                                 "own callbacks; call it after the callback has returned");
}
