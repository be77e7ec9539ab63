/* offset_lists.c: what walks the lists of size classes (offset_lists.h).
 *
 * Invariant: every free run is in the list of its class; a bit of the bitmaps is set for every list
 * that isn't empty.
 * Cost: the length of a list; the check, all of them. */
#include "alloc/offset/offset_lists.h"

uint32_t mnem__list_search(const mnem__fit *f, uint64_t bytes) {
    uint32_t i = ((const mnem__listed *)f)->bins.heads[mnem__bin_of(bytes >> f->base.shift)];
    while (i && mnem__run_at(&f->runs, i)->bytes < bytes) i = mnem__run_at(&f->runs, i)->right;
    return i;
}

void mnem__lists_clear(mnem__fit *f) {
    ((mnem__listed *)f)->bins = (mnem__bins){0};
}

uint64_t mnem__lists_largest(const mnem__fit *f) {
    const mnem__bins *b = &((const mnem__listed *)f)->bins;
    const int bin = mnem__bins_last(b);
    uint64_t largest = 0;
    if (bin < 0) return 0;
    for (uint32_t i = b->heads[bin]; i; i = mnem__run_at(&f->runs, i)->right)
        if (mnem__run_at(&f->runs, i)->bytes > largest) largest = mnem__run_at(&f->runs, i)->bytes;
    return largest;
}

bool mnem__lists_check(const mnem__fit *f, uint32_t count) {
    const mnem__bins *b = &((const mnem__listed *)f)->bins;
    uint32_t seen = 0;
    if (!mnem__bins_agree(b)) return false;
    for (int bin = mnem__bins_next(b, 0); bin >= 0; bin = mnem__bins_next(b, bin + 1))
        for (uint32_t i = b->heads[bin], left = 0; i; i = mnem__run_at(&f->runs, i)->right) {
            const mnem__run *run = mnem__run_at(&f->runs, i);
            if (!run->is_free || run->left != left || ++seen > count ||
                mnem__list_bin(f, run) != bin)
                return false;
            left = i;
        }
    return seen == count;
}
