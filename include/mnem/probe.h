/* mnem/probe.h: measures this machine: capacity, bandwidth and latency of each level of memory,
 * peaks of arithmetic, the clock, and the disk of a file.
 *
 * Every figure is the best of many passes of about a millisecond. The passes of all figures
 * alternate, so that each also gets quiet moments of a busy machine; cv is the spread of the better
 * half of the passes. A pass for the latency of a cache is the median of 24 ms, after 10 ms of
 * warming up: a core that only waits changes its clock.
 * Not here: what a model needs of it (engine.h, graph.h: mnem_graph_node_cost).
 * Threads: one call at a time; it starts a team of its own.
 *
 *     static mnem_probe probe;
 *     mnem_probe_run(&(mnem_probe_options){.memory_bytes = 256 << 20, .seconds = 4}, &probe);
 *     const mnem_probe_level *memory = &probe.level[probe.levels - 1];
 *     printf("%.1f GB/s, %.0f ns\n", memory->rate[0][MNEM_PROBE_LOAD].best / 1e9,
 *            memory->latency.best);
 */
#ifndef MNEM_PROBE_H
#define MNEM_PROBE_H

#include "mnem/ledger.h"
#include "mnem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text): the bytes counted are those that the loop loads and stores; a cache's read before
 * a store isn't counted. TRIAD: a = b s + c. */
#define MNEM_PROBE_STREAM_LIST(X)                                                                  \
    X(LOAD, "load")                                                                                \
    X(STORE, "store")                                                                              \
    X(STREAM, "non-temporal store")                                                                \
    X(COPY, "copy")                                                                                \
    X(TRIAD, "triad")

typedef enum mnem_probe_stream {
#define MNEM_PROBE_STREAM_ENUM(name, text) MNEM_PROBE_##name,
    MNEM_PROBE_STREAM_LIST(MNEM_PROBE_STREAM_ENUM)
#undef MNEM_PROBE_STREAM_ENUM
        MNEM_PROBE_STREAMS
} mnem_probe_stream;

const char *mnem_probe_stream_text(mnem_probe_stream stream);

enum {
    MNEM_PROBE_LEVELS = 4, /* L1, L2, L3, memory */
    MNEM_PROBE_TEAMS = 10,
    MNEM_PROBE_SIZES = 80,
    MNEM_PROBE_PEAKS = 8
};

/* best: the largest rate or the shortest time of all passes. passes 0: not measured. */
typedef struct mnem_probe_value {
    double best, median;
    double cv; /* standard deviation / mean, of the better half of the passes */
    int32_t passes;
} mnem_probe_value;

typedef struct mnem_probe_level {
    char name[8];            /* "L1", "memory" */
    uint64_t said_bytes;     /* capacity as the system reports it; 0: it doesn't report one */
    uint64_t measured_bytes; /* size at which the latency rises above this level's; 0: not seen */
    int32_t shared;          /* processors that share it */
    uint64_t latency_bytes;  /* size of the block of the latency test */
    uint64_t rate_bytes;     /* block of each thread in the bandwidth test, all arrays together */
    bool partly; /* memory: the block is less than twice the last cache, so its figures include hits
                    in that cache */
    mnem_probe_value latency;       /* ns of a load that depends on the one before, 2 MiB pages */
    mnem_probe_value latency_small; /* the same, pages of 4 KiB */
    mnem_probe_value rate[MNEM_PROBE_TEAMS][MNEM_PROBE_STREAMS]; /* bytes/s of the team */
} mnem_probe_level;

/* Latency against size: of a random cycle through a block, with one pointer per 128 bytes. */
typedef struct mnem_probe_size {
    uint64_t bytes;
    double ns, ns_small; /* pages of 2 MiB, of 4 KiB; 0: not measured */
} mnem_probe_size;

typedef struct mnem_probe_peak {
    char type[8];             /* "f32", "bf16", "int8" */
    char instructions[16];    /* "avx512 vnni" */
    bool used;                /* the best of its type */
    mnem_probe_value rate[2]; /* operations/s (a multiply-add is two): one thread, all */
} mnem_probe_peak;

