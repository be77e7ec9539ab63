/* event.h: the one place where what happens is told: layers emit, a trace (the sink) keeps it.
 *
 * Events flow down: base owns the way so that the emitting layers don't know who listens. With no
 * sink an event costs one load. With one, 24 bytes are written to a buffer of the thread's own;
 * when it is full, the sink puts it away.
 *
 *     mnem__event_sink *sink = mnem__event_enter();
 *     if (sink) mnem__event_put(sink, MNEM__EVENT_COUNTER, name_of(sink), 0, value);
 *
 * The usual case is inline: a call costs a tenth of an event, and a pool's would make four.
 *
 * A sink may go away while others emit (mnem__event_stop): a thread says that it is busy before it
 * looks at the sink for the second time; the one that stops takes the sink away, lets every
 * processor see that (membarrier), and waits for those that are busy. */
#ifndef MNEM_SRC_BASE_EVENT_H
#define MNEM_SRC_BASE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What name, small and value say of each. */
typedef enum mnem__event_what {
    MNEM__EVENT_LIVE,    /* an account's; small its ledger's number; value its live bytes, after */
    MNEM__EVENT_REFUSE,  /* an account's; small the class; value the bytes asked for */
    MNEM__EVENT_ALLOC,   /* a site's; small the bytes' low half; value: stream 8 bits, address 56 */
    MNEM__EVENT_FREE,    /* the same */
    MNEM__EVENT_LARGE,   /* small: the upper half of the bytes of this thread's next ALLOC, FREE */
    MNEM__EVENT_BEGIN,   /* small: a sort of span; value: bytes, 0 for none */
    MNEM__EVENT_END,     /* the same; of an operator value is its multiply-adds */
    MNEM__EVENT_MARK,    /* a moment; small: a sort; value: a number */
    MNEM__EVENT_COUNTER, /* value */
    MNEM__EVENT_REQUEST, /* small: the phase; value: the request's number */
    MNEM__EVENT_DROPPED, /* value: so many of this thread's weren't kept */
    /* Ends the operator that this thread is in, if it is, and begins the named one: one event for
     * each of a program. Its bytes and its multiply-adds: mnem__event_operator. */
    MNEM__EVENT_OPERATOR,
    /* A program begins, the name-th that this thread remembers: its next operators are those from
     * value to below small. */
    MNEM__EVENT_PROGRAM,
    /* Up to four operators one after another of a program that this thread remembers, with the
     * bytes and multiply-adds that it told then. name: the first one's place in it, above that
     * which program, and how many operators; small, value: ticks from the first to each other. */
    MNEM__EVENT_AGAIN,
} mnem__event_what;
enum {
    MNEM__PROGRAMS = 4, /* that a thread remembers */
    MNEM__AGAIN_MOST = 4,
    MNEM__AGAIN_PLACE = 15, /* bits of a place in a program; two of a program, three of a count */
    MNEM__AGAIN_COUNT = 17,
};

/* Classes of refusals, sorts of spans, phases of requests: mnem/trace_read.h has the same. */
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

/* What a name is of. */
typedef enum mnem__event_sort {
    MNEM__NAME_PLAIN,   /* text */
    MNEM__NAME_ACCOUNT, /* kind and tag (text) of a ledger (owner) */
    MNEM__NAME_SITE,    /* kind, tag, file and line of a pool (owner) */
} mnem__event_sort;

typedef struct mnem__event_key {
    mnem__event_sort sort;
    uint32_t owner, kind, line;
    const char *text, *more; /* copied; more: put behind text and a blank; or a site's file; NULL */
} mnem__event_key;

/* A run of a program, as far as its operators' bytes and multiply-adds depend on it. losses: of the
 * slot that was told all of it. */
typedef struct mnem__event_program {
    uint32_t number, losses; /* number: mnem__event_owner; 0: none */
    int32_t from, to;
    int64_t tokens, first_row;
    uint32_t to_leave, left; /* runs to be left out, and that were since the last one told */
} mnem__event_program;

/* A thread's buffer. Thread: of the sink's count; generation: of the sink that gave it. */
typedef struct mnem__event_slot {
    _Alignas(64) _Atomic uint32_t busy;
    uint32_t generation, shares; /* shares: of the sink that had no room for this thread */
    mnem__event *next, *end;
    uint64_t dropped;
    uint32_t thread;
    uint32_t losses;    /* times that what was told before isn't known any more */
    mnem__event *again; /* an AGAIN that isn't full, if it is the last event; or NULL */
    uint32_t newest;    /* of the programs */
    bool taken;
    mnem__event_program program[MNEM__PROGRAMS]; /* that all was told of */
} mnem__event_slot;

