/* granule_fit.h: an offset allocator whose memory can be remapped, so that it needs little more
 * than the live bytes.
 *
 * It works on numbers only: it chooses the offset of a block in a large virtual range, and the
 * granules (physical pieces of 2 MiB) to map there. As long as a free run is large enough, it is
 * best fit, and the device is not called. Otherwise scattered free granules are mapped
 * contiguously at a new offset, without copying; the free part of a granule beside a live block
 * is used too, by mapping the granule at both offsets. Not here: the mapping itself (device.h),
 * streams, budgets (pool.h). A granule that is remapped must be idle: free a block only when no
 * queued work uses it any more. Threads: an allocator belongs to one thread at a time.
 *
 *     mnem__granule_fit *f;
 *     mnem__granule_options options = {.granules_max = 512, .carry_out = mine};
 *     mnem__granule_fit_create(&options, &f);
 *     mnem__granule_block b;
 *     if (mnem__granule_fit_alloc(f, 5000, &b) == MNEM_OK) { // mine may have been called
 *         use(range + b.offset);
 *         mnem__granule_fit_free(f, b.handle);
 *     }
 *     mnem__granule_fit_destroy(f);
 * */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_FIT_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_FIT_H

#include "mnem/base.h"

typedef struct mnem__granule_fit mnem__granule_fit;

/* count granules of the virtual range, from offset. */
typedef struct mnem__granule_range {
    uint64_t offset;
    uint32_t count;
} mnem__granule_range;

/* Work for the device, in this order: take memory for the granules in take; map the granules in map
 * contiguously from map_offset (where nothing is mapped); unmap; free memory. Granules are numbers
 * below granules_max; one may be in map while it stays mapped elsewhere. Borrowed. */
typedef struct mnem__granule_order {
    const uint32_t *take, *map, *give;
    const mnem__granule_range *unmap;
    size_t take_count, map_count, unmap_count, give_count;
    uint64_t map_offset;
} mnem__granule_order;

/* Zero means default. */
typedef struct mnem__granule_options {
    uint32_t granules_max;   /* > 0: physical memory is never more */
    uint32_t granules_start; /* taken and mapped by create (default none) */
    uint32_t growth;         /* granules taken at a time (default an eighth of what is there, at
                                least 16, and what the request needs) */
    bool remap_first; /* remap before more granules are taken (default: take all, then remap) */
    uint64_t granule_bytes; /* a power of two, at least 64 alignments (default 2 MiB) */
    uint64_t virtual_bytes; /* of the range (default 16 times the granules; at least twice) */
    uint64_t alignment;     /* of every offset and size, a power of two (default 256) */
    uint32_t blocks_max;    /* metadata for so many live blocks is taken at once; it grows when
                               remaps cut free runs finer than that (default: a start that grows) */
    /* Called inside create, alloc and trim only. A status other than MNEM_OK: nothing was done;
     * alloc returns it. NULL: numbers only. */
    mnem_status (*carry_out)(void *context, const mnem__granule_order *order);
    void *context;
} mnem__granule_options;

typedef struct mnem__granule_block {
    uint64_t offset;
    uint32_t handle; /* of a live block; reused after its free */
} mnem__granule_block;

typedef struct mnem__granule_info {
    uint64_t bytes_live, bytes_free; /* their sum is granules * granule_bytes */
    uint32_t granules, granules_peak;
    uint32_t blocks_live, runs_free;
    uint64_t orders;          /* since create */
    uint64_t granules_mapped; /* in all orders; remapped ones count again */
    uint64_t ranges_unmapped;
    uint64_t remaps; /* orders other than growth and trim */
    uint64_t plans;  /* searches for a remap, each through all free runs */
} mnem__granule_info;

mnem_status mnem__granule_fit_create(const mnem__granule_options *options, mnem__granule_fit **f);
void mnem__granule_fit_destroy(mnem__granule_fit *f); /* calls no carry_out; accepts NULL */

/* MNEM_OVER_BUDGET if granules_max is not enough, without an error text, which the caller sets.
 * MNEM_NO_MEMORY for metadata; or carry_out's status. After an error nothing has changed, except
 * that granules may have been taken. bytes > 0. */
mnem_status mnem__granule_fit_alloc(mnem__granule_fit *f, uint64_t bytes,
                                    mnem__granule_block *block);
void mnem__granule_fit_free(mnem__granule_fit *f, uint32_t handle);
uint64_t mnem__granule_fit_block_bytes(const mnem__granule_fit *f, uint32_t handle); /* rounded */
/* Frees completely free granules, and keeps at least `keep`. */
mnem_status mnem__granule_fit_trim(mnem__granule_fit *f, uint32_t keep);
void mnem__granule_fit_info_get(const mnem__granule_fit *f, mnem__granule_info *info);
/* The granule mapped at an offset; UINT32_MAX: none. */
uint32_t mnem__granule_fit_at(const mnem__granule_fit *f, uint64_t offset);
/* Checks every invariant: each byte of a granule belongs to one run, and lists and sums agree.
 * MNEM_INVALID names the one that failed. For tests; slow. */
mnem_status mnem__granule_fit_check(const mnem__granule_fit *f);

#endif
