/* greedy.c: offsets for buffers whose lifetimes are known.
 *
 * Idea: greedy by size (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
 * Inference", 2020): take the buffers from the largest to the smallest; each goes to the lowest gap
 * between the placed ones that live at the same time. The same greedy over length of life is tried
 * too, and the better of both kept.
 * Invariant: after each step, no two placed buffers overlap in both time and bytes.
 * Cost: O(n^2) time, two orders of 4 bytes and one offset of 8 bytes per buffer. */
#include "mnem/place.h"

#include "base/checked.h"
#include "base/heap.h"
#include "place/greedy/clique_load.h"
#include "place/greedy/cliques.h"

typedef bool before(const mnem_place_buffer *a, const mnem_place_buffer *b);

static int64_t life(const mnem_place_buffer *b) {
    return (int64_t)((uint64_t)b->upper - (uint64_t)b->lower);
}

static bool before_by_size(const mnem_place_buffer *a, const mnem_place_buffer *b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return life(a) > life(b);
}

static bool before_by_life(const mnem_place_buffer *a, const mnem_place_buffer *b) {
    if (life(a) != life(b)) return life(a) > life(b);
    return a->bytes > b->bytes;
}

/* Insertion sort: stable, in place, within the O(n^2) of the whole. */
static void sort_order(const mnem_place_buffer *buffers, uint32_t *order, size_t n, before *first) {
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && first(&buffers[i], &buffers[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = (uint32_t)i;
    }
}

static bool alive_together(const mnem_place_buffer *a, const mnem_place_buffer *b) {
    return a->lower < b->upper && b->lower < a->upper;
}

static uint64_t alignment_of(const mnem_place_buffer *b) {
    return b->alignment ? b->alignment : 64;
}

/* The lowest offset where b fits among placed[0..count), which are in the order of offsets. */
static bool lowest_gap(const mnem_place_buffer *buffers, const uint32_t *placed, size_t count,
                       const mnem_place_buffer *b, uint64_t *offset) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const mnem_place_buffer *other = &buffers[placed[i]];
        if (!alive_together(other, b)) continue;
        if (other->offset >= at && other->offset - at >= b->bytes) break;
        const uint64_t end = other->offset + other->bytes;
        if (end > at && !mnem__align_u64(end, alignment_of(b), &at)) return false;
    }
    *offset = at;
    return true;
}

/* Places all in the given order; false on overflow. */
static bool place_in_order(mnem_place_buffer *buffers, const uint32_t *order, uint32_t *placed,
                           size_t n, uint64_t *peak) {
    *peak = 0;
    for (size_t i = 0; i < n; i++) {
        mnem_place_buffer *b = &buffers[order[i]];
        uint64_t end;
        if (!lowest_gap(buffers, placed, i, b, &b->offset)) return false;
        if (!mnem__add_u64(b->offset, b->bytes, &end)) return false;
        if (end > *peak) *peak = end;
        size_t at = i;
        for (; at > 0 && buffers[placed[at - 1]].offset > b->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = order[i];
    }
    return true;
}

mnem_status mnem__place_check(const mnem_place_buffer *buffers, size_t n,
                              mnem_place_result *result) {
    *result = (mnem_place_result){0};
    if (n > INT32_MAX)
        return mnem__fail(MNEM_INVALID, "place: %zu buffers are too many, expected fewer than 2^31",
                          n);
    for (size_t i = 0; i < n; i++) {
        const mnem_place_buffer *b = &buffers[i];
        const uint64_t alignment = alignment_of(b);
        if (b->lower >= b->upper)
            return mnem__fail(
                MNEM_INVALID,
                "place: buffer %zu has lower %lld and upper %lld, expected lower below upper", i,
                (long long)b->lower, (long long)b->upper);
        if (alignment & (alignment - 1))
            return mnem__fail(MNEM_INVALID,
                              "place: buffer %zu has alignment %llu, expected a power of two", i,
                              (unsigned long long)alignment);
        if (!mnem__add_u64(result->total_bytes, b->bytes, &result->total_bytes) ||
            result->total_bytes > INT64_MAX)
            return mnem__fail(MNEM_INVALID,
                              "place: the sizes of buffers 0 to %zu together overflow 64 bits; use "
                              "fewer or smaller buffers",
                              i);
    }
    return MNEM_OK;
}

/* The most that is needed at one time: when some buffer begins. */
static uint64_t lower_bound(const mnem_place_buffer *buffers, size_t n) {
    int64_t most = 0;
    mnem__load load;
    mnem__load_init(&load, buffers, n);
    for (size_t i = 0; i < n; i++) {
        mnem__load_clear(&load);
        for (size_t j = 0; j < n; j++)
            if (buffers[j].lower <= buffers[i].lower && buffers[i].lower < buffers[j].upper)
                mnem__load_add(&load, (int64_t)buffers[j].bytes);
        if (mnem__load_need(&load) > most) most = mnem__load_need(&load);
    }
    return (uint64_t)most;
}

mnem_status mnem_place_greedy(mnem_place_buffer *buffers, size_t n, mnem_place_result *result) {
    mnem_status status = mnem__place_check(buffers, n, result);
    if (status != MNEM_OK || n == 0) return status;
    uint64_t *offsets = mnem__calloc("plan", n, sizeof(uint64_t) + 2 * sizeof(uint32_t));
    if (!offsets) return mnem__heap_status();
    uint32_t *order = (uint32_t *)(offsets + n);
    uint32_t *placed = order + n;
    uint64_t by_life = 0;
    sort_order(buffers, order, n, before_by_size);
    bool fits = place_in_order(buffers, order, placed, n, &result->peak_bytes);
    for (size_t i = 0; i < n; i++) offsets[i] = buffers[i].offset;
    sort_order(buffers, order, n, before_by_life);
    if (fits && place_in_order(buffers, order, placed, n, &by_life) &&
        by_life < result->peak_bytes) {
        result->peak_bytes = by_life;
    } else {
        for (size_t i = 0; i < n; i++) buffers[i].offset = offsets[i];
    }
    mnem__free(offsets);
    if (!fits)
        return mnem__fail(MNEM_INVALID,
                          "place: the offsets of %zu buffers overflow 64 bits; use fewer or "
                          "smaller buffers",
                          n);
    result->lower_bound_bytes = lower_bound(buffers, n);
    return MNEM_OK;
}
