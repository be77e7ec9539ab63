/* offset_policy.h: the interface of a policy of mnem/offset.h, and its dispatch.
 *
 * A policy is a const table. Its struct starts with struct mnem_offset_allocator, which
 * mnem_offset_create allocates zeroed and aligned to a cache line; the policy maintains the
 * base's counts. The pointers of the two fast calls lie in the first cache line, so that the
 * dispatch is one predicted jump:
 *
 *     struct mnem_offset_allocator
 *     [ alloc | free | bytes | mask | bytes_live | blocks_live, shift | ops | memory ]  64 bytes
 *
 * The dispatch checks arguments: sizes are positive, rounded up to the alignment and at most the
 * managed bytes; offsets are multiples of the alignment. */
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

    /* Free neighbours aren't merged (buddy), or not every free run can be used (bump): then the
     * largest usable run may be smaller than the largest that a walk shows. */
    bool partial;

    /* The base is set, and options are complete: only bytes and blocks_max may be 0. After an error
     * fini is called. */
    mnem_status (*init)(mnem_offset_allocator *a, const mnem_offset_options *options);
    void (*fini)(mnem_offset_allocator *a);
    mnem_status (*alloc)(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block);
    void (*free)(mnem_offset_allocator *a, uint32_t handle);

    /* The range lies inside the managed one. NULL: unsupported. */
    mnem_status (*alloc_at)(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                            mnem_offset_block *block);
    /* bytes, a multiple of the alignment, exceeds a->bytes, which the policy sets on success. NULL:
     * unsupported. */
    mnem_status (*extend)(mnem_offset_allocator *a, uint64_t bytes);
    void (*reset)(mnem_offset_allocator *a); /* with the two counts */
    uint64_t (*block_bytes)(const mnem_offset_allocator *a, uint32_t handle);
    /* Sets bytes_largest_free and runs_free; the caller sets the rest. NULL: a walk computes
     * them. */
    void (*info)(const mnem_offset_allocator *a, mnem_offset_info *info);
    void (*walk)(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context);
    /* Checks the policy's own structure: lists, trees, bitmaps. The caller checks what a walk
     * shows. */
    mnem_status (*check)(const mnem_offset_allocator *a);
};

/* In the order of MNEM_OFFSET_POLICY_LIST. */
extern const mnem__offset_ops mnem__offset_default, mnem__offset_tlsf, mnem__offset_bucket,
    mnem__offset_buddy, mnem__offset_first_fit, mnem__offset_best_fit, mnem__offset_worst_fit,
    mnem__offset_bump;

#endif
