/* mnem/replay.h: a laboratory: reads workloads, runs one through an allocator and says what that
 * cost.
 *
 * What runs is a target: one of the offset policies, a model of PyTorch's caching logic, or the
 * caller's own table of functions. No byte of the workload is allocated; a target places numbers.
 * What is measured, and how, so that figures of different programs compare:
 *   time      one thread, streams ignored by the offset policies, each pass with a new allocator.
 *             ns_mean: the thread's time for whole passes, a million operations or 20, by those;
 *             the best of options.runs. p50 and p99: of single allocations, less the clock's own
 *             time, the best of the passes that time each operation. ns_worst: the maximum over all
 *             allocations of the minimum over those passes, so that what the machine did in between
 *             doesn't count; ns_worst_free: the same of frees.
 *   fit       the smallest capacity that completes. Fit isn't monotone in the capacity: bisection
 *             to 1/4096 of the peak, then down in steps of 1/1024 as long as one of the next 16
 *             completes.
 *   growth    starts with nothing and grows at its end, segment by segment, when a request fails:
 *             reserved bytes, upstream calls, and the hit rate (requests served without one).
 * Threads: a workload is constant after it is opened, any thread may read it; a replay is one
 * thread's; different replays may run at once.
 *
 *     mnem_replay_result r;
 *     mnem_replay_target *t;
 *     mnem_replay_target_create("mnem", NULL, &t);
 *     if (mnem_replay_run(w, t, NULL, &r) == MNEM_OK)
 *         printf("%s: %.1f ns, %.3f of the peak\n", r.name, r.ns_mean, r.capacity_over_live);
 *     mnem_replay_target_destroy(t);
 */
#ifndef MNEM_REPLAY_H
#define MNEM_REPLAY_H

#include "mnem/offset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- workloads: allocation traces: what a program asked for and gave back, in order ----
 *
 * Two formats. mnem's text: "a ID BYTES [STREAM]" allocates, "f ID [STREAM]" frees, "#" begins a
 * comment; an ID is any number and is never reused. A comment that is only a number, behind an
 * allocation, says its site, and a line "# site NUMBER TEXT" anywhere what that is. And PyTorch's
 * memory snapshot: the pickle that torch.cuda.memory._dump_snapshot writes, read without executing
 * anything. What a file says is checked (sizes, ids, order), and is never allocated: addresses and
 * sizes are numbers here.
 *
 *     mnem_workload *w;
 *     if (mnem_workload_open("serve.trace", NULL, &w) == MNEM_OK) {
 *         mnem_workload_info info;
 *         mnem_workload_info_get(w, &info);
 *         for (size_t i = 0; i < info.count; i++) use(info.ops[i]);
 *     }
 *     mnem_workload_close(w);
 */

typedef struct mnem_workload mnem_workload;

typedef struct mnem_workload_op {
    uint64_t bytes;  /* > 0: an allocation; 0: a free */
    uint32_t block;  /* 0, 1, 2, ... in the order of allocation; a block is freed at most once */
    uint32_t stream; /* of the allocation or the free: 0, 1, ... in the order of first use */
} mnem_workload_op;

typedef struct mnem_workload_info {
    const mnem_workload_op *ops; /* [count]; borrowed until close */
    size_t count, allocations;   /* frees = count - allocations */
    size_t prelude;       /* ops[0..prelude) allocate what was live before the record began */
    uint64_t bytes_peak;  /* the largest sum of live bytes, as asked for */
    uint64_t bytes_total; /* of all allocations */
    uint64_t bytes_end;   /* live after the last op */
    uint32_t blocks_peak; /* live at one time, at most */
    uint32_t streams;     /* number of different ones */
    const char *format;   /* "text", "PyTorch snapshot" */
    /* Snapshots; zero for text. */
    uint32_t device, devices;     /* the one that was read; how many have events or blocks */
    uint64_t segments_asked;      /* segment_alloc and segment_map events: what PyTorch asked for */
    uint64_t bytes_reserved_peak; /* by PyTorch, where the record shows it */
    uint64_t dropped;             /* events that contradict the others, left out or mended */
} mnem_workload_info;

/* Zero means default. */
typedef struct mnem_workload_options {
    bool device_given; /* snapshots of several devices: read this one (default: most events) */
    uint32_t device;
    mnem_progress progress; /* bytes read, of nobody knows how many */
} mnem_workload_options;

