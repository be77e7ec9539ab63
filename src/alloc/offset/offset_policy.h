/* offset_policy.h: what a policy of mnem/offset.h implements, and how the calls reach it.
 *
 * A policy is one const table. Its own struct starts with struct mnem_offset_allocator, is made
 * zeroed and on a cache line by mnem_offset_create, and keeps the base's counts. The two calls that
 * must be fast lie as pointers in the first cache line, so that the dispatch is one predicted jump:
 *
 *     struct mnem_offset_allocator
 *     [ alloc | free | bytes | mask | bytes_live | blocks_live, shift | ops | memory ]  64 bytes
 *
 * What the dispatch has checked before a policy sees it: sizes are positive, rounded up to the
 * alignment and at most the managed bytes; offsets are multiples of the alignment. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_POLICY_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_POLICY_H

#include "mnem/offset.h"

#define MNEM__OFFSET_BYTES_MAX (UINT64_C(1) << 62)

typedef void (*mnem__offset_visit)(void *context, uint64_t offset, uint64_t bytes, uint32_t handle);
typedef struct mnem__offset_ops mnem__offset_ops;

struct mnem_offset_allocator {
    mnem_status (*alloc)(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block);
    void (*free)(mnem_offset_allocator *a, uint32_t handle);
    uint64_t bytes;      /* managed, a multiple of the alignment */
    uint64_t mask;       /* alignment - 1 */
    uint64_t bytes_live; /* the policy counts these two */
    uint32_t blocks_live;
    uint32_t shift; /* the alignment is 1 << shift */
    const mnem__offset_ops *ops;
    void *memory; /* what the heap gave */
};

struct mnem__offset_ops {
    size_t size; /* of the policy's struct */

    /* Free neighbours stay apart (buddy), or not every free run can be had (bump): then the largest
     * free run may be smaller than the largest that a walk shows. */
    bool partial;

    /* The base is set. options are complete: no zeros but bytes and blocks_max. On a failure fini
     * is called. */
    mnem_status (*init)(mnem_offset_allocator *a, const mnem_offset_options *options);
    void (*fini)(mnem_offset_allocator *a);
    mnem_status (*alloc)(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block);
    void (*free)(mnem_offset_allocator *a, uint32_t handle);

    /* The range is inside of the managed one. NULL: unsupported. */
    mnem_status (*alloc_at)(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                            mnem_offset_block *block);
    /* bytes, a multiple of the alignment, is more than a->bytes, which the policy sets on success.
     * NULL: unsupported. */
    mnem_status (*extend)(mnem_offset_allocator *a, uint64_t bytes);
    void (*reset)(mnem_offset_allocator *a); /* with the two counts */
    uint64_t (*block_bytes)(const mnem_offset_allocator *a, uint32_t handle);
    /* Sets bytes_largest_free and runs_free; the rest is filled. NULL: a walk shows them. */
    void (*info)(const mnem_offset_allocator *a, mnem_offset_info *info);
    void (*walk)(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context);
    /* The policy's own structure: lists, trees, bitmaps. What a walk shows is checked for all. */
    mnem_status (*check)(const mnem_offset_allocator *a);
};

/* In the order of MNEM_OFFSET_POLICY_LIST. */
extern const mnem__offset_ops mnem__offset_default, mnem__offset_tlsf, mnem__offset_bucket,
    mnem__offset_buddy, mnem__offset_first_fit, mnem__offset_best_fit, mnem__offset_worst_fit,
    mnem__offset_bump;

#endif
