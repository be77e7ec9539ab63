/* mnem/offset.h: offset allocators: allocate and free ranges of [0, bytes), as numbers.
 *
 * All metadata is in host memory, apart from the managed memory, which is never touched: it may be
 * a device's, a file's, or not exist. One interface, several policies. Not here: memory, streams,
 * budgets (pool.h).
 * Threads: an allocator belongs to one thread at a time.
 *
 *     mnem_offset_allocator *a;
 *     mnem_offset_create(&(mnem_offset_options){.bytes = 1 << 30}, &a);
 *     mnem_offset_block b;
 *     if (mnem_offset_alloc(a, 5000, &b) == MNEM_OK) {
 *         use(base + b.offset);
 *         mnem_offset_free(a, b.handle);
 *     }
 *     mnem_offset_destroy(a);
 */
#ifndef MNEM_OFFSET_H
#define MNEM_OFFSET_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text): the policies. DEFAULT is mnem's own; the others are textbook ones for comparison.
 */
#define MNEM_OFFSET_POLICY_LIST(X)                                                                 \
    X(DEFAULT, "mnem")                                                                             \
    X(TLSF, "tlsf")                                                                                \
    X(BUCKET, "bucket")                                                                            \
    X(BUDDY, "buddy")                                                                              \
    X(FIRST_FIT, "first-fit")                                                                      \
    X(BEST_FIT, "best-fit")                                                                        \
    X(WORST_FIT, "worst-fit")                                                                      \
    X(BUMP, "bump")

typedef enum mnem_offset_policy {
#define MNEM_OFFSET_POLICY_ENUM(name, text) MNEM_OFFSET_##name,
    MNEM_OFFSET_POLICY_LIST(MNEM_OFFSET_POLICY_ENUM)
#undef MNEM_OFFSET_POLICY_ENUM
        MNEM_OFFSET_POLICY_COUNT
} mnem_offset_policy;

const char *mnem_offset_policy_text(mnem_offset_policy policy);
/* MNEM_NOT_FOUND for an unknown name; the error text lists the policies. */
mnem_status mnem_offset_policy_parse(const char *text, mnem_offset_policy *policy);

typedef struct mnem_offset_allocator mnem_offset_allocator;

/* Zero means default. */
typedef struct mnem_offset_options {
    mnem_offset_policy policy;
    uint64_t bytes;      /* size of the managed range, rounded down to the alignment; at most 2^62;
                            0: empty until mnem_offset_extend */
    uint64_t alignment;  /* of every offset; sizes are rounded up to it: a power of two
                            (default 256) */
    uint32_t blocks_max; /* allocates metadata for so many live blocks in advance; up to that number
                            no call allocates heap (default: metadata grows in chunks) */
} mnem_offset_options;

typedef struct mnem_offset_block {
    uint64_t offset;
    uint32_t handle; /* of a live block; reused after its free */
} mnem_offset_block;

typedef struct mnem_offset_info {
    uint64_t bytes;              /* managed */
    uint64_t bytes_live;         /* of live blocks, as rounded by the policy */
    uint64_t bytes_largest_free; /* the largest allocation possible now */
    uint32_t blocks_live, runs_free;
} mnem_offset_info;

/* MNEM_INVALID: an alignment that is not a power of two or is above 2^32, too many bytes, an
 * unknown policy. MNEM_UNSUPPORTED: more than the policy can manage. MNEM_NO_MEMORY for metadata.
 * */
mnem_status mnem_offset_create(const mnem_offset_options *options, mnem_offset_allocator **a);
void mnem_offset_destroy(mnem_offset_allocator *a); /* discards live blocks; NULL is fine */

/* MNEM_OVER_BUDGET when no free run is large enough; nothing changed, and mnem_last_error isn't
 * set, since the caller knows more. MNEM_INVALID: bytes is 0. MNEM_NO_MEMORY for metadata. */
mnem_status mnem_offset_alloc(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block);
/* Allocates a block at a given offset, a multiple of the alignment. MNEM_BUSY when part of it is
 * live. Slow: may walk all blocks. MNEM_UNSUPPORTED for the policies buddy and bump; MNEM_INVALID
 * when it isn't within the managed range. */
mnem_status mnem_offset_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                 mnem_offset_block *block);
/* handle must be that of a live block (asserted). */
void mnem_offset_free(mnem_offset_allocator *a, uint32_t handle);
/* Grows the managed range at its end to bytes (rounded down to the alignment); does nothing when it
 * is as large already. MNEM_UNSUPPORTED for buddy. MNEM_INVALID above 2^62. */
mnem_status mnem_offset_extend(mnem_offset_allocator *a, uint64_t bytes);
/* Frees all blocks; keeps the memory of the metadata. */
void mnem_offset_reset(mnem_offset_allocator *a);

/* The size of a live block, as rounded by the policy. */
uint64_t mnem_offset_block_bytes(const mnem_offset_allocator *a, uint32_t handle);
void mnem_offset_info_get(const mnem_offset_allocator *a, mnem_offset_info *info);

/* Calls visit for every block and free run in the order of offsets (handle UINT32_MAX: free). */
void mnem_offset_walk(const mnem_offset_allocator *a,
                      void (*visit)(void *context, uint64_t offset, uint64_t bytes,
                                    uint32_t handle),
                      void *context);
/* Checks every invariant: no overlap, sums equal, lists and bitmaps agree, largest free run
 * correct. MNEM_INVALID: the error text names the one that failed. For tests; slow. */
mnem_status mnem_offset_check(const mnem_offset_allocator *a);

#ifdef __cplusplus
}
#endif
#endif
