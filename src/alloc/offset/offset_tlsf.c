/* offset_tlsf.c: two-level segregated fit (Masmano, Ripoll, Crespo, Real: TLSF, 2004).
 *
 * The idea: a list of free runs for each size class (offset_bins.h). A request takes the first run
 * of the first class in which every run is large enough, so nothing is searched. Only before it
 * refuses does it look through the request's own class, so that what fits is never refused.
 * Invariant: every free run is in the list of its class; a bit is set for every list that isn't
 * empty.
 * Cost: two bit scans and a few cache lines, however many runs. A refusal walks a list. */
#include "alloc/offset/offset_lists.h"

typedef struct tlsf {
    mnem__fit fit;
    mnem__bins bins;
} tlsf;

static inline void tlsf_insert(mnem__fit *f, uint32_t i) {
    mnem__list_insert(f, &((tlsf *)f)->bins, i);
}

static inline void tlsf_remove(mnem__fit *f, uint32_t i) {
    mnem__list_remove(f, &((tlsf *)f)->bins, i);
}

static inline void tlsf_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__list_resize(f, &((tlsf *)f)->bins, i, offset, bytes);
}

static inline uint32_t tlsf_find(mnem__fit *f, uint64_t bytes) {
    mnem__bins *b = &((tlsf *)f)->bins;
    const int bin = mnem__bins_next(b, mnem__bin_above(bytes >> f->base.shift));
    return __builtin_expect(bin >= 0, 1) ? b->heads[bin] : mnem__list_search(f, b, bytes);
}

static void tlsf_clear(mnem__fit *f) {
    ((tlsf *)f)->bins = (mnem__bins){0};
}

static uint64_t tlsf_largest(const mnem__fit *f) {
    return mnem__lists_largest(f, &((const tlsf *)f)->bins);
}

static bool tlsf_check_index(const mnem__fit *f, uint32_t count) {
    return mnem__lists_check(f, &((const tlsf *)f)->bins, count);
}

static const mnem__fit_index tlsf_index = {
    .find = tlsf_find,
    .insert = tlsf_insert,
    .remove = tlsf_remove,
    .resize = tlsf_resize,
    .clear = tlsf_clear,
    .largest = tlsf_largest,
    .check = tlsf_check_index,
};

MNEM__FIT_CALLS(tlsf)

const mnem__offset_ops mnem__offset_tlsf = {
    .size = sizeof(tlsf),
    .alloc_at = mnem__fit_alloc_at,
    MNEM__FIT_OPS(tlsf),
};
