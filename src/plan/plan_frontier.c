/* plan_frontier.c: the ways that nothing beats, from the smallest to the fastest.
 *
 * Idea: every way is offered to a list that is sorted by bytes; one that is slower than a smaller
 * one is refused, and one that is let in removes the larger ones that it beats. Where measuring is
 * dear, the list is walked instead: the smallest way, then always the smallest that is faster.
 * Invariant: along the list bytes grow and seconds fall, both strictly.
 * Cost: a binary search for each way, and a move of the list's end for each that is let in. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "plan/plan_ways.h"

/* How many ways take at most so many bytes. */
static int32_t count_to(const mnem__plan_frontier *f, uint64_t bytes) {
    int32_t low = 0, high = f->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (f->way[middle].bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mnem_status reserve(mnem__plan_frontier *f) {
    if (f->count < f->room) return MNEM_OK;
    const int32_t room = f->room ? 2 * f->room : 64;
    mnem__plan_way *more = mnem__calloc("plan", (size_t)room, sizeof *more);
    if (!more) return mnem__heap_status();
    if (f->count) memcpy(more, f->way, (size_t)f->count * sizeof *more);
    mnem__free(f->way);
    f->way = more;
    f->room = room;
    return MNEM_OK;
}

static mnem_status offer(mnem__plan_frontier *f, const mnem__plan_way *way) {
    int32_t at = count_to(f, way->bytes);
    if (at > 0 && f->way[at - 1].seconds <= way->seconds) return MNEM_OK;
    MNEM__TRY(reserve(f));
    if (at > 0 && f->way[at - 1].bytes == way->bytes) at--;
    int32_t beaten = at;
    while (beaten < f->count && f->way[beaten].seconds >= way->seconds) beaten++;
    memmove(&f->way[at + 1], &f->way[beaten], (size_t)(f->count - beaten) * sizeof *f->way);
    f->count += 1 - (beaten - at);
    f->way[at] = *way;
    return MNEM_OK;
}

static mnem_status walk(const mnem__plan_ways *ways, double share, mnem__plan_frontier *f) {
    double below = INFINITY;
    for (;;) {
        mnem__plan_way way;
        mnem_status status = mnem__plan_smallest(ways, below, &way);
        if (status != MNEM_OK || way.index < 0) return status;
        status = offer(f, &way);
        if (status != MNEM_OK) return status;
        below = way.seconds * (1 - share);
    }
}

mnem_status mnem__plan_frontier_make(const mnem__plan_ways *ways, double share,
                                     mnem__plan_frontier *frontier) {
    mnem_status status = MNEM_OK;
    *frontier = (mnem__plan_frontier){.way = NULL};
    if (ways->measure) return walk(ways, share, frontier);
    for (int64_t i = 0; i < ways->count && status == MNEM_OK; i++) {
        mnem__plan_way way = {.index = i};
        if (ways->look(ways->owner, i, &way)) status = offer(frontier, &way);
    }
    return status;
}

void mnem__plan_frontier_free(mnem__plan_frontier *frontier) {
    mnem__free(frontier->way);
    *frontier = (mnem__plan_frontier){.way = NULL};
}
