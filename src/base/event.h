/* event.h: the events of all layers, which a trace (the sink) records.
 *
 * The interface is in base, so that the emitting layers don't depend on the trace. Without a
 * sink an event costs one load. With a sink, 24 bytes are written to a buffer of the thread; the
 * sink stores it when it is full.
 *
 *     mnem__event_sink *sink = mnem__event_enter();
 *     if (sink) mnem__event_put(sink, MNEM__EVENT_COUNTER, name_of(sink), 0, value);
 *
 * The usual case is inline: a call takes a tenth of an event's time, and a pool would make four.
 *
 * A sink may be removed while other threads emit (mnem__event_stop): an emitting thread marks
 * itself busy before it reads the sink for the second time; the stopping thread removes the
 * sink, makes that visible to every processor (membarrier), and waits for busy threads. */
#ifndef MNEM_SRC_BASE_EVENT_H
#define MNEM_SRC_BASE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of events, and the meaning of name, small and value. */
typedef enum mnem__event_what {
    MNEM__EVENT_LIVE,    /* of an account; small: its ledger; value: its live bytes afterwards */
    MNEM__EVENT_REFUSE,  /* of an account; small: the class; value: the requested bytes */
    MNEM__EVENT_ALLOC,   /* of a site; small: bytes, low half; value: stream 8 bits, address 56 */
    MNEM__EVENT_FREE,    /* the same */
    MNEM__EVENT_LARGE,   /* small: the upper half of the bytes of this thread's next ALLOC, FREE */
    MNEM__EVENT_BEGIN,   /* small: the sort of span; value: bytes, 0: none */
    MNEM__EVENT_END,     /* the same; value of an operator: its multiply-adds */
    MNEM__EVENT_MARK,    /* an instant; small: its sort; value: a number */
    MNEM__EVENT_COUNTER, /* value */
    MNEM__EVENT_REQUEST, /* small: the phase; value: the request's number */
    MNEM__EVENT_DROPPED, /* value: the number of this thread's events that were lost */
    /* Ends the thread's current operator, if any, and begins the named one: one event per
     * operator of a program. Bytes and multiply-adds: mnem__event_operator. */
    MNEM__EVENT_OPERATOR,
    /* A program begins, number name of those that this thread remembers: its next operators are
     * those from value to below small. */
    MNEM__EVENT_PROGRAM,
    /* Up to four successive operators of a remembered program, with the bytes and multiply-adds
     * that were recorded then. name: the position of the first one in the program; above these
     * bits the program, then the number of operators; small, value: ticks from the first to each
     * other one. */
    MNEM__EVENT_AGAIN,
} mnem__event_what;
enum {
    MNEM__PROGRAMS = 4, /* remembered by a thread */
    MNEM__AGAIN_MOST = 4,
    MNEM__AGAIN_PLACE = 15, /* bits of a position; then two for the program, three for the count */
    MNEM__AGAIN_COUNT = 17,
};

/* Classes of refusals, sorts of spans, phases of requests: the same as in mnem/trace_read.h. */
enum {
    MNEM__REFUSED_CAPACITY,
    MNEM__REFUSED_FRAGMENTATION,
    MNEM__REFUSED_LIMIT,
    MNEM__REFUSED_SYSTEM
};
enum { MNEM__SPAN_PLAIN, MNEM__SPAN_STEP, MNEM__SPAN_OPERATOR, MNEM__SPAN_READ, MNEM__SPAN_STREAM };
enum {
    MNEM__PHASE_QUEUED,
    MNEM__PHASE_BEGUN,
    MNEM__PHASE_FIRST,
    MNEM__PHASE_ASIDE,
    MNEM__PHASE_ENDED
};

typedef struct mnem__event {
    uint64_t when; /* ticks since the sink began << 8 | what */
    uint32_t name, small;
    uint64_t value;
} mnem__event;
_Static_assert(sizeof(mnem__event) == 24, "what is kept of one");

/* What a name identifies. */
typedef enum mnem__event_sort {
    MNEM__NAME_PLAIN,   /* text */
    MNEM__NAME_ACCOUNT, /* kind and tag (text) of a ledger (owner) */
    MNEM__NAME_SITE,    /* kind, tag, file and line of a pool (owner) */
} mnem__event_sort;

typedef struct mnem__event_key {
    mnem__event_sort sort;
    uint32_t owner, kind, line;
    const char *text, *more; /* copied; more: follows text and a space; or a site's file; NULL */
} mnem__event_key;

