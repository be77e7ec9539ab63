/* offset_bucket.c: sizes rounded up to buckets, and merging put off until it is needed (quick
 * lists: Weinstock and Wulf, 1988; Wilson et al., Dynamic Storage Allocation, 3.8, 1995).
 *
 * The idea: of every doubling there are eight sizes. A freed block goes to its bucket as it is, so
 * the next request of that bucket takes it without a split; else a larger run is split. Only when
 * no bucket can serve are free neighbours merged, all of them at once.
 * Invariant: every free run is in the list of its class; `apart` is set when free runs may be
 * neighbours. A walk shows neighbours as one run: one allocation could have it.
 * Cost: two bit scans and no look at the neighbours; a merge walks all runs. */
#include "alloc/offset/offset_lists.h"

typedef struct bucket {
    mnem__listed listed;
    bool apart;
    uint32_t
        blocks_max; /* as long as no more are live, nodes are found by merging, not on the heap */
} bucket;

static inline uint32_t bucket_find(mnem__fit *f, uint64_t bytes) {
    const mnem__bins *b = &((mnem__listed *)f)->bins;
    const int bin = mnem__bins_next(b, mnem__bin_above(bytes >> f->base.shift));
    return bin < 0 ? MNEM__RUN_NONE : b->heads[bin];
}

/* Also a run that is large enough though its class has smaller ones. */
static uint32_t bucket_find_any(mnem__fit *f, uint64_t bytes) {
    const uint32_t i = bucket_find(f, bytes);
    return i ? i : mnem__list_search(f, bytes);
}

static void bucket_clear(mnem__fit *f) {
    mnem__lists_clear(f);
    ((bucket *)f)->apart = false;
}

static const mnem__fit_index bucket_index = {
    .find = bucket_find,
    .clear = bucket_clear,
    MNEM__LISTS_INDEX,
};

static const mnem__fit_index bucket_index_any = {.find = bucket_find_any, MNEM__LISTS_INDEX};

static mnem_status bucket_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    ((mnem__fit *)a)->index = &bucket_index;
    ((bucket *)a)->blocks_max = options->blocks_max;
    return mnem__fit_init(a, options);
}

static inline uint64_t bucket_bytes(uint64_t bytes, uint32_t shift) {
    const uint64_t units = bytes >> shift;
    if (units <= 8) return bytes;
    const uint64_t step = UINT64_C(1) << (mnem__log2_u64(units) - 3);
    return ((units + step - 1) & ~(step - 1)) << shift;
}

/* Merges all free neighbours. */
static void merge(bucket *k) {
    mnem__fit *f = &k->listed.fit;
    mnem__runs *r = &f->runs;
    for (uint32_t i = mnem__run_at(r, 0)->after; i; i = mnem__run_at(r, i)->after) {
        const mnem__run *run = mnem__run_at(r, i);
        uint64_t bytes = run->bytes;
        while (run->is_free && mnem__run_at(r, run->after)->is_free) {
            const uint32_t next = run->after;
            bytes += mnem__run_at(r, next)->bytes;
            mnem__fit_remove(f, next, &bucket_index);
            mnem__run_drop(r, next);
        }
        if (bytes != run->bytes) mnem__list_resize(f, i, run->offset, bytes);
    }
    k->apart = false;
}

/* No bucket can serve: merges; last, forgoes the rounding. */
static __attribute__((noinline)) mnem_status alloc_merged(mnem_offset_allocator *a, uint64_t bytes,
                                                          mnem_offset_block *block) {
    bucket *k = (bucket *)a;
    if (k->apart) merge(k);
    const mnem_status status =
        mnem__fit_alloc(a, bucket_bytes(bytes, a->shift), block, &bucket_index);
    return status == MNEM_OVER_BUDGET ? mnem__fit_alloc(a, bytes, block, &bucket_index_any)
                                      : status;
}

/* Whether the split of a run would take heap that merging spares. */
static inline bool nodes_short(const bucket *k) {
    const mnem__runs *r = &k->listed.fit.runs;
    return __builtin_expect(!r->spare && r->used == r->room, 0) && k->apart &&
           k->listed.fit.base.blocks_live < k->blocks_max;
}

static mnem_status bucket_alloc(mnem_offset_allocator *a, uint64_t bytes,
                                mnem_offset_block *block) {
    if (nodes_short((bucket *)a)) merge((bucket *)a);
    const mnem_status status =
        mnem__fit_alloc(a, bucket_bytes(bytes, a->shift), block, &bucket_index);
    return __builtin_expect(status == MNEM_OVER_BUDGET, 0) ? alloc_merged(a, bytes, block) : status;
}

static void bucket_free(mnem_offset_allocator *a, uint32_t handle) {
    bucket *k = (bucket *)a;
    const mnem__run *run = mnem__run_at(&k->listed.fit.runs, handle);
    assert(handle && handle < k->listed.fit.runs.used && !run->is_free);
    a->bytes_live -= run->bytes;
    a->blocks_live--;
    mnem__fit_insert(&k->listed.fit, handle, &bucket_index);
    k->apart = true;
}

static mnem_status bucket_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                   mnem_offset_block *block) {
    merge((bucket *)a);
    return mnem__fit_alloc_at(a, offset, bytes, block);
}

static mnem_status bucket_extend(mnem_offset_allocator *a, uint64_t bytes) {
    merge((bucket *)a);
    return mnem__fit_extend(a, bytes);
}

static void bucket_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    const mnem__runs *r = &((const mnem__fit *)a)->runs;
    for (uint32_t i = mnem__run_at(r, 0)->after; i;) {
        const mnem__run *run = mnem__run_at(r, i);
        const uint64_t offset = run->offset;
        const uint32_t handle = run->is_free ? UINT32_MAX : i;
        uint64_t bytes = run->bytes;
        i = run->after;
        while (handle == UINT32_MAX && mnem__run_at(r, i)->is_free) {
            bytes += mnem__run_at(r, i)->bytes;
            i = mnem__run_at(r, i)->after;
        }
        visit(context, offset, bytes, handle);
    }
}

const mnem__offset_ops mnem__offset_bucket = {
    .size = sizeof(bucket),
    .init = bucket_init,
    .fini = mnem__fit_fini,
    .alloc = bucket_alloc,
    .free = bucket_free,
    .alloc_at = bucket_alloc_at,
    .extend = bucket_extend,
    .reset = mnem__fit_reset,
    .block_bytes = mnem__fit_block_bytes,
    .walk = bucket_walk,
    .check = mnem__fit_check,
};
