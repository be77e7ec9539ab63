/* offset_size_fit.c: best fit, the smallest free run that is large enough, and worst fit, the
 * largest (Knuth, TAOCP 1, 2.5).
 *
 * The idea: a balanced tree of free runs by size for each size class (offset_bins.h), so that a
 * bitmap finds the tree and the tree is low. Of equal sizes best fit takes the lowest offset, worst
 * fit the highest.
 * Invariant: every free run is in the tree of its class; a bit is set for every tree.
 * Cost: O(log n) for each call, n being the runs of one class. */
#include "alloc/offset/offset_bins.h"
#include "alloc/offset/offset_tree.h"

typedef struct size_fit {
    mnem__fit fit;
    mnem__bins bins; /* heads: roots */
} size_fit;

static bool smaller(const mnem__run *x, const mnem__run *y) {
    return x->bytes != y->bytes ? x->bytes < y->bytes : x->offset < y->offset;
}

static bool pull_nothing(const mnem__runs *r, uint32_t i) {
    (void)r, (void)i;
    return false;
}

static const mnem__tree by_size = {.less = smaller, .pull = pull_nothing};

static inline int bin_of_run(const mnem__fit *f, uint32_t i) {
    return mnem__bin_of(mnem__run_at(&f->runs, i)->bytes >> f->base.shift);
}

static void size_insert(mnem__fit *f, uint32_t i) {
    mnem__bins *b = &((size_fit *)f)->bins;
    const int bin = bin_of_run(f, i);
    mnem__tree_insert(&f->runs, &b->heads[bin], i, &by_size);
    mnem__bin_mark(b, bin);
}

static void size_remove(mnem__fit *f, uint32_t i) {
    mnem__bins *b = &((size_fit *)f)->bins;
    const int bin = bin_of_run(f, i);
    mnem__tree_remove(&f->runs, &b->heads[bin], i, &by_size);
    if (!b->heads[bin]) mnem__bin_unmark(b, bin);
}

static void size_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__run *run = mnem__run_at(&f->runs, i);
    size_remove(f, i);
    run->offset = offset;
    run->bytes = bytes;
    size_insert(f, i);
}

/* The smallest run of a tree that has at least bytes. */
static inline uint32_t tree_least(const mnem__runs *r, uint32_t i, uint64_t bytes) {
    uint32_t least = MNEM__RUN_NONE;
    while (i) {
        const mnem__run *run = mnem__run_at(r, i);
        if (run->bytes >= bytes) least = i;
        i = run->bytes >= bytes ? run->left : run->right;
    }
    return least;
}

static uint32_t best_find(mnem__fit *f, uint64_t bytes) {
    const mnem__bins *b = &((size_fit *)f)->bins;
    int bin = mnem__bin_of(bytes >> f->base.shift);
    const uint32_t i = tree_least(&f->runs, b->heads[bin], bytes);
    if (i) return i;
    bin = mnem__bins_next(b, bin + 1);
    return bin < 0 ? MNEM__RUN_NONE : tree_least(&f->runs, b->heads[bin], bytes);
}

static uint32_t largest_run(const mnem__fit *f) {
    const mnem__bins *b = &((const size_fit *)f)->bins;
    const int bin = mnem__bins_last(b);
    if (bin < 0) return MNEM__RUN_NONE;
    uint32_t i = b->heads[bin];
    while (mnem__run_at(&f->runs, i)->right) i = mnem__run_at(&f->runs, i)->right;
    return i;
}

static uint64_t size_largest(const mnem__fit *f) {
    return mnem__run_at(&f->runs, largest_run(f))->bytes; /* the sentinel has none */
}

static uint32_t worst_find(mnem__fit *f, uint64_t bytes) {
    const uint32_t i = largest_run(f);
    return mnem__run_at(&f->runs, i)->bytes >= bytes ? i : MNEM__RUN_NONE;
}

static void size_clear(mnem__fit *f) {
    ((size_fit *)f)->bins = (mnem__bins){0};
}

static bool size_check(const mnem__fit *f, uint32_t count) {
    const mnem__bins *b = &((const size_fit *)f)->bins;
    uint64_t seen = 0;
    if (!mnem__bins_agree(b)) return false;
    for (int bin = mnem__bins_next(b, 0); bin >= 0; bin = mnem__bins_next(b, bin + 1)) {
        seen += mnem__tree_count(&f->runs, b->heads[bin], &by_size);
        if (bin_of_run(f, b->heads[bin]) != bin) return false;
    }
    return seen == count;
}

#define SIZE_INDEX                                                                                 \
    .insert = size_insert, .remove = size_remove, .resize = size_resize, .clear = size_clear,      \
    .largest = size_largest, .check = size_check
static const mnem__fit_index best_index = {.find = best_find, SIZE_INDEX};
static const mnem__fit_index worst_index = {.find = worst_find, SIZE_INDEX};

MNEM__FIT_CALLS(best)
MNEM__FIT_CALLS(worst)

const mnem__offset_ops mnem__offset_best_fit = {
    .size = sizeof(size_fit),
    .alloc_at = mnem__fit_alloc_at,
    MNEM__FIT_OPS(best),
};

const mnem__offset_ops mnem__offset_worst_fit = {
    .size = sizeof(size_fit),
    .alloc_at = mnem__fit_alloc_at,
    MNEM__FIT_OPS(worst),
};
