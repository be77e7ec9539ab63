/* offset_lists.h: an index of free runs for policies that keep a list in every size class.
 *
 * The newest run comes first. right: number of the next run; left: of the previous one. A policy
 * whose struct starts with mnem__listed has MNEM__LISTS_INDEX in its table, beside its find and
 * clear. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_LISTS_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_LISTS_H

#include "alloc/offset/offset_bins.h"
#include "alloc/offset/offset_runs.h"

typedef struct mnem__listed {
    mnem__fit fit;
    mnem__bins bins;
} mnem__listed;

static inline int mnem__list_bin(const mnem__fit *f, const mnem__run *run) {
    return mnem__bin_of(run->bytes >> f->base.shift);
}

static inline void mnem__list_insert(mnem__fit *f, uint32_t i) {
    mnem__bins *b = &((mnem__listed *)f)->bins;
    mnem__run *run = mnem__run_at(&f->runs, i);
    const int bin = mnem__list_bin(f, run);
    const uint32_t next = b->heads[bin];
    run->left = 0;
    run->right = next;
    if (next)
        mnem__run_at(&f->runs, next)->left = i;
    else
        mnem__bin_mark(b, bin);
    b->heads[bin] = i;
}

static inline void mnem__list_remove(mnem__fit *f, uint32_t i) {
    mnem__bins *b = &((mnem__listed *)f)->bins;
    const mnem__run *run = mnem__run_at(&f->runs, i);
    const uint32_t left = run->left, right = run->right;
    if (right) mnem__run_at(&f->runs, right)->left = left;
    if (left) {
        mnem__run_at(&f->runs, left)->right = right;
        return;
    }
    const int bin = mnem__list_bin(f, run);
    b->heads[bin] = right;
    if (!right) mnem__bin_unmark(b, bin);
}

/* Usually the class stays the same, and nothing changes. */
static inline void mnem__list_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__run *run = mnem__run_at(&f->runs, i);
    const bool moves = mnem__list_bin(f, run) != mnem__bin_of(bytes >> f->base.shift);
    if (moves) mnem__list_remove(f, i);
    run->offset = offset;
    run->bytes = bytes;
    if (moves) mnem__list_insert(f, i);
}

/* A large enough run of the size's own class. Searches the whole list. */
uint32_t mnem__list_search(const mnem__fit *f, uint64_t bytes);
void mnem__lists_clear(mnem__fit *f);
uint64_t mnem__lists_largest(const mnem__fit *f);
bool mnem__lists_check(const mnem__fit *f, uint32_t count);

#define MNEM__LISTS_INDEX                                                                          \
    .insert = mnem__list_insert, .remove = mnem__list_remove, .resize = mnem__list_resize,         \
    .largest = mnem__lists_largest, .check = mnem__lists_check

#endif
