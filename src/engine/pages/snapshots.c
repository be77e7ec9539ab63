/* snapshots.c: which states of earlier positions are kept.
 *
 * Invariant: a page of a list has a reference for each list that has it. Cost: O(lists x entries)
 * where one must go, else O(entries). */
#include "engine/pages/snapshots.h"

#include <string.h>

#include "base/minmax.h"

enum { ASKED_WORTH = 4 };

mnem__snapshot *mnem__snapshots_find(const mnem__snapshot_list *list, int32_t n) {
    for (int32_t i = list->count; i-- > 0;)
        if (list->at[i].position <= n) return &list->at[i];
    return NULL;
}

static void hold(mnem__snapshots *x, int32_t page) {
    x->pages->references[page]++;
    if (x->held[page]++ == 0) x->used++;
}

static void drop(mnem__snapshots *x, mnem__snapshot_list *list, int32_t index) {
    const int32_t page = list->at[index].page;
    if (--x->held[page] == 0) x->used--;
    mnem__kv_pages_give(x->pages, page);
    list->count--;
    memmove(&list->at[index], &list->at[index + 1],
            (size_t)(list->count - index) * sizeof *list->at);
}

/* What it would cost to lose it: tokens, the more the later it was used. */
static double cost_of(const mnem__snapshots *x, const mnem__snapshot_list *list, int32_t index) {
    const mnem__snapshot *s = &list->at[index];
    const double tokens = s->position - (index > 0 ? s[-1].position : 0);
    const double most = x->most, age = (double)(x->clock - s->used);
    return tokens * (s->asked ? ASKED_WORTH : 1) * most / (most + age);
}

/* Of a new one behind all of the list. */
static double cost_of_new(const mnem__snapshot_list *list, int32_t position, bool asked) {
    const int32_t before = list->count > 0 ? list->at[list->count - 1].position : 0;
    return (double)(position - before) * (asked ? ASKED_WORTH : 1);
}

/* The page that costs the least to lose, of those that only lists have: as much as the list to
 * which it is worth most. One that is a live state, too, wouldn't come free, while the sequence
 * whose state is kept instead needs a page for its copy. Of equals the first in the lists: pages
 * have other numbers on other ranks. */
static int32_t cheapest(mnem__snapshots *x, double *cost) {
    int32_t found = -1;
    memset(x->cost, 0, (size_t)x->pages->count * sizeof *x->cost);
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            double *of = &x->cost[x->lists[l].at[i].page];
            const double here = cost_of(x, &x->lists[l], i);
            if (here > *of) *of = here;
        }
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            const int32_t p = x->lists[l].at[i].page;
            if (x->held[p] == x->pages->references[p] && (found < 0 || x->cost[p] < x->cost[found]))
                found = p;
        }
    *cost = found < 0 ? 0 : x->cost[found];
    return found;
}

static void drop_page(mnem__snapshots *x, int32_t page) {
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = x->lists[l].count; i-- > 0;)
            if (x->lists[l].at[i].page == page) drop(x, &x->lists[l], i);
}

static void drop_cheapest_of(mnem__snapshots *x, mnem__snapshot_list *list) {
    int32_t found = 0;
    for (int32_t i = 1; i < list->count; i++)
        if (cost_of(x, list, i) < cost_of(x, list, found)) found = i;
    drop(x, list, found);
}

/* Room for one more page of lists. */
static bool make_room(mnem__snapshots *x, const mnem__snapshot_list *list, int32_t position,
                      bool asked) {
    double cost;
    if (x->used < x->most) return true;
    const int32_t page = cheapest(x, &cost);
    if (page < 0) return false;
    if (!asked && cost >= cost_of_new(list, position, asked)) return false;
    drop_page(x, page);
    return true;
}

void mnem__snapshots_take(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked) {
    mnem__snapshot *there = mnem__snapshots_find(list, position);
    if (x->most == 0 || position == 0) return;
    x->clock++;
    if (there && there->position == position) {
        there->asked |= asked;
        there->used = x->clock;
        return;
    }
    if (x->held[page] == 0 && !make_room(x, list, position, asked)) return;
    if (list->count == x->each) drop_cheapest_of(x, list);
    list->at[list->count++] = (mnem__snapshot){position, page, asked, x->clock};
    hold(x, page);
}

void mnem__snapshots_share(mnem__snapshots *x, const mnem__snapshot_list *from, int32_t n,
                           mnem__snapshot_list *to) {
    for (int32_t i = 0; i < from->count && from->at[i].position <= n; i++) {
        to->at[to->count++] = from->at[i];
        hold(x, from->at[i].page);
    }
}

void mnem__snapshots_cut(mnem__snapshots *x, mnem__snapshot_list *list, int32_t n) {
    while (list->count > 0 && list->at[list->count - 1].position > n)
        drop(x, list, list->count - 1);
}
