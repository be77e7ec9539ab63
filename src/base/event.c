/* event.c: the way of an event: the thread's slot, a second look at the sink, 24 bytes.
 *
 * Slots are static, so that a thread may touch its own whatever became of the sink. The first is
 * shared, under a lock, by threads that got none.
 *
 *     thread     busy = 1   sink still there?   write, next++   busy = 0
 *     stopper    sink = NULL   membarrier   wait until no slot is busy
 *
 * membarrier puts a full fence into every running thread, so one store before a load needs none of
 * its own. Where the kernel has none, the stopper sleeps far longer than a store is on its way. */
#include "base/event.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#if defined __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

_Atomic(mnem__event_sink *) mnem__event_sink_now;

static mnem__event_slot slots[MNEM__EVENT_SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_there;
static uint32_t generations;
static _Atomic uint32_t owners;
_Thread_local mnem__event_slot *mnem__event_mine;
static _Thread_local bool slotless; /* it asked and got none: it shares the first one */

uint32_t mnem__event_owner(void) {
    return atomic_fetch_add_explicit(&owners, 1, memory_order_relaxed) + 1;
}

/* ---- time ---- */

#if defined __x86_64__
/* Bit 8 of leaf 0x80000007: the counter runs at one rate on every processor, whatever its clock. */
static bool counter_is_steady(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}
static inline void fence(void) {
    _mm_lfence();
}
#else
static bool counter_is_steady(void) {
    return false;
}
static inline void fence(void) {}
#endif

static inline uint64_t ticks(const mnem__event_sink *sink) {
    return __builtin_expect(sink->clocked, 0) ? mnem__nanoseconds() : mnem__event_counter();
}

uint64_t mnem__event_ticks(const mnem__event_sink *sink) {
    return ticks(sink) - sink->start;
}

/* ---- slots ---- */

static void enter(mnem__event_slot *slot) {
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the stopper's membarrier does the rest */
}

static void depart(mnem__event_slot *slot) {
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

static void thread_ends(void *p) {
    mnem__event_slot *slot = p;
    enter(slot);
    mnem__event_sink *sink = atomic_load(&mnem__event_sink_now);
    if (sink && slot->generation == sink->generation) sink->leave(sink, slot);
    depart(slot);
    mnem__event_mine = NULL;
    pthread_mutex_lock(&slots_lock);
    slot->taken = false;
    pthread_mutex_unlock(&slots_lock);
}

static void key_make(void) {
    key_there = pthread_key_create(&key, thread_ends) == 0;
}

/* A slot of this thread's own; NULL: there is none. */
static mnem__event_slot *slot_take(void) {
    pthread_once(&key_once, key_make);
    mnem__event_slot *slot = NULL;
    pthread_mutex_lock(&slots_lock);
    for (unsigned i = 1; i < MNEM__EVENT_SLOTS && key_there && !slot; i++)
        if (!slots[i].taken) slot = &slots[i];
    if (slot) {
        slot->taken = true;
        /* Its generation stays: a sink that ends may be about to put its events away. */
        slot->shares = 0;
        slot->dropped = 0;
    }
    pthread_mutex_unlock(&slots_lock);
    if (slot && pthread_setspecific(key, slot) != 0) slot = NULL; /* stays taken: it has no end */
    fence(); /* whoever had it before told of nothing later */
    return slot;
}

/* ---- telling ---- */

/* A thread without a slot of its own has the shared one from here to the end of its put. */
mnem__event_sink *mnem__event_enter_slowly(void) {
    if (!slotless) mnem__event_mine = slot_take();
    slotless = !mnem__event_mine;
    mnem__event_slot *slot = slotless ? &slots[0] : mnem__event_mine;
    if (slotless) pthread_mutex_lock(&shared_lock);
    enter(slot);
    mnem__event_sink *sink = atomic_load_explicit(&mnem__event_sink_now, memory_order_acquire);
    if (sink) return sink;
    depart(slot);
    if (slotless) pthread_mutex_unlock(&shared_lock);
    return NULL;
}

/* Instead of a put. */
static void leave(void) {
    depart(slotless ? &slots[0] : mnem__event_mine);
    if (slotless) pthread_mutex_unlock(&shared_lock);
}

/* A thread that the sink had no room for shares the first slot to the end, also when another gives
 * its own back: so what it begins and ends is told of one thread. */
static void put_elsewhere(mnem__event_sink *sink, mnem__event_slot *slot,
                          const mnem__event *event) {
    if (slot->shares != sink->generation && sink->room(sink, slot)) {
        *slot->next++ = *event;
        return;
    }
    if (slot == &slots[0]) return;
    slot->shares = sink->generation;
    mnem__event_slot *first = &slots[0];
    pthread_mutex_lock(&shared_lock);
    fence();
    mnem__event late = *event; /* of this turn: the buffer's times only grow */
    late.when = (ticks(sink) - sink->start) << 8 | (event->when & 0xff);
    const bool full = first->generation != sink->generation || first->next == first->end;
    if (!full || sink->room(sink, first)) *first->next++ = late;
    pthread_mutex_unlock(&shared_lock);
}

void mnem__event_put_slowly(mnem__event_sink *sink, mnem__event_what what, uint32_t name,
                            uint32_t small, uint64_t value) {
    mnem__event_slot *slot = mnem__event_mine ? mnem__event_mine : &slots[0];
    const uint64_t when = (ticks(sink) - sink->start) << 8 | what;
    const mnem__event event = {.when = when, .name = name, .small = small, .value = value};
    if (name == MNEM__NAME_NONE)
        atomic_fetch_add_explicit(&sink->nameless, 1, memory_order_relaxed);
    else if (slot->generation == sink->generation && slot->next < slot->end)
        *slot->next++ = event;
    else
        put_elsewhere(sink, slot, &event);
    depart(slot);
    if (slot == &slots[0]) pthread_mutex_unlock(&shared_lock);
}

/* Whether this thread told all of it. Who comes second says so before it reads its counter, and the
 * first sees that behind the lock (or whatever else) that brought it here. Threads that share the
 * first slot look like one. */
static bool told_alone(mnem__event_tellers *tellers) {
    enum { MANY = 1 };
    const uintptr_t me = mnem__event_mine ? (uintptr_t)mnem__event_mine : MANY;
    uintptr_t told = atomic_load_explicit(tellers, memory_order_relaxed);
    if (told == MANY) return false;
    if (told == me || (!told && atomic_compare_exchange_strong(tellers, &told, me)))
        return me != MANY;
    atomic_store_explicit(tellers, MANY, memory_order_relaxed);
    return false;
}

/* A counter may be read before what stands before it, such as taking a lock, is done: hence the
 * fence. Of one thread its counter's own order is enough. */
void mnem__event_order(mnem__event_tellers *tellers) {
    if (!told_alone(tellers)) fence();
}

/* Two threads may both ask: they get the same name. */
uint32_t mnem__event_name(mnem__event_sink *sink, uint32_t owner, uint32_t number,
                          const mnem__event_key *wanted) {
    const uint32_t name = sink->name(sink, wanted);
    const uint64_t who = (uint64_t)(owner & 0xffffff) << 20 | (number & 0xfffff);
    const uint64_t at = (who * UINT64_C(0x9E3779B97F4A7C15)) >> 52;
    atomic_store_explicit(&sink->known[at], who << 20 | name, memory_order_relaxed);
    return name;
}

void mnem__event_say(mnem__event_what what, uint32_t owner, uint32_t number, uint32_t small,
                     const char *text, const char *more, uint64_t value) {
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    const uint32_t known = mnem__event_name_known(sink, owner, number);
    const mnem__event_key named = {.sort = MNEM__NAME_PLAIN, .text = text, .more = more};
    mnem__event_put(sink, what, known ? known : mnem__event_name(sink, owner, number, &named),
                    small, value);
}

/* A counter whose name has a number of its own; leaves the sink. */
static void tell_fixed(mnem__event_sink *sink, uint32_t number, const char *text, uint64_t value) {
    const mnem__event_key named = {.sort = MNEM__NAME_PLAIN, .text = text};
    const uint32_t known = mnem__event_name_known(sink, MNEM__OWNER_FIXED, number);
    const uint32_t name = known ? known : mnem__event_name(sink, MNEM__OWNER_FIXED, number, &named);
    mnem__event_put(sink, MNEM__EVENT_COUNTER, name, 0, value);
}

/* ---- programs ---- */

/* Who has no buffer of its own remembers none. */
int mnem__event_program_begin(mnem__event_program *p) {
    mnem__event_sink *sink = mnem__event_enter();
    mnem__event_slot *slot = mnem__event_mine;
    if (!sink) return -1;
    if (!slot || p->to >= 1 << MNEM__AGAIN_PLACE) {
        leave();
        return -1;
    }
    slot->newest = (slot->newest + 1) % MNEM__PROGRAMS;
    slot->program[slot->newest].number = 0;
    mnem__event_put(sink, MNEM__EVENT_PROGRAM, slot->newest, (uint32_t)p->to, (uint64_t)p->from);
    p->losses = slot->losses;
    return (int)slot->newest;
}

void mnem__event_program_end(int which, const mnem__event_program *p) {
    if (which >= 0) mnem__event_mine->program[which] = *p;
}

/* 200 ticks an operator (80 ns: twice what a loop of them takes) and 1000 a run are to be a 400th
 * of all. */
void mnem__event_program_again(int which, uint64_t ticks, int32_t operators) {
    enum { TICKS_RUN = 1000, TICKS_EACH = 200, PART = 400, MOST = 64 };
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    mnem__event_program *p = &mnem__event_mine->program[which];
    const uint64_t telling = TICKS_RUN + (uint64_t)operators * TICKS_EACH;
    const uint64_t to_leave = telling * PART / (ticks ? ticks : UINT64_MAX);
    const uint32_t left = p->left;
    p->to_leave = to_leave < MOST ? (uint32_t)to_leave : MOST;
    p->left = 0;
    if (!left) {
        leave();
        return;
    }
    const uint64_t all = atomic_fetch_add_explicit(&sink->left, left, memory_order_relaxed) + left;
    tell_fixed(sink, MNEM__FIXED_LEFT, "runs without operators", all);
}

/* ---- what is resident ---- */

enum { SAMPLE_NS = 10000000 };

_Atomic uint64_t mnem__event_looked;

/* The second number of statm, in pages; 0: not known. It is open while there is a sink, since to
 * open it takes three times as long as to read it. */
static uint64_t resident_bytes(const mnem__event_sink *sink) {
    char text[128];
    char *end;
    const ssize_t n = sink->statm < 0 ? -1 : pread(sink->statm, text, sizeof text - 1, 0);
    if (n <= 0) return 0;
    text[n] = 0;
    strtoull(text, &end, 10);
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void tell_resident(void) {
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    const uint64_t bytes = resident_bytes(sink);
    if (bytes)
        tell_fixed(sink, MNEM__FIXED_RSS, "VmRSS", bytes);
    else
        leave();
}

static struct {
    pthread_mutex_t lock;
    mnem__event_sampler *tell;
    void *context;
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mnem__event_sampler_set(mnem__event_sampler *tell, void *context) {
    pthread_mutex_lock(&sampler.lock);
    sampler.tell = tell;
    sampler.context = context;
    pthread_mutex_unlock(&sampler.lock);
}

static void sampler_tell(void) {
    pthread_mutex_lock(&sampler.lock);
    if (sampler.tell) sampler.tell(sampler.context, false);
    pthread_mutex_unlock(&sampler.lock);
}

static void sampler_end(const void *context, bool told) {
    pthread_mutex_lock(&sampler.lock);
    if (sampler.tell && sampler.context == context) {
        if (told) sampler.tell(sampler.context, true);
        sampler.tell = NULL;
    }
    pthread_mutex_unlock(&sampler.lock);
}

void mnem__event_sampler_last(const void *context) {
    sampler_end(context, true);
}

void mnem__event_sampler_forget(const void *context) {
    sampler_end(context, false);
}

void mnem__event_sample(void) {
    static _Atomic uint64_t last;
    if (!mnem__event_told()) return;
    const uint64_t counter = mnem__event_counter();
    if (!mnem__event_sample_due(counter)) return;
    atomic_store_explicit(&mnem__event_looked, counter, memory_order_relaxed);
    const uint64_t now = mnem__nanoseconds();
    uint64_t then = atomic_load_explicit(&last, memory_order_relaxed);
    if (now - then < SAMPLE_NS || !atomic_compare_exchange_strong(&last, &then, now)) return;
    sampler_tell();
    tell_resident();
}

/* ---- begin, end ---- */

bool mnem__event_start(mnem__event_sink *sink) {
    mnem__event_sink *none = NULL;
    pthread_mutex_lock(&slots_lock);
    if (++generations == 0) generations = 1;
    sink->generation = generations;
    pthread_mutex_unlock(&slots_lock);
    sink->clocked = !counter_is_steady();
    sink->start = ticks(sink);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    sink->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (atomic_compare_exchange_strong(&mnem__event_sink_now, &none, sink)) return true;
    if (sink->statm >= 0) close(sink->statm);
    return false;
}

static void await_all(void) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    for (unsigned i = 0; i < MNEM__EVENT_SLOTS; i++)
        while (atomic_load_explicit(&slots[i].busy, memory_order_acquire)) sched_yield();
}

void mnem__event_stop(mnem__event_sink *sink) {
    if (atomic_load(&mnem__event_sink_now) != sink) return;
    atomic_store(&mnem__event_sink_now, NULL);
    await_all();
    for (unsigned i = 0; i < MNEM__EVENT_SLOTS; i++)
        if (slots[i].generation == sink->generation) sink->leave(sink, &slots[i]);
    if (sink->statm >= 0) close(sink->statm);
}