typedef struct mnem_probe {
    char processor[64];
    int32_t threads; /* of the largest team */
    int32_t teams;
    int32_t team[MNEM_PROBE_TEAMS]; /* their threads, ascending from 1 */
    int32_t levels;                 /* the last is memory */
    mnem_probe_level level[MNEM_PROBE_LEVELS];
    int32_t sizes;
    mnem_probe_size size[MNEM_PROBE_SIZES];
    int32_t peaks;
    mnem_probe_peak peak[MNEM_PROBE_PEAKS];
    char unused[32];             /* "AMX, AVX512-FP16": instructions that no kernel of mnem uses */
    mnem_probe_value clock;      /* Hz, of a chain of additions */
    mnem_probe_value clock_wide; /* the same beside products of the widest vectors */
    mnem_probe_value disk;       /* bytes/s without the page cache; passes 0: not supported by the
                                    file system */
    mnem_probe_value disk_wait;  /* ns of a read of 4 KiB at a random place in the file */
    uint64_t bytes;              /* that the probe allocated: blocks, stacks, tables */
    int32_t rounds;
    double seconds;
} mnem_probe;

/* Zero means default. */
typedef struct mnem_probe_options {
    mnem_ledger *ledger;   /* charged for all memory: kind workspace, tag "probe" (default: none) */
    uint64_t memory_bytes; /* limit (default: 2.5 times the last cache, 256 MiB to 1 GiB, and an
                              eighth of that for small pages) */
    double seconds;        /* approximate duration (default 6, at most 60); up to half as many more
                              until every figure has a pass. A figure that still has none has
                              passes 0 */
    int32_t threads;       /* of the largest team (default: the processors of this process) */
    const char *file;      /* on the disk to measure (default: none) */
    const volatile int *cancel; /* not 0: stop soon */
    mnem_progress progress;
} mnem_probe_options;

/* The least memory_bytes of a probe with so many threads (0: the processors of this process). */
uint64_t mnem_probe_bytes(int32_t threads);
/* MNEM_OVER_BUDGET: memory_bytes, or the ledger, is less than mnem_probe_bytes; MNEM_NO_MEMORY;
 * MNEM_INVALID; MNEM_CANCELLED. All memory is freed at the end. A file that can't be read is no
 * error: disk.passes is 0 then. */
mnem_status mnem_probe_run(const mnem_probe_options *options, mnem_probe *probe);

/* The smallest level that holds bytes which are divided among the threads, by its measured capacity
 * or else the reported one; NULL: nothing was measured. */
const mnem_probe_level *mnem_probe_level_of(const mnem_probe *probe, uint64_t bytes);
/* The best peak of a type on all threads, in operations/s; 0: not measured. */
double mnem_probe_peak_of(const mnem_probe *probe, const char *type);

/* The most multiply-adds a second that a product of many tokens with weights of a type can reach at
 * the current level of the processor (mnem_cpu_limit), on `threads` threads (0: the processors of
 * this process) together: a loop over blocks that stay in the L1 cache unpacks weights once for 24
 * tokens, multiplies, adds and scales. Weights of floats: chains of multiply-adds of f32, or of
 * pairs of bf16 where kernels use those. Takes about `seconds`; the best pass counts.
 * 0: there is no loop for this type or level, or no memory for the threads. */
double mnem_probe_product_limit(mnem_type type, int32_t threads, double seconds);

/* Do the reported and the measured capacity of a level differ (a ratio outside 0.67 to 1.5)? */
bool mnem_probe_level_lies(const mnem_probe_level *level);
/* A hash of the processor, its caches, its memory and the processors that this process may use.
 * Results with another fingerprint don't apply to this machine. */
uint64_t mnem_probe_fingerprint(void);
/* Bytes of all last-level caches that this process's processors use, as the system reports them; 0:
 * not reported. */
uint64_t mnem_probe_last_cache(void);
/* Do the passes differ too much to be trusted (a cv above 3 %)? */
bool mnem_probe_noisy(const mnem_probe_value *value);

#ifdef __cplusplus
}
#endif
#endif
