/* mnem/snapshot.h: analyses a PyTorch memory snapshot (opened with replay.h): which code held the
 * memory, why an allocation failed, and how much the workload needs with other settings of
 * PyTorch's allocator.
 *
 * It needs neither PyTorch nor a GPU, and doesn't profile time. A text trace has no failures or
 * settings.
 * Threads: as in replay.h. Objects created here borrow the workload, which must outlive them.
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

/* ---- who holds the memory ----
 *
 * A site is the innermost frame of the user's own code in the stack of an allocation: frames of
 * libraries, of PyTorch's recorder and of its allocator are skipped. */

#define MNEM_SNAPSHOT_PEAK SIZE_MAX /* the operation at which most bytes are live */

/* Age of a live block, in operations, and in microseconds where the snapshot has times (else 0).
 * For blocks from before the record: the time since the record began. */
typedef struct mnem_snapshot_age {
    uint64_t ops, us;
} mnem_snapshot_age;

typedef struct mnem_snapshot_holder {
    const char *site; /* "/home/me/train.py:41 forward"; "": not recorded */
    uint64_t bytes, blocks;
    uint64_t blocks_before; /* of these, live before the record began */
    mnem_snapshot_age oldest, median;
} mnem_snapshot_holder;

typedef struct mnem_snapshot_holders {
    size_t ops;             /* the state after so many operations */
    uint64_t bytes, blocks; /* live then: the sum over all holders */
    size_t count;
    const mnem_snapshot_holder *of; /* [count], the largest first */
} mnem_snapshot_holders;

/* Who holds memory after the first `ops` operations. MNEM_INVALID for more than there are. */
mnem_status mnem_snapshot_holders_create(const mnem_workload *w, size_t ops,
                                         mnem_snapshot_holders **holders);
void mnem_snapshot_holders_destroy(mnem_snapshot_holders *holders); /* NULL is fine */

/* ---- why an allocation failed ---- */

typedef struct mnem_snapshot_segment {
    uint64_t address, bytes;
    uint64_t bytes_free, bytes_free_largest;
    uint64_t blocks;  /* live blocks, which keep the segment from being freed */
    const char *site; /* the one that holds most of it */
} mnem_snapshot_segment;

/* A site whose live blocks keep partly free segments from being freed. A segment counts for each
 * site that has blocks in it. */
typedef struct mnem_snapshot_pin {
    const char *site;
    uint64_t bytes, blocks; /* of the site, in such segments */
    uint64_t segments, bytes_free;
} mnem_snapshot_pin;

/* The state in which a request failed, reconstructed from the record. reserved = granted + free. */
typedef struct mnem_snapshot_failure {
    size_t op;                  /* number of operations before it */
    uint64_t bytes;             /* of the request, as PyTorch rounds it */
    const char *site;           /* of the request */
    uint64_t bytes_device_free; /* on the device, not reserved by PyTorch */
    uint64_t bytes_live;        /* as requested */
    uint64_t bytes_granted;     /* with rounding and remainders that weren't split off */
    uint64_t bytes_reserved, bytes_free, bytes_free_largest;
    uint64_t holes;
    size_t segments, segment_count;       /* all; the partly free ones, listed in `segment` */
    const mnem_snapshot_segment *segment; /* most free bytes first */
    size_t pin_count;
    const mnem_snapshot_pin *pin; /* most free bytes first */
} mnem_snapshot_failure;

/* Number of failed requests in the record. */
size_t mnem_snapshot_failures(const mnem_workload *w);
/* The i-th failed request. MNEM_NOT_FOUND: there are fewer. */
mnem_status mnem_snapshot_failure_create(const mnem_workload *w, size_t i,
                                         mnem_snapshot_failure **failure);
void mnem_snapshot_failure_destroy(mnem_snapshot_failure *failure); /* NULL is fine */

/* ---- PyTorch's settings ---- */

enum { MNEM_PYTORCH_SIZES = 16 };

/* The settings of PYTORCH_CUDA_ALLOC_CONF; zero: PyTorch's defaults. */
typedef struct mnem_pytorch_settings {
    bool expandable_segments;
    uint64_t max_split_bytes;            /* 0: none */
    double garbage_collection_threshold; /* 0: off; has an effect only with a capacity */
    /* For requests below 2 MiB, 4 MiB, 8 MiB, ...; powers of two; 0 and 1: off. */
    uint32_t roundup_divisions[MNEM_PYTORCH_SIZES];
} mnem_pytorch_settings;

/* The settings in the snapshot. *text is the value of the variable, borrowed; "" where it wasn't
 * set or recorded; characters that aren't printable ASCII are '?'. False where the snapshot has no
 * settings: *settings has the defaults. */
bool mnem_snapshot_settings(const mnem_workload *w, mnem_pytorch_settings *settings,
                            const char **text);

/* A model of PyTorch's caching allocator (the target "pytorch") with settings; NULL: defaults. */
mnem_status mnem_pytorch_target_create(const mnem_pytorch_settings *settings,
                                       mnem_replay_target **target);

typedef struct mnem_pytorch_trial {
    bool fits;                      /* completes within the capacity; true without one */
    uint64_t bytes_reserved_peak;   /* without a limit */
    uint64_t bytes_reserved_within; /* within the capacity, if it fits */
    uint64_t bytes_needed;          /* smallest capacity found to complete, to 1/1000 */
    size_t refused_op;              /* if it doesn't fit: the first failed operation, its bytes */
    uint64_t refused_bytes;
} mnem_pytorch_trial;

/* Replays the workload, including the requests that failed in the record, through a model of
 * PyTorch's allocator on an empty device. capacity 0: unlimited. MNEM_CANCELLED, MNEM_NO_MEMORY,
 * MNEM_INVALID for a workload whose peak is above 2^44 bytes. */
mnem_status mnem_pytorch_try(const mnem_workload *w, const mnem_pytorch_settings *settings,
                             uint64_t capacity, mnem_progress progress, mnem_pytorch_trial *trial);

#ifdef __cplusplus
}
#endif
#endif
