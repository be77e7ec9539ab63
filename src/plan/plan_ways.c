/* plan_ways.c: the fastest way that fits, and the smallest that is fast enough.
 *
 * Idea: a walk over all ways. Measuring one may be dear (a graph is built), so a way may come with
 * a bound of its bytes first: for the fastest, one that its bound rules out is never measured; for
 * the smallest, the one whose bytes are least is measured until it was.
 * Invariant: the choice is the one that exact bytes would make; bounds save work only.
 * Cost: the fastest takes one walk, the smallest one for each way that it measures. */
#include "plan/plan_ways.h"
#include "base/error.h"

static const mnem__plan_way none = {.index = -1};

static bool look(const mnem__plan_ways *ways, int64_t i, mnem__plan_way *way) {
    *way = (mnem__plan_way){.index = i};
    return ways->look(ways->owner, i, way);
}

static bool is_faster(const mnem__plan_way *a, const mnem__plan_way *b) {
    return b->index < 0 || a->seconds < b->seconds ||
           (a->seconds == b->seconds && a->bytes < b->bytes);
}

static bool is_smaller(const mnem__plan_way *a, const mnem__plan_way *b) {
    return b->index < 0 || a->bytes < b->bytes || (a->bytes == b->bytes && a->seconds < b->seconds);
}

static mnem_status measure(const mnem__plan_ways *ways, mnem__plan_way *way) {
    const mnem_status status = ways->measure(ways->owner, way->index);
    if (status == MNEM_OK) look(ways, way->index, way);
    return status;
}

mnem_status mnem__plan_fastest(const mnem__plan_ways *ways, uint64_t budget, mnem__plan_way *best) {
    mnem__plan_way found = none, way;
    *best = none;
    for (int64_t i = 0; i < ways->count; i++) {
        if (!look(ways, i, &way) || way.bytes > budget || !is_faster(&way, &found)) continue;
        if (way.bound) {
            MNEM__TRY(measure(ways, &way));
            if (way.bytes > budget || !is_faster(&way, &found)) continue;
        }
        found = way;
    }
    *best = found;
    return MNEM_OK;
}

mnem_status mnem__plan_smallest(const mnem__plan_ways *ways, double seconds, mnem__plan_way *best) {
    for (;;) {
        mnem__plan_way found = none, way;
        for (int64_t i = 0; i < ways->count; i++)
            if (look(ways, i, &way) && way.seconds < seconds && is_smaller(&way, &found))
                found = way;
        *best = found;
        if (found.index < 0 || !found.bound) return MNEM_OK;
        *best = none;
        MNEM__TRY(measure(ways, &found));
    }
}
