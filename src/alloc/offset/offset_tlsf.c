/* offset_tlsf.c: two-level segregated fit (Masmano, Ripoll, Crespo, Real: TLSF, 2004).
 *
 * The idea: a list of free runs for each size class (offset_bins.h). A request takes the first run
 * of the first class in which every run is large enough, so nothing is searched. Only before it
 * refuses does it look through the request's own class, so that what fits is never refused.
 * Invariant: every free run is in the list of its class; a bit is set for every list that isn't
 * empty.
 * Cost: two bit scans and a few cache lines, however many runs. A refusal walks a list. */
#include "alloc/offset/offset_lists.h"

static inline uint32_t tlsf_find(mnem__fit *f, uint64_t bytes) {
    const mnem__bins *b = &((mnem__listed *)f)->bins;
    const int bin = mnem__bins_next(b, mnem__bin_above(bytes >> f->base.shift));
    return __builtin_expect(bin >= 0, 1) ? b->heads[bin] : mnem__list_search(f, bytes);
}

static const mnem__fit_index tlsf_index = {
    .find = tlsf_find,
    .clear = mnem__lists_clear,
    MNEM__LISTS_INDEX,
};

MNEM__FIT_CALLS(tlsf)

const mnem__offset_ops mnem__offset_tlsf = {
    .size = sizeof(mnem__listed),
    .alloc_at = mnem__fit_alloc_at,
    MNEM__FIT_OPS(tlsf),
};