enum { MNEM__EVENT_KNOWN = 4096, MNEM__EVENT_SLOTS = 64, MNEM__NAME_NONE = 0xfffff };

typedef struct mnem__event_sink mnem__event_sink;
struct mnem__event_sink {
    uint64_t start; /* in ticks */
    uint32_t generation;
    bool clocked; /* ticks are nanoseconds: this processor's counter can't be trusted */
    int statm;    /* what is resident is read from it */
    /* Puts away what a slot has, gives room for more (and counts a loss if it is a new one, or lost
     * events); false: there is none for this thread, it shares the first slot. May be called under
     * any lock: takes none of others, no heap. */
    bool (*room)(mnem__event_sink *sink, mnem__event_slot *slot);
    void (*leave)(mnem__event_sink *sink, mnem__event_slot *slot);        /* its thread ends */
    uint32_t (*name)(mnem__event_sink *sink, const mnem__event_key *key); /* or NAME_NONE */
    _Atomic uint64_t nameless; /* events that found no room for their name */
    _Atomic uint64_t left;     /* runs that were left out, up to the last that was told */
    /* Names by who asks: owner 24 bits, number 20, name 20; 0: nothing. */
    _Atomic uint64_t known[MNEM__EVENT_KNOWN];
};

extern _Atomic(mnem__event_sink *) mnem__event_sink_now;
/* This thread's slot. NULL: not asked for yet, or it shares the first one. Of no TLS model of its
 * own: one that wants a place from the start keeps dlopen from loading the library. Linkers make
 * it as short in a program. */
extern _Thread_local mnem__event_slot *mnem__event_mine;

