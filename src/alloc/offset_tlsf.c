/* offset_tlsf.c: two-level segregated fit (Masmano, Ripoll, Crespo, Real: TLSF, 2004).
 *
 * The idea: a list of free runs for each size class (offset_bins.h). A request takes the first run
 * of the first class in which every run is large enough, so nothing is searched. Only before it
 * refuses does it look through the request's own class, so that what fits is never refused.
 * Invariant: every free run is in the list of its class; a bit is set for every list that isn't
 * empty.
 * Cost: two bit scans and a few cache lines, whatever the number of runs. A refusal walks a list. */
#include "alloc/offset_bins.h"
#include "alloc/offset_runs.h"

typedef struct tlsf {
    mnem__fit fit;
    mnem__bins bins; /* heads of lists: right is the next run, left the one before */
} tlsf;

static inline uint32_t *head_of(tlsf *t, const mnem__run *run, int *bin) {
    *bin = mnem__bin_of(run->bytes >> t->fit.base.shift);
    return &t->bins.heads[*bin];
}

static inline void tlsf_insert(mnem__fit *f, uint32_t i) {
    tlsf *t = (tlsf *)f;
    mnem__run *run = mnem__run_at(&f->runs, i);
    int bin;
    uint32_t *head = head_of(t, run, &bin);
    run->left = 0;
    run->right = *head;
    if (*head)
        mnem__run_at(&f->runs, *head)->left = i;
    else
        mnem__bin_mark(&t->bins, bin);
    *head = i;
}

static inline void tlsf_remove(mnem__fit *f, uint32_t i) {
    tlsf *t = (tlsf *)f;
    const mnem__run *run = mnem__run_at(&f->runs, i);
    if (run->right) mnem__run_at(&f->runs, run->right)->left = run->left;
    if (run->left) {
        mnem__run_at(&f->runs, run->left)->right = run->right;
        return;
    }
    int bin;
    uint32_t *head = head_of(t, run, &bin);
    *head = run->right;
    if (!*head) mnem__bin_unmark(&t->bins, bin);
}

/* A run of the request's own class that happens to be large enough. */
static __attribute__((noinline)) uint32_t search_own_bin(tlsf *t, uint64_t bytes) {
    const mnem__runs *r = &t->fit.runs;
    uint32_t i = t->bins.heads[mnem__bin_of(bytes >> t->fit.base.shift)];
    while (i && mnem__run_at(r, i)->bytes < bytes) i = mnem__run_at(r, i)->right;
    return i;
}

static inline uint32_t tlsf_find(mnem__fit *f, uint64_t bytes) {
    tlsf *t = (tlsf *)f;
    const int bin = mnem__bins_next(&t->bins, mnem__bin_above(bytes >> f->base.shift));
    return __builtin_expect(bin >= 0, 1) ? t->bins.heads[bin] : search_own_bin(t, bytes);
}

static void tlsf_clear(mnem__fit *f) {
    ((tlsf *)f)->bins = (mnem__bins){0};
}

static uint64_t tlsf_largest(const mnem__fit *f) {
    const tlsf *t = (const tlsf *)f;
    const int bin = mnem__bins_last(&t->bins);
    uint64_t largest = 0;
    if (bin < 0) return 0;
    for (uint32_t i = t->bins.heads[bin]; i; i = mnem__run_at(&f->runs, i)->right)
        if (mnem__run_at(&f->runs, i)->bytes > largest) largest = mnem__run_at(&f->runs, i)->bytes;
    return largest;
}

static bool tlsf_check_index(const mnem__fit *f, uint32_t count) {
    const tlsf *t = (const tlsf *)f;
    uint32_t seen = 0;
    for (int bin = 0; bin < MNEM__BIN_ROWS * MNEM__BIN_CELLS; bin++)
        for (uint32_t i = t->bins.heads[bin], left = 0; i; i = mnem__run_at(&f->runs, i)->right) {
            const mnem__run *run = mnem__run_at(&f->runs, i);
            if (!run->is_free || run->left != left || ++seen > count ||
                mnem__bin_of(run->bytes >> f->base.shift) != bin)
                return false;
            left = i;
        }
    return seen == count && mnem__bins_agree(&t->bins);
}

static const mnem__fit_index tlsf_index = {
    .find = tlsf_find,
    .insert = tlsf_insert,
    .remove = tlsf_remove,
    .clear = tlsf_clear,
    .largest = tlsf_largest,
    .check = tlsf_check_index,
};

static mnem_status tlsf_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    ((mnem__fit *)a)->index = &tlsf_index;
    return mnem__fit_init(a, options);
}

static mnem_status tlsf_alloc(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block) {
    return mnem__fit_alloc(a, bytes, block, &tlsf_index);
}

static void tlsf_free(mnem_offset_allocator *a, uint32_t handle) {
    mnem__fit_free(a, handle, &tlsf_index);
}

const mnem__offset_ops mnem__offset_tlsf = {
    .size = sizeof(tlsf),
    .init = tlsf_init,
    .alloc = tlsf_alloc,
    .free = tlsf_free,
    MNEM__FIT_OPS,
};
