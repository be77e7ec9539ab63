/* mnem/replay.h: reads recorded allocation traces (workloads) and measures allocators with them.
 *
 * A workload runs through a target: one of the offset policies, a model of PyTorch's caching
 * allocator, or the caller's own table of functions. The bytes of the workload are never
 * allocated; targets compute offsets only. Measured are:
 *   time      one thread; the offset policies ignore streams; each pass has a new allocator.
 *             ns_mean: CPU time of whole passes (a million operations or 20 passes) over the number
 *             of operations, the best of options.runs. p50 and p99: of single allocations, less the
 *             cost of reading the clock, the best of the passes that time each operation. ns_worst:
 *             the maximum over all allocations of the minimum over those passes, which excludes
 *             interruptions by the machine; ns_worst_free: the same of frees.
 *   fit       the smallest capacity in which the workload completes. A larger capacity may fail
 *             where a smaller one completes: bisection to 1/4096 of the peak, then down in steps of
 *             1/1024 as long as one of the next 16 completes.
 *   growth    starts empty and grows at its end, segment by segment, when a request fails: reserved
 *             bytes, upstream calls, and the hit rate (requests served without such a call).
 * Threads: an open workload is constant, so any thread may read it. A replay belongs to one
 * thread; different replays may run at once.
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

/* ---- workloads: allocation traces, the allocations and frees of a program in order ----
 *
 * Two formats are read. mnem's text: "a ID BYTES [STREAM]" allocates, "f ID [STREAM]" frees, "#"
 * begins a comment; an ID is any number and is never reused. A comment behind an allocation that is
 * only a number is the number of its site; a line "# site NUMBER TEXT" gives the text of a site.
 * PyTorch's memory snapshot: the pickle that torch.cuda.memory._dump_snapshot writes, read without
 * executing anything. Sizes, ids and order are checked.
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
    uint64_t bytes_peak;  /* the largest sum of live bytes, as requested */
    uint64_t bytes_total; /* of all allocations */
    uint64_t bytes_end;   /* live after the last op */
    uint32_t blocks_peak; /* the most live blocks at one time */
    uint32_t streams;     /* number of different streams */
    const char *format;   /* "text", "PyTorch snapshot" */
    /* Snapshots; zero for text. */
    uint32_t device, devices;     /* the device that was read; devices with events or blocks */
    uint64_t segments_asked;      /* segment_alloc and segment_map events */
    uint64_t bytes_reserved_peak; /* by PyTorch, where the record shows it */
    uint64_t dropped;             /* events that contradict others, skipped or corrected */
} mnem_workload_info;

/* Zero means default. */
typedef struct mnem_workload_options {
    bool device_given; /* read `device` (default: the device with most events in the snapshot) */
    uint32_t device;
    mnem_progress progress; /* bytes read; the total isn't known */
} mnem_workload_options;

/* options may be NULL. MNEM_IO, MNEM_BAD_FILE (with the line or the byte; also for a file without
 * allocations), MNEM_UNSUPPORTED (compressed, or a pickle that needs to run code), MNEM_NOT_FOUND
 * (no such device), MNEM_CANCELLED, MNEM_NO_MEMORY; *workload is NULL on failure. */
mnem_status mnem_workload_open(const char *path, const mnem_workload_options *options,
                               mnem_workload **workload);
/* The same from an open file or pipe, up to its end. fd stays open. name is used in messages. */
mnem_status mnem_workload_open_fd(const char *name, int fd, const mnem_workload_options *options,
                                  mnem_workload **workload);
/* The same from bytes in memory. */
mnem_status mnem_workload_read(const char *name, const void *data, size_t bytes,
                               const mnem_workload_options *options, mnem_workload **workload);
void mnem_workload_close(mnem_workload *workload); /* NULL is fine */
void mnem_workload_info_get(const mnem_workload *workload, mnem_workload_info *info);
/* The site that allocated a block, such as "train.py:41 forward"; "" where the trace has none.
 * Borrowed until close. */
const char *mnem_workload_site(const mnem_workload *workload, uint32_t block);

/* ---- targets ---- */

typedef struct mnem_replay_usage {
    uint64_t bytes_reserved; /* held from upstream now */
    uint64_t bytes_reserved_peak;
    uint64_t upstream_calls; /* allocations, maps and extensions requested from the device */
    uint64_t misses;         /* requests that needed such a call; "pool": not served by reuse */
    uint64_t segment_bytes;  /* growth step; 0: no growth, or steps of different sizes */
    uint64_t bytes_zero_copy, bytes_staged; /* transferred by host buffers (device.h) */
} mnem_replay_usage;

/* An allocator as a replay sees it. Callers may implement one; each function gets the table itself
 * as `self`, which may be the first member of a larger struct. */
typedef struct mnem_replay_target mnem_replay_target;
struct mnem_replay_target {
    const char *name;
    /* Creates an empty allocator for blocks 0 .. allocations - 1 of w. start == most: a fixed
     * capacity of that many bytes; start 0: reserves nothing and grows up to most (0: no limit).
     * MNEM_UNSUPPORTED if it can't grow, or can't be limited. */
    mnem_status (*open)(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                        uint64_t most);
    /* MNEM_OVER_BUDGET when no free space is large enough; any other failure ends the replay. */
    mnem_status (*alloc)(mnem_replay_target *self, uint32_t block, uint64_t bytes, uint32_t stream);
    void (*free)(mnem_replay_target *self, uint32_t block, uint32_t stream);
    void (*close)(mnem_replay_target *self); /* after open; discards live blocks */
    void (*usage)(const mnem_replay_target *self, mnem_replay_usage *usage);
    /* Offset of a live block, and its bytes as rounded. NULL: the target has no offsets. */
    uint64_t (*place)(const mnem_replay_target *self, uint32_t block, uint64_t *bytes);
    void (*destroy)(mnem_replay_target *self); /* NULL: nothing to destroy */
};

