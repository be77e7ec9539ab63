/* offset_first_fit.c: the free run at the lowest offset that is large enough (Knuth, TAOCP 1, 2.5).
 *
 * The idea: a balanced tree of the free runs by offset in which each run knows the largest of its
 * subtree, so that the first one that fits is found on one way down.
 * Invariant: extra[i] = the most bytes of a run in the subtree of run i.
 * Cost: O(log n) for each call. */
#include "alloc/offset/offset_tree.h"

typedef struct first_fit {
    mnem__fit fit;
    uint32_t root;
} first_fit;

static bool lower_offset(const mnem__run *x, const mnem__run *y) {
    return x->offset < y->offset;
}

static uint64_t subtree_largest(const mnem__runs *r, uint32_t i) {
    return i ? *mnem__run_extra(r, i) : 0;
}

static bool pull_largest(const mnem__runs *r, uint32_t i) {
    const mnem__run *run = mnem__run_at(r, i);
    uint64_t *extra = mnem__run_extra(r, i), largest = run->bytes;
    const uint64_t left = subtree_largest(r, run->left), right = subtree_largest(r, run->right);
    if (left > largest) largest = left;
    if (right > largest) largest = right;
    const bool changed = *extra != largest;
    *extra = largest;
    return changed;
}

static const mnem__tree by_offset = {.less = lower_offset, .pull = pull_largest};

static void first_insert(mnem__fit *f, uint32_t i) {
    mnem__tree_insert(&f->runs, &((first_fit *)f)->root, i, &by_offset);
}

static void first_remove(mnem__fit *f, uint32_t i) {
    mnem__tree_remove(&f->runs, &((first_fit *)f)->root, i, &by_offset);
}

/* The order stays: only sizes are made right, up the way to the run. */
static void first_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__tree_path p = mnem__tree_path_to(&f->runs, &((first_fit *)f)->root, i, &by_offset);
    mnem__run *run = mnem__run_at(&f->runs, i);
    run->offset = offset;
    run->bytes = bytes;
    while (pull_largest(&f->runs, i) && p.depth) i = p.runs[--p.depth];
}

static uint32_t first_find(mnem__fit *f, uint64_t bytes) {
    const mnem__runs *r = &f->runs;
    uint32_t i = ((first_fit *)f)->root;
    if (subtree_largest(r, i) < bytes) return MNEM__RUN_NONE;
    for (;;) {
        const mnem__run *run = mnem__run_at(r, i);
        if (subtree_largest(r, run->left) >= bytes)
            i = run->left;
        else if (run->bytes >= bytes)
            return i;
        else
            i = run->right;
    }
}

static void first_clear(mnem__fit *f) {
    ((first_fit *)f)->root = MNEM__RUN_NONE;
}

static uint64_t first_largest(const mnem__fit *f) {
    return subtree_largest(&f->runs, ((const first_fit *)f)->root);
}

static bool first_check(const mnem__fit *f, uint32_t count) {
    return mnem__tree_count(&f->runs, ((const first_fit *)f)->root, &by_offset) == count;
}

static const mnem__fit_index first_index = {
    .find = first_find,
    .insert = first_insert,
    .remove = first_remove,
    .resize = first_resize,
    .clear = first_clear,
    .largest = first_largest,
    .check = first_check,
    .extra_bytes = sizeof(uint64_t),
};

MNEM__FIT_CALLS(first)

const mnem__offset_ops mnem__offset_first_fit = {
    .size = sizeof(first_fit),
    .alloc_at = mnem__fit_alloc_at,
    MNEM__FIT_OPS(first),
};
