/* mnem/snapshot.h: what a PyTorch memory snapshot says beside its operations (replay.h): who held
 * the memory, what stood in the way of a request that failed, and which settings of PyTorch's
 * allocator would have served the workload in less.
 *
 * Not a profile of time, and nothing of it needs PyTorch or a GPU: a snapshot is read as any
 * workload is. Of a text trace there are operations, and no sites, failures or settings.
 * Threads: as in replay.h; what is created here refers to the workload, which lives on.
 *
 *     mnem_snapshot_holders *h;
 *     if (mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h) == MNEM_OK)
 *         for (size_t i = 0; i < h->count; i++)
 *             printf("%s: %llu bytes\n", h->of[i].site, (unsigned long long)h->of[i].bytes);
 *     mnem_snapshot_holders_destroy(h);
 */
#ifndef MNEM_SNAPSHOT_H
#define MNEM_SNAPSHOT_H

#include "mnem/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- who holds ----
 *
 * A site is the innermost frame of the user's own code that asked for a block: no library's, and
 * nothing of what PyTorch's recorder and allocator put on top. */

#define MNEM_SNAPSHOT_PEAK SIZE_MAX /* the operation at which most bytes are live */

/* How long blocks have been live: in operations, and in microseconds where the snapshot has times
 * (0 otherwise). Of blocks from before the record: since it began. */
typedef struct mnem_snapshot_age {
    uint64_t ops, us;
} mnem_snapshot_age;

typedef struct mnem_snapshot_holder {
    const char *site; /* "/home/me/train.py:41 forward"; "": nobody knows */
    uint64_t bytes, blocks;
    uint64_t blocks_before; /* of those, live before the record began */
    mnem_snapshot_age oldest, median;
} mnem_snapshot_holder;

typedef struct mnem_snapshot_holders {
    size_t ops;             /* after so many operations */
    uint64_t bytes, blocks; /* live then: the sum of all holders */
    size_t count;
    const mnem_snapshot_holder *of; /* [count], the largest first */
} mnem_snapshot_holders;

/* Who holds memory after the first `ops` operations. MNEM_INVALID for more than there are. */
mnem_status mnem_snapshot_holders_create(const mnem_workload *w, size_t ops,
                                         mnem_snapshot_holders **holders);
void mnem_snapshot_holders_destroy(mnem_snapshot_holders *holders); /* NULL is fine */

/* ---- what stood in the way ---- */

typedef struct mnem_snapshot_segment {
    uint64_t address, bytes;
    uint64_t bytes_free, bytes_free_largest;
    uint64_t blocks;  /* live ones, which keep it from going back */
    const char *site; /* that holds most of it */
} mnem_snapshot_segment;

/* A site whose blocks keep partly free segments; a segment counts for each site in it. */
typedef struct mnem_snapshot_pin {
    const char *site;
    uint64_t bytes, blocks; /* of the site, in such segments */
    uint64_t segments, bytes_free;
} mnem_snapshot_pin;

/* The state in which a request failed, rebuilt from the record. reserved = granted + free. */
typedef struct mnem_snapshot_failure {
    size_t op;                  /* operations before it */
    uint64_t bytes;             /* asked for, as PyTorch rounds it */
    const char *site;           /* as above */
    uint64_t bytes_device_free; /* outside of PyTorch */
    uint64_t bytes_live;        /* as asked for */
    uint64_t bytes_granted;     /* with what rounding and unsplit rests add */
    uint64_t bytes_reserved, bytes_free, bytes_free_largest;
    uint64_t holes;
    size_t segments, segment_count;       /* all; those that are partly free, in `segment` */
    const mnem_snapshot_segment *segment; /* most free bytes first */
    size_t pin_count;
    const mnem_snapshot_pin *pin; /* most free bytes first */
} mnem_snapshot_failure;

/* Requests that failed in the record. */
size_t mnem_snapshot_failures(const mnem_workload *w);
/* The i-th of them. MNEM_NOT_FOUND. */
mnem_status mnem_snapshot_failure_create(const mnem_workload *w, size_t i,
                                         mnem_snapshot_failure **failure);
void mnem_snapshot_failure_destroy(mnem_snapshot_failure *failure); /* NULL is fine */

/* ---- PyTorch's settings ---- */

enum { MNEM_PYTORCH_SIZES = 16 };

/* Of PYTORCH_CUDA_ALLOC_CONF; zero: PyTorch's defaults. */
typedef struct mnem_pytorch_settings {
    bool expandable_segments;
    uint64_t max_split_bytes;            /* 0: none */
    double garbage_collection_threshold; /* 0: off; matters within a limit only */
    /* Of requests below 2 MiB, 4 MiB, 8 MiB, ...; powers of two; 0 and 1: off. */
    uint32_t roundup_divisions[MNEM_PYTORCH_SIZES];
} mnem_pytorch_settings;

/* As the snapshot records them; *text is the variable as it was set, borrowed ("": it wasn't, or
 * nobody knows; what isn't ASCII text is '?'). False: the snapshot doesn't say; the defaults. */
bool mnem_snapshot_settings(const mnem_workload *w, mnem_pytorch_settings *settings,
                            const char **text);

/* A model of PyTorch's caching allocator (the target "pytorch") with settings; NULL: defaults. */
mnem_status mnem_pytorch_target_create(const mnem_pytorch_settings *settings,
                                       mnem_replay_target **target);

typedef struct mnem_pytorch_trial {
    bool fits;                      /* in the capacity; always without one */
    uint64_t bytes_reserved_peak;   /* without any limit */
    uint64_t bytes_reserved_within; /* in the capacity, if it fits */
    uint64_t bytes_needed;          /* the smallest capacity found to complete, to 1/1000 */
    size_t refused_op;              /* where it doesn't fit, and for how many bytes */
    uint64_t refused_bytes;
} mnem_pytorch_trial;

/* Replays the workload, and the requests that failed in the record, through that model, from an
 * empty device. capacity 0: none. MNEM_CANCELLED, MNEM_NO_MEMORY, MNEM_INVALID for a workload whose
 * peak is above 2^44 bytes. */
mnem_status mnem_pytorch_try(const mnem_workload *w, const mnem_pytorch_settings *settings,
                             uint64_t capacity, mnem_progress progress, mnem_pytorch_trial *trial);

#ifdef __cplusplus
}
#endif
#endif