/* options may be NULL. MNEM_IO, MNEM_BAD_FILE (with the line or the byte), MNEM_UNSUPPORTED
 * (compressed, or a pickle that needs to run code), MNEM_NOT_FOUND (no such device),
 * MNEM_CANCELLED, MNEM_NO_MEMORY; *workload is NULL then. A file without one allocation is
 * MNEM_BAD_FILE. */
mnem_status mnem_workload_open(const char *path, const mnem_workload_options *options,
                               mnem_workload **workload);
/* The same from an open file or pipe, to its end; fd stays open. name is for messages. */
mnem_status mnem_workload_open_fd(const char *name, int fd, const mnem_workload_options *options,
                                  mnem_workload **workload);
/* The same from bytes in memory. */
mnem_status mnem_workload_read(const char *name, const void *data, size_t bytes,
                               const mnem_workload_options *options, mnem_workload **workload);
void mnem_workload_close(mnem_workload *workload); /* NULL is fine */
void mnem_workload_info_get(const mnem_workload *workload, mnem_workload_info *info);
/* Where a block was asked for, "train.py:41 forward", as the trace says; "" if it doesn't.
 * Borrowed until close. */
const char *mnem_workload_site(const mnem_workload *workload, uint32_t block);

/* ---- targets ---- */

typedef struct mnem_replay_usage {
    uint64_t bytes_reserved; /* taken from upstream now */
    uint64_t bytes_reserved_peak;
    uint64_t upstream_calls; /* allocations, maps and extensions asked of the device */
    uint64_t misses;        /* requests that needed at least one; "pool": that reuse didn't serve */
    uint64_t segment_bytes; /* by which it grows; 0: it doesn't, or not evenly */
    uint64_t bytes_zero_copy, bytes_staged; /* handed over by host buffers (device.h) */
} mnem_replay_usage;

/* An allocator as a replay sees it. A table of the caller's own may be used too; it gets itself as
 * `self`, and may be the first member of something larger. */
typedef struct mnem_replay_target mnem_replay_target;
struct mnem_replay_target {
    const char *name;
    /* Makes it empty, for blocks 0 .. allocations - 1 of w. start == most: a capacity that stays;
     * start 0: nothing is reserved, and it grows up to most (0: no limit).
     * MNEM_UNSUPPORTED if it can't grow, or can't be limited. */
    mnem_status (*open)(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                        uint64_t most);
    /* MNEM_OVER_BUDGET when there is no room; any other failure ends the replay. */
    mnem_status (*alloc)(mnem_replay_target *self, uint32_t block, uint64_t bytes, uint32_t stream);
    void (*free)(mnem_replay_target *self, uint32_t block, uint32_t stream);
    void (*close)(mnem_replay_target *self); /* after open; live blocks go */
    void (*usage)(const mnem_replay_target *self, mnem_replay_usage *usage);
    /* Where a live block lies, and how many bytes it takes. NULL: nobody knows. */
    uint64_t (*place)(const mnem_replay_target *self, uint32_t block, uint64_t *bytes);
    void (*destroy)(mnem_replay_target *self); /* NULL: the caller's own */
};

/* Zero means default. */
typedef struct mnem_replay_settings {
    uint64_t alignment;     /* 256 */
    uint64_t segment_bytes; /* by which it grows, rounded up to 4 KiB (default: the workload's peak
                               / 64, as a power of two of at least 2 MiB) */
} mnem_replay_settings;

/* name: one of mnem_offset_policy_parse; "pool": all of a pool (pool.h) on the null device, with
 * the workload's streams (of more than 128, some share one), growing by its own rule; "granules":
 * blocks in 2 MiB granules that are mapped elsewhere (docs/pool.md), by orders that are counted and
 * not carried out, its capacity in whole granules, remapping before it grows; or "pytorch".
 * MNEM_NOT_FOUND names what there is. */
mnem_status mnem_replay_target_create(const char *name, const mnem_replay_settings *settings,
                                      mnem_replay_target **target);
void mnem_replay_target_destroy(mnem_replay_target *target); /* NULL is fine */
/* The i-th name that create takes, the default policy's first; NULL past the last. */
const char *mnem_replay_target_name(unsigned i);

enum {
    MNEM_REPLAY_TIME = 1,   /* ns_* */
    MNEM_REPLAY_FIT = 2,    /* capacity_* */
    MNEM_REPLAY_GROWTH = 4, /* reserved_*, hit_rate, upstream_calls */
};