/* The part of a program's run on which its operators' bytes and multiply-adds depend. losses: of
 * the slot when all of it was recorded. */
typedef struct mnem__event_program {
    uint32_t number, losses; /* number: mnem__event_owner; 0: none */
    int32_t from, to;
    int64_t tokens, first_row;
    uint32_t to_leave, left; /* runs to skip, and runs skipped since the last recorded one */
} mnem__event_program;

/* A thread's buffer. thread: numbered by the sink; generation: of the sink that gave it. */
typedef struct mnem__event_slot {
    _Alignas(64) _Atomic uint32_t busy;
    uint32_t generation, shares; /* shares: of a sink without room for this thread */
    mnem__event *next, *end;
    uint64_t dropped;
    uint32_t thread;
    uint32_t losses;    /* times that earlier records became invalid */
    mnem__event *again; /* the last event, if it is an AGAIN that isn't full; or NULL */
    uint32_t newest;    /* the newest of the programs */
    bool taken;
    mnem__event_program program[MNEM__PROGRAMS]; /* those recorded in full */
} mnem__event_slot;

enum { MNEM__EVENT_KNOWN = 4096, MNEM__EVENT_SLOTS = 64, MNEM__NAME_NONE = 0xfffff };

typedef struct mnem__event_sink mnem__event_sink;
struct mnem__event_sink {
    uint64_t start; /* in ticks */
    uint32_t generation;
    bool clocked; /* ticks are nanoseconds: this processor's counter is unreliable */
    int statm;    /* gives the resident bytes */
    /* Stores a slot's events and gives room for more (and counts a loss for a new slot or lost
     * events); false: no slot for this thread, it shares the first one. May be called under any
     * lock: takes no other lock, and no heap. */
    bool (*room)(mnem__event_sink *sink, mnem__event_slot *slot);
    void (*leave)(mnem__event_sink *sink, mnem__event_slot *slot);        /* when its thread ends */
    uint32_t (*name)(mnem__event_sink *sink, const mnem__event_key *key); /* or NAME_NONE */
    _Atomic uint64_t nameless; /* events without room for their name */
    _Atomic uint64_t left;     /* skipped runs, up to the last recorded one */
    /* Names by owner and number: owner 24 bits, number 20, name 20; 0: empty. */
    _Atomic uint64_t known[MNEM__EVENT_KNOWN];
};

extern _Atomic(mnem__event_sink *) mnem__event_sink_now;
/* This thread's slot. NULL: not requested yet, or it shares the first one. It has the default
 * TLS model, because initial-exec would keep dlopen from loading the library; in a program,
 * linkers make the access as short. */
extern _Thread_local mnem__event_slot *mnem__event_mine;

