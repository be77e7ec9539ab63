/* thread.h: a thread whose stack was planned: touched at the start, with a guard page below. */
#ifndef MNEM_SRC_BASE_THREAD_H
#define MNEM_SRC_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"

typedef struct mnem__thread {
    pthread_t id;
    void *map; /* guard page, then the stack; NULL: not started */
    size_t map_bytes;
    void (*function)(void *);
    void *context;
} mnem__thread;

/* Starts function(context) with every signal blocked. thread must stay where it is until joined.
 * stack_bytes (whole pages) are resident afterwards. MNEM_NO_MEMORY; thread->map is NULL then. */
mnem_status mnem__thread_start(mnem__thread *thread, size_t stack_bytes, void (*function)(void *),
                               void *context);
/* Waits for its end and gives the stack back. A thread that wasn't started is fine. */
void mnem__thread_join(mnem__thread *thread);

/* Seconds that a thread has been on a processor; the clock of this thread, or of a started one. */
double mnem__thread_used(clockid_t clock);
clockid_t mnem__thread_clock(const mnem__thread *thread);

/* Processors that this process may use, at least 1. */
int mnem__processors(void);

/* A counter that threads wait for. Zero to start. */
typedef struct mnem__turnstile {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} mnem__turnstile;
/* Waits until the value isn't old any more: spins so often, then sleeps. Acquires. */
void mnem__turnstile_wait(mnem__turnstile *turnstile, uint32_t old, int spins);
/* Its first half: returns how often it has spun, spins if the value is still old. */
int mnem__turnstile_spin(const mnem__turnstile *turnstile, uint32_t old, int spins);
/* Sets the value and wakes all who sleep. Releases. */
void mnem__turnstile_move(mnem__turnstile *turnstile, uint32_t value);

static inline void mnem__spin_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#endif
