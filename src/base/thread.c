/* thread.c: threads on stacks of ours.
 *
 * The idea: a stack that the C library makes grows page by page when a deep call comes, which no
 * plan foresees. Ours is mapped and touched first, behind a guard page that ends a runaway.
 * Invariant: signals go to the caller's threads, never to these. */
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/pages.h"

enum { STACK_MORE = 2 << 20 };

static void *thread_main(void *argument) {
    mnem__thread *thread = argument;
    thread->function(thread->context);
    return NULL;
}

/* The stack's map: guard page below, the rest touched. NULL when the machine refuses. */
static char *stack_map(size_t map_bytes, size_t guard) {
    char *map = mnem__pages_map(map_bytes, false);
    if (!map) return NULL;
    if (!mprotect(map, guard, PROT_NONE) && mnem__pages_touch(map + guard, map_bytes - guard))
        return map;
    mnem__pages_unmap(map, map_bytes);
    return NULL;
}

/* pthread_create with every signal blocked in the new thread. */
static int create_quiet(mnem__thread *thread, const pthread_attr_t *attributes) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread->id, attributes, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* A stack of so many bytes, and the thread on it: 0, or an errno. */
static int start_on(mnem__thread *thread, size_t stack_bytes) {
    size_t guard = mnem__page_size();
    size_t map_bytes = mnem__align_up(stack_bytes, guard) + guard;
    char *map = stack_map(map_bytes, guard);
    if (!map) return ENOMEM;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, map + guard, map_bytes - guard);
    int error = create_quiet(thread, &attributes);
    pthread_attr_destroy(&attributes);
    if (error) {
        mnem__pages_unmap(map, map_bytes);
        return error;
    }
    thread->map = map;
    thread->map_bytes = map_bytes;
    return 0;
}

/* The C library puts the program's thread variables on the stack. Where they don't fit (a program
 * with megabytes of them, a sanitizer), the stack grows beyond what was planned, for good. */
mnem_status mnem__thread_start(mnem__thread *thread, size_t stack_bytes, void (*function)(void *),
                               void *context) {
    static atomic_size_t more;
    *thread = (mnem__thread){.function = function, .context = context};
    int error = start_on(thread, stack_bytes + atomic_load(&more));
    if (error == EINVAL) {
        atomic_store(&more, STACK_MORE);
        error = start_on(thread, stack_bytes + STACK_MORE);
    }
    if (!error) return MNEM_OK;
    return mnem__fail(MNEM_NO_MEMORY,
                      "thread: a thread with a stack of %zu bytes can't be started (%s)",
                      stack_bytes, strerrordesc_np(error));
}

void mnem__thread_join(mnem__thread *thread) {
    if (!thread->map) return;
    pthread_join(thread->id, NULL);
    mnem__pages_unmap(thread->map, thread->map_bytes);
    thread->map = NULL;
}

double mnem__thread_used(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

clockid_t mnem__thread_clock(const mnem__thread *thread) {
    clockid_t clock;
    return pthread_getcpuclockid(thread->id, &clock) ? CLOCK_THREAD_CPUTIME_ID : clock;
}

int mnem__processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

int mnem__turnstile_spin(const mnem__turnstile *turnstile, uint32_t old, int spins) {
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(&turnstile->value, memory_order_acquire) != old) return i;
        mnem__spin_pause();
    }
    return spins;
}

void mnem__turnstile_wait(mnem__turnstile *turnstile, uint32_t old, int spins) {
    if (mnem__turnstile_spin(turnstile, old, spins) < spins) return;
    atomic_fetch_add(&turnstile->sleepers, 1);
    while (atomic_load(&turnstile->value) == old) futex(&turnstile->value, FUTEX_WAIT_PRIVATE, old);
    atomic_fetch_sub(&turnstile->sleepers, 1);
}

/* Sequentially consistent, as is the sleeper's side: either it sees the new value or we see it. */
void mnem__turnstile_move(mnem__turnstile *turnstile, uint32_t value) {
    atomic_store(&turnstile->value, value);
    if (atomic_load(&turnstile->sleepers)) futex(&turnstile->value, FUTEX_WAKE_PRIVATE, INT_MAX);
}
