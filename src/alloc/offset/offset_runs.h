/* offset_runs.h: the managed range as a list of live and free runs with links to their
 * neighbours, and the allocation that policies share; they differ in their index of the free
 * runs.
 *
 *     run 0 (sentinel) <-> [ live ] <-> [ free ] <-> [ live ] <-> run 0
 *                                         ^ in the policy's index
 *
 * Runs are numbered; their nodes lie in chunks that never move, so growth adds a chunk without a
 * copy. A handle is the number of a live run. Free runs are merged at once, so none are
 * neighbours. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_RUNS_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_RUNS_H

#include <assert.h>

#include "alloc/offset/offset_policy.h"
#include "base/heap.h"

enum {
    MNEM__RUN_NONE = 0, /* the sentinel's number is in no index */
    MNEM__RUN_CHUNK_SHIFT = 11,
    MNEM__RUN_CHUNK = 1 << MNEM__RUN_CHUNK_SHIFT,
    MNEM__RUN_BITS = 26, /* 2^26 runs: 2 GiB of nodes */
};

/* 32 bytes. left, right and level belong to the index, while the run is free. */
typedef struct mnem__run {
    uint64_t offset, bytes;
    uint32_t before, after; /* neighbours; after links the spare nodes */
    uint32_t left : MNEM__RUN_BITS, level : 6;
    uint32_t right : MNEM__RUN_BITS, is_free : 1;
} mnem__run;
_Static_assert(sizeof(mnem__run) == 32, "two nodes in a cache line");

typedef struct mnem__runs {
    mnem__run **chunks;  /* [chunk_room] of which chunk_count are there */
    uint32_t used, room; /* nodes that were ever used; existing nodes */
    uint32_t spare, spare_count;
    uint32_t free_count; /* free runs */
    uint32_t chunk_count, chunk_room;
    uint32_t extra_bytes; /* per node, behind the nodes of a chunk */
} mnem__runs;

typedef struct mnem__fit mnem__fit;

/* An index of the free runs. find: a run of at least bytes, or MNEM__RUN_NONE. */
typedef struct mnem__fit_index {
    uint32_t (*find)(mnem__fit *f, uint64_t bytes);
    void (*insert)(mnem__fit *f, uint32_t i);
    void (*remove)(mnem__fit *f, uint32_t i);
    /* Changes the offset and size of run i, which is in the index and stays free; the order of
     * runs by offset stays the same. */
    void (*resize)(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes);
    void (*clear)(mnem__fit *f);
    uint64_t (*largest)(const mnem__fit *f);
    /* Whether it holds exactly count free runs, each in its place. */
    bool (*check)(const mnem__fit *f, uint32_t count);
    uint32_t extra_bytes;
} mnem__fit_index;

struct mnem__fit {
    struct mnem_offset_allocator base;
    mnem__runs runs;
    const mnem__fit_index *index;
};

static inline mnem__run *mnem__run_at(const mnem__runs *r, uint32_t i) {
    return r->chunks[i >> MNEM__RUN_CHUNK_SHIFT] + (i & (MNEM__RUN_CHUNK - 1));
}

/* The extra data of node i, for policies with 8 extra bytes. */
static inline uint64_t *mnem__run_extra(const mnem__runs *r, uint32_t i) {
    uint64_t *extra = (uint64_t *)(r->chunks[i >> MNEM__RUN_CHUNK_SHIFT] + MNEM__RUN_CHUNK);
    return extra + (i & (MNEM__RUN_CHUNK - 1));
}

/* Makes room in the table of chunks for this many nodes (at most 2^26), without writing it. */
bool mnem__runs_reserve(mnem__runs *r, uint64_t nodes_most);
/* Allocates this many nodes, or as many as the table has room for. */
bool mnem__runs_prepare(mnem__runs *r, uint64_t nodes);
bool mnem__runs_grow(mnem__runs *r);
void mnem__runs_fini(mnem__runs *r);

/* Whether n nodes can be taken without the heap. */
static inline bool mnem__runs_ready(mnem__runs *r, uint32_t n) {
    return __builtin_expect(r->spare_count + (r->room - r->used) >= n, 1) || mnem__runs_grow(r);
}

static inline uint32_t mnem__run_take(mnem__runs *r) {
    if (!r->spare) return r->used++;
    uint32_t i = r->spare;
    r->spare = mnem__run_at(r, i)->after;
    r->spare_count--;
    return i;
}

static inline void mnem__run_give(mnem__runs *r, uint32_t i) {
    mnem__run *run = mnem__run_at(r, i);
    run->is_free = 1; /* so that a second free is seen */
    run->after = r->spare;
    r->spare = i;
    r->spare_count++;
}

/* Adds a run behind run i; a node must be ready. */
static inline uint32_t mnem__run_add(mnem__runs *r, uint32_t i, uint64_t offset, uint64_t bytes) {
    const uint32_t j = mnem__run_take(r);
    mnem__run *before = mnem__run_at(r, i);
    *mnem__run_at(r, j) =
        (mnem__run){.offset = offset, .bytes = bytes, .before = i, .after = before->after};
    mnem__run_at(r, before->after)->before = j;
    before->after = j;
    return j;
}

