/* mnem/probe.h: what this machine's memory and processors give: capacity, bandwidth and latency of
 * each level, peaks of arithmetic, its clock, a file's disk.
 *
 * Every figure is the best of passes of about a millisecond that take turns with those of all other
 * figures, so that a machine that is busy now and then is still measured in its quiet moments; cv
 * says how far the better half of the passes are apart. A pass at a cache's latency is the median
 * of 24 ms, behind 10 ms of the same: a core that only waits has another clock after a while.
 * Not here: what a model needs of it (engine.h, graph.h: mnem_graph_node_cost).
 * Threads: one call at a time; it makes a team of its own.
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

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text): bytes are those that the loop names; what a cache reads before a store isn't
 * counted. TRIAD: a = b s + c. */
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

/* The best of the passes: the largest rate, the least time. passes 0: it wasn't measured. */
typedef struct mnem_probe_value {
    double best, median;
    double cv; /* standard deviation / mean, of the better half of the passes */
    int32_t passes;
} mnem_probe_value;

typedef struct mnem_probe_level {
    char name[8];            /* "L1", "memory" */
    uint64_t said_bytes;     /* as the system says; memory: all that it has; 0: it doesn't say */
    uint64_t measured_bytes; /* where the latency leaves this level's; 0: not seen */
    int32_t shared;          /* processors of this machine that share it */
    uint64_t latency_bytes;  /* that the cycle goes through */
    uint64_t rate_bytes;     /* that each thread goes through, all its streams together */
    bool partly; /* memory: the block is less than twice the cache before, so that is measured with
                    it */
    mnem_probe_value latency;       /* ns a load that waits for the one before, pages of 2 MiB */
    mnem_probe_value latency_small; /* the same, pages of 4 KiB */
    mnem_probe_value rate[MNEM_PROBE_TEAMS][MNEM_PROBE_STREAMS]; /* bytes/s of the team */
} mnem_probe_level;

/* Latency by the bytes that a random cycle with a pointer per 128 bytes goes through. */
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
    char unused[32];        /* "AMX, AVX512-FP16": arithmetic that it has and no kernel here uses */
    mnem_probe_value clock; /* Hz, of a chain of additions */
    mnem_probe_value clock_wide; /* the same beside products of the widest vectors */
    mnem_probe_value disk;       /* bytes/s past the page cache; passes 0: the file system can't */
    mnem_probe_value disk_wait;  /* ns of 4 KiB from anywhere in the file */
    uint64_t bytes;              /* that it took: blocks, stacks, tables */
    int32_t rounds;
    double seconds;
} mnem_probe;

/* Zero means default. */
typedef struct mnem_probe_options {
    mnem_ledger
        *ledger; /* what is taken is charged to kind workspace, tag "probe"; default: none */
    uint64_t memory_bytes; /* the most to take (default: 2.5 times the last cache, 256 MiB to 1 GiB,
                              and an eighth of that for small pages) */
    double seconds;        /* about so many (default 6, at most 60), and half as many more where
                              not every figure had its turn; one that still had none has no
                              passes */
    int32_t threads;       /* of the largest team (default: the processors of this process) */
    const char *file;      /* whose disk is read (default: none) */
    const volatile int *cancel; /* not 0: stop soon */
    mnem_progress progress;
} mnem_probe_options;

/* The least memory_bytes of a probe with so many threads (0: the processors of this process). */
uint64_t mnem_probe_bytes(int32_t threads);
/* MNEM_OVER_BUDGET: memory_bytes, or the ledger, has no room for the least block; MNEM_NO_MEMORY;
 * MNEM_INVALID; MNEM_CANCELLED. Nothing stays taken. A file that can't be read is no error: the
 * disk has no passes then. */
mnem_status mnem_probe_run(const mnem_probe_options *options, mnem_probe *probe);

/* The level that holds so many bytes of which each thread has its part, as measured, else as said;
 * NULL: nothing is measured. */
const mnem_probe_level *mnem_probe_level_of(const mnem_probe *probe, uint64_t bytes);
/* The best peak of a type on all threads, in operations/s; 0: not measured. */
double mnem_probe_peak_of(const mnem_probe *probe, const char *type);

/* Where the level says another capacity than is measured: outside 0.67 to 1.5. */
bool mnem_probe_level_lies(const mnem_probe_level *level);
/* Of the processor, its caches, its memory and what this process may use: results of another one
 * don't hold here. */
uint64_t mnem_probe_fingerprint(void);
/* Bytes of the last level of cache, all of them together that this process's processors can fill,
 * as the system says; 0: it says nothing. */
uint64_t mnem_probe_last_cache(void);
/* Passes that differ too much to trust: a cv above 3 %. */
bool mnem_probe_noisy(const mnem_probe_value *value);

#ifdef __cplusplus
}
#endif
#endif