/* Zero means default. */
typedef struct mnem_replay_settings {
    uint64_t alignment;     /* default 256 */
    uint64_t segment_bytes; /* growth step, rounded up to 4 KiB (default: the workload's peak / 64,
                               as a power of two of at least 2 MiB) */
} mnem_replay_settings;

/* name: a policy of mnem_offset_policy_parse; "pool": a whole pool (pool.h) on the null device,
 * with the workload's streams (above 128 streams, some share one) and its own growth rule;
 * "granules": blocks in 2 MiB granules that can be remapped (docs/pool.md), whose mapping calls are
 * counted but not made, with a capacity in whole granules, and remapping before growth; or
 * "pytorch". MNEM_NOT_FOUND: the error text lists the names. */
mnem_status mnem_replay_target_create(const char *name, const mnem_replay_settings *settings,
                                      mnem_replay_target **target);
void mnem_replay_target_destroy(mnem_replay_target *target); /* NULL is fine */
/* The i-th name that create accepts, the default policy first; NULL past the last. */
const char *mnem_replay_target_name(unsigned i);

enum {
    MNEM_REPLAY_TIME = 1,   /* ns_* */
    MNEM_REPLAY_FIT = 2,    /* capacity_* */
    MNEM_REPLAY_GROWTH = 4, /* reserved_*, hit_rate, upstream_calls */
};

/* Zero means default. */
typedef struct mnem_replay_options {
    unsigned measure;   /* MNEM_REPLAY_* (default: all) */
    uint64_t capacity;  /* for time and growth (default for time: four times the peak, or what FIT
                           measured if that is more; for growth: no limit) */
    uint32_t runs;      /* timings of a million operations or 20 passes each (default 3) */
    uint32_t runs_each; /* passes in which each operation is timed (default 5) */
    mnem_progress progress; /* about every 65536 operations; an estimate of the share done */
} mnem_replay_options;

typedef struct mnem_replay_result {
    const char *name;  /* the target's */
    unsigned measured; /* MNEM_REPLAY_*; members of other measurements are zero */
    double ns_mean, ns_p50, ns_p99, ns_worst, ns_worst_free;
    uint64_t bytes_capacity;        /* of the timed passes */
    uint64_t bytes_capacity_needed; /* the smallest capacity that completes */
    uint64_t bytes_reserved_peak, upstream_calls;
    uint64_t segment_bytes; /* growth step; 0: no growth, or steps of different sizes */
    double capacity_over_live, reserved_over_live; /* divided by the workload's peak */
    double hit_rate;                               /* 0 to 1 */
    double fragmentation;                          /* 1 - peak live / peak reserved */
    uint64_t bytes_zero_copy, bytes_staged;        /* by GROWTH */
    bool refused;      /* the given capacity was too small; measurements not made are zero */
    size_t refused_op; /* the operation that failed, its bytes, and the live bytes then */
    uint64_t refused_bytes, refused_live;
} mnem_replay_result;

/* Measures a target. MNEM_OK also when the given capacity was too small: see result->refused.
 * MNEM_CANCELLED, MNEM_NO_MEMORY, MNEM_INVALID for a workload whose peak is above 2^50 bytes. */
mnem_status mnem_replay_run(const mnem_workload *w, mnem_replay_target *target,
                            const mnem_replay_options *options, mnem_replay_result *result);

/* ---- a map of blocks over time ---- */

typedef struct mnem_replay_box {
    uint64_t offset, bytes; /* bytes: as the target rounds */
    size_t born, died;      /* operations; died == count: still live at the end */
    uint32_t block;
} mnem_replay_box;

typedef struct mnem_replay_moment {
    size_t op;
    uint64_t bytes_live, bytes_reserved; /* after the operation; live: as requested */
} mnem_replay_moment;

/* Runs the workload once (start and most as in open). Calls on_box for every block when it ends,
 * and on_moment after every operation; either may be NULL. MNEM_OVER_BUDGET at the first refusal,
 * after the calls for what came before. MNEM_UNSUPPORTED if the target has no offsets. */
mnem_status mnem_replay_map(const mnem_workload *w, mnem_replay_target *target, uint64_t start,
                            uint64_t most,
                            void (*on_box)(void *context, const mnem_replay_box *box),
                            void (*on_moment)(void *context, const mnem_replay_moment *moment),
                            void *context);

/* ---- verdicts ---- */

/* X(NAME, key, text, good, bad, unit). Where good < bad, values below good are good and above bad
 * are bad; where good > bad, the reverse. */
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

/* Latency is the 99th percentile of an allocation. The zero-copy share is of the bytes that host
 * buffers transferred; traces record none, so only a caller's own target has data. */
mnem_replay_verdict mnem_replay_judge(const mnem_replay_result *result,
                                      mnem_replay_indicator indicator);

#ifdef __cplusplus
}
#endif
#endif