static inline uint64_t mnem__event_counter(void) {
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* ---- what isn't the usual case (event.c) ---- */

mnem__event_sink *mnem__event_enter_slowly(void);
void mnem__event_put_slowly(mnem__event_sink *sink, mnem__event_what what, uint32_t name,
                            uint32_t small, uint64_t value);

/* ---- telling ---- */

/* Whether anybody listens: for what costs something before it is said. */
static inline bool mnem__event_told(void) {
    return __builtin_expect(
        atomic_load_explicit(&mnem__event_sink_now, memory_order_relaxed) != NULL, 0);
}

/* The sink, which stays until this thread's mnem__event_put; NULL: none, nothing follows. From any
 * thread, under any lock. Between the two: names and nothing else. */
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

/* Keeps one event, and leaves the sink. One without a name (MNEM__NAME_NONE) is counted only. At:
 * what mnem__event_counter said since the sink was entered. */
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

/* Who told of something so far; zero: nobody. */
typedef _Atomic uintptr_t mnem__event_tellers;
/* Unless this thread told all so far: waits until what stands before is done. */
void mnem__event_order(mnem__event_tellers *tellers);

/* The same of what several threads may use (a ledger, a pool), which has the tellers: between
 * events that its lock orders, times then say the same order. The fence that this takes is left
 * out as long as one thread told all. */
static inline void mnem__event_put_ordered(mnem__event_sink *sink, mnem__event_tellers *tellers,
                                           mnem__event_what what, uint32_t name, uint32_t small,
                                           uint64_t value) {
    const mnem__event_slot *slot = mnem__event_mine;
    const uintptr_t told = atomic_load_explicit(tellers, memory_order_relaxed);
    if (__builtin_expect(!slot || told != (uintptr_t)slot, 0)) mnem__event_order(tellers);
    mnem__event_put(sink, what, name, small, value);
}

/* An event whose name is the text, of a thing that owner numbers; more: see the key. Without a sink
 * nothing. */
void mnem__event_say(mnem__event_what what, uint32_t owner, uint32_t number, uint32_t small,
                     const char *text, const char *more, uint64_t value);
/* A request's phase. */
static inline void mnem__event_request(uint32_t phase, uint64_t number) {
    mnem__event_sink *sink = mnem__event_enter();
    if (sink) mnem__event_put(sink, MNEM__EVENT_REQUEST, 0, phase, number);
}
/* Says VmRSS when 10 ms have passed since it was said. Cheap else; for who works in steps. */
void mnem__event_sample(void);
/* Whether that is worth asking: not when it was within the last million ticks. */
extern _Atomic uint64_t mnem__event_looked;
static inline bool mnem__event_sample_due(uint64_t counter) {
    enum { LOOK_TICKS = 1 << 20 }; /* the clock takes twice a counter's time */
    return !counter ||
           counter - atomic_load_explicit(&mnem__event_looked, memory_order_relaxed) >= LOOK_TICKS;
}

/* An operator's bytes and multiply-adds as small and value: 48 bits each, the most if more. */
static inline uint32_t mnem__event_operator(uint64_t bytes, uint64_t products, uint64_t *value) {
    const uint64_t most = (UINT64_C(1) << 48) - 1;
    if (__builtin_expect(bytes > most, 0)) bytes = most;
    if (__builtin_expect(products > most, 0)) products = most;
    *value = bytes << 16 | products >> 32;
    return (uint32_t)products;
}

/* ---- a program that runs again and again ----
 *
 *     first run    PROGRAM, OPERATOR, OPERATOR, ...     24 bytes each
 *     later ones   AGAIN (4 operators), OPERATOR, AGAIN (4), ...
 *
 * Most operators move and multiply the same in each run of as many tokens, so only their times are
 * kept then; those of pages are told as ever. To read the clock between two operators takes twice
 * what a loop of reads says. So of a program whose operators take less than 30 us in the mean, only
 * every k-th run is told, for a quarter of a percent of its time; a counter says how many
 * weren't. */

/* Which of the programs that this thread told all of this run is of; -1: none. */
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
/* Whether this run of it isn't told at all. */
static inline bool mnem__event_program_leave_out(const mnem__event_program *p) {
    const int which = mnem__event_program_told(p);
    if (which < 0 || !mnem__event_mine->program[which].to_leave) return false;
    mnem__event_mine->program[which].to_leave--;
    mnem__event_mine->program[which].left++;
    return true;
}
/* A run that was told again took so many ticks for its operators. */
void mnem__event_program_again(int which, uint64_t ticks, int32_t operators);
/* Begins to tell all of it, in place of the one that was told least lately. Sets losses. */
int mnem__event_program_begin(mnem__event_program *p);
/* All of it was told; which: what begin returned. */
void mnem__event_program_end(int which, const mnem__event_program *p);

/* The operator at this place of the program begins, and the one before it ends. false: this thread
 * has to tell of it in full, and still has the sink. */
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

/* Who says sums of its own whenever VmRSS is said, such as a ledger: one at a time. tell is called
 * with no lock but its own turn's; last: it won't be again. */
typedef void mnem__event_sampler(void *context, bool last);
void mnem__event_sampler_set(mnem__event_sampler *tell, void *context);
/* If it is context's turn still: told for the last time, or not at all (it goes away). */
void mnem__event_sampler_last(const void *context);
void mnem__event_sampler_forget(const void *context);

/* Owner of the names that have numbers here. */
enum { MNEM__OWNER_FIXED = 0xffffff };
enum {
    MNEM__FIXED_STEP = 1,
    MNEM__FIXED_TRAIN,
    MNEM__FIXED_RSS,
    MNEM__FIXED_COPIED, /* marks of a stream: bytes copied; handed over where they are */
    MNEM__FIXED_HANDED,
    MNEM__FIXED_WORKSPACE, /* a counter: bytes that a run of an operator, or of a graph, uses */
    MNEM__FIXED_LEFT       /* a counter: runs of programs that were left out */
};

/* A number for who has names (a ledger, a pool, a program), from 1. */
uint32_t mnem__event_owner(void);

/* The name that owner's number-th thing was given; 0: none yet, mnem__event_name makes it. */
static inline uint32_t mnem__event_name_known(const mnem__event_sink *sink, uint32_t owner,
                                              uint32_t number) {
    const uint64_t key = (uint64_t)(owner & 0xffffff) << 20 | (number & 0xfffff);
    const uint64_t at = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 52;
    const uint64_t known = atomic_load_explicit(&sink->known[at], memory_order_relaxed);
    return known >> 20 == key ? (uint32_t)(known & 0xfffff) : 0;
}
/* A number of the key's text, the same for the same; known from now on. Not 0. */
uint32_t mnem__event_name(mnem__event_sink *sink, uint32_t owner, uint32_t number,
                          const mnem__event_key *key);

uint64_t mnem__event_ticks(const mnem__event_sink *sink);

/* Begins: start, generation, clocked and statm are set here. false: there is one. */
bool mnem__event_start(mnem__event_sink *sink);
/* Ends: afterwards nobody has the sink. leave was called for each slot that it gave room to. */
void mnem__event_stop(mnem__event_sink *sink);

#endif
