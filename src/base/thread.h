/* thread.h: a thread with a planned stack: touched at the start, with a guard page below. */
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

/* Starts function(context) with every signal blocked. thread must not move until it is joined.
 * stack_bytes (whole pages) are resident afterwards. MNEM_NO_MEMORY: thread->map is NULL. */
mnem_status mnem__thread_start(mnem__thread *thread, size_t stack_bytes, void (*function)(void *),
                               void *context);
/* Waits for its end and frees the stack. Accepts a thread that wasn't started. */
void mnem__thread_join(mnem__thread *thread);

/* The processor seconds of a thread by its clock; the clock of a started thread. */
double mnem__thread_used(clockid_t clock);
clockid_t mnem__thread_clock(const mnem__thread *thread);

/* The number of processors that this process may use, at least 1. */
int mnem__processors(void);

/* A counter that threads wait for. Zero at the start. */
typedef struct mnem__turnstile {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} mnem__turnstile;
/* Waits until the value differs from old: spins this many times, then sleeps. Acquires. */
void mnem__turnstile_wait(mnem__turnstile *turnstile, uint32_t old, int spins);
/* Only spins: returns the number of spins; `spins`: the value is still old. */
int mnem__turnstile_spin(const mnem__turnstile *turnstile, uint32_t old, int spins);
/* Sets the value and wakes all sleepers. Releases. */
void mnem__turnstile_move(mnem__turnstile *turnstile, uint32_t value);

static inline void mnem__spin_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#endif