static inline uint64_t mnem__event_counter(void) {
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* ---- unusual cases (event.c) ---- */

mnem__event_sink *mnem__event_enter_slowly(void);
void mnem__event_put_slowly(mnem__event_sink *sink, mnem__event_what what, uint32_t name,
                            uint32_t small, uint64_t value);

/* ---- emitting ---- */

/* Whether there is a sink; for events whose data costs time. */
static inline bool mnem__event_told(void) {
    return __builtin_expect(
        atomic_load_explicit(&mnem__event_sink_now, memory_order_relaxed) != NULL, 0);
}

/* Returns the sink, which stays until this thread's mnem__event_put; NULL: none, and put must not
 * follow. From any thread, under any lock. Only names may be asked for between the two calls. */
static inline mnem__event_sink *mnem__event_enter(void) {
    if (!mnem__event_told()) return NULL;
    mnem__event_slot *slot = mnem__event_mine;
    if (__builtin_expect(!slot, 0)) return mnem__event_enter_slowly();
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the stopper's membarrier does the rest */
    mnem__event_sink *sink = atomic_load_explicit(&mnem__event_sink_now, memory_order_acquire);
    if (__builtin_expect(!sink, 0)) atomic_store_explicit(&slot->busy, 0, memory_order_release);
    return sink;
}

/* Records an event, and leaves the sink. An event without a name (MNEM__NAME_NONE) is only counted.
 * counter: a value of mnem__event_counter since the sink was entered. */
static inline void mnem__event_put_at(mnem__event_sink *sink, uint64_t counter,
                                      mnem__event_what what, uint32_t name, uint32_t small,
                                      uint64_t value) {
    mnem__event_slot *slot = mnem__event_mine;
    if (__builtin_expect(!slot || slot->generation != sink->generation || slot->next >= slot->end ||
                             name == MNEM__NAME_NONE || sink->clocked,
                         0)) {
        mnem__event_put_slowly(sink, what, name, small, value);
        return;
    }
    mnem__event *to = slot->next++;
    to->when = (counter - sink->start) << 8 | what;
    to->name = name;
    to->small = small;
    to->value = value;
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}
static inline void mnem__event_put(mnem__event_sink *sink, mnem__event_what what, uint32_t name,
                                   uint32_t small, uint64_t value) {
    mnem__event_put_at(sink, mnem__event_counter(), what, name, small, value);
}

/* The threads that have emitted events of an object; zero: none. */
typedef _Atomic uintptr_t mnem__event_tellers;
/* Unless this thread emitted all events so far: a fence for earlier instructions. */
void mnem__event_order(mnem__event_tellers *tellers);

/* Like put, for an object that several threads use (a ledger, a pool) and that holds the
 * tellers: the times of events that its lock orders have the same order then. The fence for this
 * is omitted as long as one thread emits all events. */
static inline void mnem__event_put_ordered(mnem__event_sink *sink, mnem__event_tellers *tellers,
                                           mnem__event_what what, uint32_t name, uint32_t small,
                                           uint64_t value) {
    const mnem__event_slot *slot = mnem__event_mine;
    const uintptr_t told = atomic_load_explicit(tellers, memory_order_relaxed);
    if (__builtin_expect(!slot || told != (uintptr_t)slot, 0)) mnem__event_order(tellers);
    mnem__event_put(sink, what, name, small, value);
}

/* Emits an event named text, for number `number` of an owner; more: see the key. Does nothing
 * without a sink. */
void mnem__event_say(mnem__event_what what, uint32_t owner, uint32_t number, uint32_t small,
                     const char *text, const char *more, uint64_t value);
/* Emits a request's phase. */
static inline void mnem__event_request(uint32_t phase, uint64_t number) {
    mnem__event_sink *sink = mnem__event_enter();
    if (sink) mnem__event_put(sink, MNEM__EVENT_REQUEST, 0, phase, number);
}
/* Emits VmRSS if 10 ms have passed since the last time; cheap otherwise. For code that runs in
 * steps. */
void mnem__event_sample(void);
/* Whether a sample may be due: not within a million ticks of the last check. */
extern _Atomic uint64_t mnem__event_looked;
static inline bool mnem__event_sample_due(uint64_t counter) {
    enum { LOOK_TICKS = 1 << 20 }; /* the clock takes twice a counter's time */
    return !counter ||
           counter - atomic_load_explicit(&mnem__event_looked, memory_order_relaxed) >= LOOK_TICKS;
}

/* Packs an operator's bytes and multiply-adds into small and value: 48 bits each, saturated. */
static inline uint32_t mnem__event_operator(uint64_t bytes, uint64_t products, uint64_t *value) {
    const uint64_t most = (UINT64_C(1) << 48) - 1;
    if (__builtin_expect(bytes > most, 0)) bytes = most;
    if (__builtin_expect(products > most, 0)) products = most;
    *value = bytes << 16 | products >> 32;
    return (uint32_t)products;
}

/* ---- programs that run repeatedly ----
 *
 *     first run    PROGRAM, OPERATOR, OPERATOR, ...     24 bytes each
 *     later ones   AGAIN (4 operators), OPERATOR, AGAIN (4), ...
 *
 * Most operators have the same bytes and multiply-adds in every run of the same number of
 * tokens, so only their times are recorded then; operators on pages are recorded in full.
 * Reading the clock between two operators takes twice as long as in a loop of reads. So of a
 * program whose operators take less than 30 us on average, only every k-th run is recorded,
 * which costs a quarter of a percent of its time; a counter gives the number of skipped runs. */

/* The index of the program that this thread recorded in full and of which this is a run; -1:
 * none. */
static inline int mnem__event_program_told(const mnem__event_program *p) {
    const mnem__event_slot *slot = mnem__event_mine;
    for (int i = 0; slot && i < MNEM__PROGRAMS; i++) {
        const mnem__event_program *told = &slot->program[i];
        if (told->number == p->number && told->tokens == p->tokens &&
            told->losses == slot->losses && told->from == p->from && told->to == p->to &&
            told->first_row == p->first_row)
            return i;
    }
    return -1;
}
/* Whether this run is skipped. */
static inline bool mnem__event_program_leave_out(const mnem__event_program *p) {
    const int which = mnem__event_program_told(p);
    if (which < 0 || !mnem__event_mine->program[which].to_leave) return false;
    mnem__event_mine->program[which].to_leave--;
    mnem__event_mine->program[which].left++;
    return true;
}
/* Reports that a run's operators, recorded again, took this many ticks. */
void mnem__event_program_again(int which, uint64_t ticks, int32_t operators);
/* Begins to record a program in full, in place of the least recent one. Sets losses. */
int mnem__event_program_begin(mnem__event_program *p);
/* Ends the full record; which: the value that begin returned. */
void mnem__event_program_end(int which, const mnem__event_program *p);

/* Records that the operator at this position of the program begins, and the previous one ends.
 * false: this thread must record it in full, and still has the sink. */
static inline bool mnem__event_put_again(mnem__event_sink *sink, uint64_t counter, int which,
                                         uint32_t place) {
    mnem__event_slot *slot = mnem__event_mine;
    if (__builtin_expect(!slot || slot->generation != sink->generation || sink->clocked ||
                             slot->program[which].losses != slot->losses || slot->next >= slot->end,
                         0))
        return false;
    const uint64_t when = counter - sink->start;
    const uint32_t here = (uint32_t)which << MNEM__AGAIN_PLACE | place;
    mnem__event *to = slot->again;
    if (to && to + 1 == slot->next) {
        const uint32_t first = to->name & ((1u << MNEM__AGAIN_COUNT) - 1);
        const uint32_t count = to->name >> MNEM__AGAIN_COUNT;
        const uint64_t since = when - (to->when >> 8);
        if (count < MNEM__AGAIN_MOST && first + count == here && since <= UINT32_MAX) {
            to->name += 1u << MNEM__AGAIN_COUNT;
            if (count == 1)
                to->small = (uint32_t)since;
            else
                to->value |= since << (count == 2 ? 0 : 32);
            atomic_store_explicit(&slot->busy, 0, memory_order_release);
            return true;
        }
    }
    to = slot->next++;
    *to = (mnem__event){.when = when << 8 | MNEM__EVENT_AGAIN,
                        .name = 1u << MNEM__AGAIN_COUNT | here};
    slot->again = to;
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
    return true;
}

/* Registers a function, such as a ledger's, that emits its sums whenever VmRSS is emitted; one at a
 * time. It is called with only the sampler's lock held; last: it will not be called again. */
typedef void mnem__event_sampler(void *context, bool last);
void mnem__event_sampler_set(mnem__event_sampler *tell, void *context);
/* If context is still registered: calls it for the last time, or removes it without a call. */
void mnem__event_sampler_last(const void *context);
void mnem__event_sampler_forget(const void *context);

/* The owner of the fixed names below. */
enum { MNEM__OWNER_FIXED = 0xffffff };
enum {
    MNEM__FIXED_STEP = 1,
    MNEM__FIXED_TRAIN,
    MNEM__FIXED_RSS,
    MNEM__FIXED_COPIED, /* marks of a stream: bytes copied; bytes handed over in place */
    MNEM__FIXED_HANDED,
    MNEM__FIXED_WORKSPACE, /* a counter: workspace bytes of a run of an operator or a graph */
    MNEM__FIXED_LEFT       /* a counter: skipped runs of programs */
};

/* A new number for an owner of names (a ledger, a pool, a program), from 1. */
uint32_t mnem__event_owner(void);

/* The name of an owner's number; 0: none yet, mnem__event_name makes it. */
static inline uint32_t mnem__event_name_known(const mnem__event_sink *sink, uint32_t owner,
                                              uint32_t number) {
    const uint64_t key = (uint64_t)(owner & 0xffffff) << 20 | (number & 0xfffff);
    const uint64_t at = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 52;
    const uint64_t known = atomic_load_explicit(&sink->known[at], memory_order_relaxed);
    return known >> 20 == key ? (uint32_t)(known & 0xfffff) : 0;
}
/* Registers a key and returns its name, equal for equal keys. Not 0. */
uint32_t mnem__event_name(mnem__event_sink *sink, uint32_t owner, uint32_t number,
                          const mnem__event_key *key);

uint64_t mnem__event_ticks(const mnem__event_sink *sink);

/* Installs the sink, and sets start, generation, clocked and statm. false: there is one already. */
bool mnem__event_start(mnem__event_sink *sink);
/* Removes the sink: afterwards no thread uses it, and leave was called for each of its slots. */
void mnem__event_stop(mnem__event_sink *sink);

#endif
