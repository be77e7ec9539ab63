/* pool_subject.h: what bench_pool measures, behind one table: policies, the pool, peers, malloc.
 *
 * A replay is a loop that the compiler builds for each kind of subject, so that the harness adds a
 * call and no more; the loop around nothing is a subject too, and says what the harness costs. */
#ifndef MNEM_BENCH_POOL_SUBJECT_H
#define MNEM_BENCH_POOL_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_op {
    uint64_t bytes; /* 0: a free */
    uint32_t slot;  /* where the handle is kept; as few as blocks are live at one time */
} bench_op;

typedef struct bench_trace {
    char name[64];
    bench_op *ops;
    size_t count, allocations;
    uint32_t slots;
    uint32_t *slots_end; /* live after the last op */
    size_t slots_end_count;
    uint64_t bytes_peak; /* live, as asked for */
} bench_trace;

/* Reads a file; says on stderr why it can't. */
bool bench_trace_open(const char *path, bench_trace *t);
void bench_trace_close(bench_trace *t);

typedef struct subject subject;
struct subject {
    char name[32];
    bool has_capacity;   /* obeys `bytes`, so that the smallest can be looked for */
    uint64_t unit_bytes; /* of a capacity; 0: any */
    bool (*open)(subject *s, uint64_t bytes, uint32_t blocks_max);
    void (*close)(subject *s, const bench_trace *t, const uint64_t *slots);
    /* Each returns the number of ops that were done: t->count, or less when there was no room. */
    size_t (*run)(subject *s, const bench_trace *t, uint64_t *slots);
    size_t (*run_timed)(subject *s, const bench_trace *t, uint64_t *slots, uint32_t *ticks);
    uint64_t (*reserved)(subject *s); /* bytes from the machine now; NULL or 0: can't be asked */
    uint64_t device_calls; /* asked of the device between the last open and close; 0: not known */
    uint64_t bytes_remapped, bytes_reserved; /* the same; the peak of what is reserved */
    int policy, growth;
    bool at_once; /* pool: takes all of its capacity at the start */
    void *device, *blocks;
    uint64_t *slots;
    void *library;
    void *allocator; /* open */
    void *(*create)(uint64_t, uint32_t);
    int (*alloc)(void *, uint64_t, uint64_t *, uint64_t *);
    void (*release)(void *, uint64_t);
    void (*destroy)(void *);
    void *(*heap_alloc)(size_t);
    void (*heap_free)(void *);
};

void subject_nothing(subject *s);
bool subject_policy(subject *s, const char *name);
/* mnem's pool on the null device, one stream: "pool" in segments, "pool-range" in granules that may
 * be mapped elsewhere. */
bool subject_pool(subject *s, const char *name);
/* A pool in a range, replayed within a capacity. */
typedef struct range_report {
    double capacity; /* over peak live */
    double mean;     /* ns, all included but the device's own time, which is none on null */
    uint64_t calls, calls_at_once; /* of the device: as it grows; when all is taken at the start */
    double remapped, reserved;     /* bytes, over peak live */
} range_report;
/* false: it doesn't complete. */
bool pool_range_measure(const bench_trace *t, uint64_t *slots, uint64_t bytes, range_report *r);
void subject_init(subject *s, const char *name);
/* file: a shared object of pool_peer.h. */
bool subject_peer(subject *s, const char *name, const char *file);
/* file: a shared object with malloc and free; NULL: the process's own. */
bool subject_malloc(subject *s, const char *name, const char *file);

/* The clock of run_timed: ticks of the time-stamp counter where there is one. */
double ticks_per_ns(void);
uint32_t ticks_overhead(void); /* of a pair of readings around nothing */

#endif