/* Removes run i from the list; its neighbour has its bytes. */
static inline void mnem__run_drop(mnem__runs *r, uint32_t i) {
    const mnem__run *run = mnem__run_at(r, i);
    mnem__run_at(r, run->before)->after = run->after;
    mnem__run_at(r, run->after)->before = run->before;
    mnem__run_give(r, i);
}

#define MNEM__FIT_INLINE static inline __attribute__((always_inline))

MNEM__FIT_INLINE void mnem__fit_insert(mnem__fit *f, uint32_t i, const mnem__fit_index *index) {
    mnem__run_at(&f->runs, i)->is_free = 1;
    f->runs.free_count++;
    index->insert(f, i);
}

MNEM__FIT_INLINE void mnem__fit_remove(mnem__fit *f, uint32_t i, const mnem__fit_index *index) {
    index->remove(f, i);
    mnem__run_at(&f->runs, i)->is_free = 0;
    f->runs.free_count--;
}

/* An allocation takes the low end of the run that the index finds, as a new run before it, so
 * the free run often keeps its place in the index. Callers pass a constant index, whose
 * functions are inlined. */
MNEM__FIT_INLINE mnem_status mnem__fit_alloc(mnem_offset_allocator *a, uint64_t bytes,
                                             mnem_offset_block *block,
                                             const mnem__fit_index *index) {
    mnem__fit *f = (mnem__fit *)a;
    mnem__runs *r = &f->runs;
    uint32_t i = index->find(f, bytes);
    if (i == MNEM__RUN_NONE) return MNEM_OVER_BUDGET;
    mnem__run *run = mnem__run_at(r, i);
    const uint64_t offset = run->offset, rest = run->bytes - bytes;
    if (!rest) {
        mnem__fit_remove(f, i, index);
    } else {
        if (!mnem__runs_ready(r, 1)) return MNEM_NO_MEMORY; /* the heap refused, not a budget */
        index->resize(f, i, offset + bytes, rest);
        i = mnem__run_add(r, run->before, offset, bytes);
    }
    a->bytes_live += bytes;
    a->blocks_live++;
    *block = (mnem_offset_block){.offset = offset, .handle = i};
    return MNEM_OK;
}

MNEM__FIT_INLINE void mnem__fit_free(mnem_offset_allocator *a, uint32_t i,
                                     const mnem__fit_index *index) {
    mnem__fit *f = (mnem__fit *)a;
    mnem__runs *r = &f->runs;
    assert(i && i < r->used && !mnem__run_at(r, i)->is_free);
    const mnem__run *run = mnem__run_at(r, i);
    const uint32_t j = run->before, k = run->after;
    const mnem__run *before = mnem__run_at(r, j), *after = mnem__run_at(r, k);
    uint64_t bytes = run->bytes;
    a->bytes_live -= bytes;
    a->blocks_live--;
    if (before->is_free) {
        if (after->is_free) {
            bytes += after->bytes;
            mnem__fit_remove(f, k, index);
            mnem__run_drop(r, k);
        }
        index->resize(f, j, before->offset, before->bytes + bytes);
        mnem__run_drop(r, i);
    } else if (after->is_free) {
        index->resize(f, k, run->offset, after->bytes + bytes);
        mnem__run_drop(r, i);
    } else {
        mnem__fit_insert(f, i, index);
    }
}

/* The rest of the table (offset_policy.h) for policies whose struct starts with mnem__fit and whose
 * init sets f->index before mnem__fit_init. */
mnem_status mnem__fit_init(mnem_offset_allocator *a, const mnem_offset_options *options);
void mnem__fit_fini(mnem_offset_allocator *a);
mnem_status mnem__fit_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                               mnem_offset_block *block);
mnem_status mnem__fit_extend(mnem_offset_allocator *a, uint64_t bytes);
void mnem__fit_reset(mnem_offset_allocator *a);
uint64_t mnem__fit_block_bytes(const mnem_offset_allocator *a, uint32_t handle);
void mnem__fit_info(const mnem_offset_allocator *a, mnem_offset_info *info);
void mnem__fit_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context);
mnem_status mnem__fit_check(const mnem_offset_allocator *a);

/* The calls that differ between these policies only by their constant index, POLICY_index: each
 * policy has its own, with the index's functions inlined. */
#define MNEM__FIT_CALLS(policy)                                                                    \
    static mnem_status policy##_init(mnem_offset_allocator *a, const mnem_offset_options *o) {     \
        ((mnem__fit *)a)->index = &policy##_index;                                                 \
        return mnem__fit_init(a, o);                                                               \
    }                                                                                              \
    static mnem_status policy##_alloc(mnem_offset_allocator *a, uint64_t bytes,                    \
                                      mnem_offset_block *block) {                                  \
        return mnem__fit_alloc(a, bytes, block, &policy##_index);                                  \
    }                                                                                              \
    static void policy##_free(mnem_offset_allocator *a, uint32_t handle) {                         \
        mnem__fit_free(a, handle, &policy##_index);                                                \
    }
/* The entries of the table for these calls and for those common to all; the policy sets
 * alloc_at. */
#define MNEM__FIT_OPS(policy)                                                                      \
    .init = policy##_init, .alloc = policy##_alloc, .free = policy##_free, .fini = mnem__fit_fini, \
    .extend = mnem__fit_extend, .reset = mnem__fit_reset, .block_bytes = mnem__fit_block_bytes,    \
    .info = mnem__fit_info, .walk = mnem__fit_walk, .check = mnem__fit_check

#endif