/* Zero means default. */
typedef struct mnem_replay_options {
    unsigned measure;   /* MNEM_REPLAY_* (default: all) */
    uint64_t capacity;  /* time and growth have so much (default: time four times the peak, or what
                           it needs if FIT was measured and that is more; growth has no limit) */
    uint32_t runs;      /* times of whole passes, a million operations or 20 passes each (3) */
    uint32_t runs_each; /* passes in which each operation is timed (5) */
    mnem_progress progress; /* about every 65536 operations; a rough part of all work */
} mnem_replay_options;

typedef struct mnem_replay_result {
    const char *name;  /* the target's */
    unsigned measured; /* MNEM_REPLAY_*; what isn't in it is zero below */
    double ns_mean, ns_p50, ns_p99, ns_worst, ns_worst_free;
    uint64_t bytes_capacity;        /* of the timed passes */
    uint64_t bytes_capacity_needed; /* the smallest that completes */
    uint64_t bytes_reserved_peak, upstream_calls;
    uint64_t segment_bytes; /* by which it grew; 0: it didn't, or not evenly */
    double capacity_over_live, reserved_over_live; /* over the workload's peak */
    double hit_rate;                               /* 0 to 1 */
    double fragmentation;                          /* 1 - peak live / peak reserved */
    uint64_t bytes_zero_copy, bytes_staged;        /* by GROWTH */
    bool refused;      /* the given capacity was too small; the rest of what is measured is zero */
    size_t refused_op; /* where, and for how many bytes */
    uint64_t refused_bytes, refused_live;
} mnem_replay_result;

/* MNEM_OK also when the given capacity was too small: see refused. MNEM_CANCELLED, MNEM_NO_MEMORY,
 * MNEM_INVALID for a workload whose peak is above 2^50 bytes. */
mnem_status mnem_replay_run(const mnem_workload *w, mnem_replay_target *target,
                            const mnem_replay_options *options, mnem_replay_result *result);

/* ---- the map ---- */

typedef struct mnem_replay_box {
    uint64_t offset, bytes; /* bytes: as the target rounds */
    size_t born, died;      /* operations; died == count: still live at the end */
    uint32_t block;
} mnem_replay_box;

typedef struct mnem_replay_moment {
    size_t op;
    uint64_t bytes_live, bytes_reserved; /* live: as asked; after the operation */
} mnem_replay_moment;

/* Runs once (start and most as in open) and tells of every block, when it ends, and of every
 * operation. Either may be NULL. MNEM_OVER_BUDGET at the first refusal: what came before was told.
 * MNEM_UNSUPPORTED if the target doesn't know places. */
mnem_status mnem_replay_map(const mnem_workload *w, mnem_replay_target *target, uint64_t start,
                            uint64_t most,
                            void (*on_box)(void *context, const mnem_replay_box *box),
                            void (*on_moment)(void *context, const mnem_replay_moment *moment),
                            void *context);

/* ---- verdicts ---- */

/* X(NAME, key, text, good, bad, unit): good below (or above) the first number, bad beyond the
 * second. */
#define MNEM_REPLAY_INDICATOR_LIST(X)                                                              \
    X(LATENCY, "allocation_latency", "allocation latency", 10, 50, "us")                           \
    X(FRAGMENTATION, "fragmentation", "fragmentation", 10, 30, "%")                                \
    X(HIT_RATE, "hit_rate", "hit rate", 90, 70, "%")                                               \
    X(ZERO_COPY, "zero_copy_share", "zero-copy share", 80, 50, "%")

typedef enum mnem_replay_indicator {
#define MNEM_REPLAY_INDICATOR_ENUM(name, key, text, good, bad, unit) MNEM_REPLAY_##name,
    MNEM_REPLAY_INDICATOR_LIST(MNEM_REPLAY_INDICATOR_ENUM)
#undef MNEM_REPLAY_INDICATOR_ENUM
        MNEM_REPLAY_INDICATORS
} mnem_replay_indicator;

typedef struct mnem_replay_verdict {
    const char *key, *text, *unit; /* "hit_rate", "hit rate", "%" */
    double value, good, bad;
    const char *verdict; /* "good", "fair", "bad", or "no data": value is 0 then */
} mnem_replay_verdict;

/* Latency is the 99th percentile of an allocation; the zero-copy share is of the bytes that host
 * buffers handed over: traces record none, so only a target of the caller's own has data. */
mnem_replay_verdict mnem_replay_judge(const mnem_replay_result *result,
                                      mnem_replay_indicator indicator);

#ifdef __cplusplus
}
#endif
#endif
