/* snapshots.c: which states of earlier positions are kept.
 *
 * Invariant: a page of a list has a reference for each list that has it; a slot of the store is in
 * a list, or free. Cost: O(lists x entries) where one must go, its square where the store is full,
 * else O(entries). */
#include "engine/pages/snapshots.h"

#include <string.h>

#include "base/minmax.h"

enum { ASKED_WORTH = 4, END_WORTH = 64 };
/* What is behind a snapshot in all lists that have it: no other one that was asked for, one and the
 * same (its name), or several. */
enum { NEXT_NONE = 0, NEXT_SEVERAL = -1, NEXT_NEW = INT32_MAX };

mnem__snapshot *mnem__snapshots_find(const mnem__snapshot_list *list, int32_t n) {
    for (int32_t i = list->count; i-- > 0;)
        if (list->at[i].position <= n) return &list->at[i];
    return NULL;
}

static void hold(mnem__snapshots *x, int32_t page) {
    x->pages->references[page]++;
    if (x->held[page]++ == 0) x->used++;
}

static void let_go(mnem__snapshots *x, int32_t page) {
    if (--x->held[page] == 0) x->used--;
    mnem__kv_pages_give(x->pages, page);
}

static bool has_slot(const mnem__snapshot *s, int32_t slot) {
    return s->page < 0 && s->slot == slot;
}

/* No list has the slot any more, unless another one still does. */
static void leave_slot(mnem__snapshots *x, int32_t slot) {
    x->stored--;
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++)
            if (has_slot(&x->lists[l].at[i], slot)) return;
    if (x->store.drop) x->store.drop(x->store.context, slot);
}

static void drop(mnem__snapshots *x, mnem__snapshot_list *list, int32_t index) {
    const mnem__snapshot gone = list->at[index];
    list->count--;
    memmove(&list->at[index], &list->at[index + 1],
            (size_t)(list->count - index) * sizeof *list->at);
    if (gone.page >= 0)
        let_go(x, gone.page);
    else
        leave_slot(x, gone.slot);
}

/* Drops what is in the slot from all lists. */
static void drop_slot(mnem__snapshots *x, int32_t slot) {
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = x->lists[l].count; i-- > 0;)
            if (has_slot(&x->lists[l].at[i], slot)) drop(x, &x->lists[l], i);
}

/* ---- what one is worth ---- */

/* A page or a slot; above 0. */
static int32_t name_of(const mnem__snapshots *x, const mnem__snapshot *s) {
    return 1 + (s->page >= 0 ? s->page : x->pages->count + s->slot);
}

static void add_next(int32_t *next, int32_t behind) {
    if (behind != NEXT_NONE) *next = *next == NEXT_NONE || *next == behind ? behind : NEXT_SEVERAL;
}

/* Of all pages. longer: the list that is to have a new one that was asked for; NULL: none. */
static void find_next(mnem__snapshots *x, const mnem__snapshot_list *longer) {
    memset(x->next, 0, (size_t)x->pages->count * sizeof *x->next);
    for (int32_t l = 0; l < x->list_count; l++) {
        int32_t behind = &x->lists[l] == longer ? NEXT_NEW : NEXT_NONE;
        for (int32_t i = x->lists[l].count; i-- > 0;) {
            const mnem__snapshot *s = &x->lists[l].at[i];
            if (s->page >= 0) add_next(&x->next[s->page], behind);
            if (s->asked) behind = name_of(x, s);
        }
    }
}

/* Whether sequences are likely to go on from it: it was asked for, and nothing better has come
 * behind it, or texts part there. */
static bool is_end(bool asked, int32_t next) {
    return (asked && next == NEXT_NONE) || next == NEXT_SEVERAL;
}

/* Tokens that would run again without it. */
static int32_t tokens_of(const mnem__snapshot_list *list, int32_t index) {
    const mnem__snapshot *s = &list->at[index];
    return s->position - (index > 0 ? s[-1].position : 0);
}

/* What it would cost to lose it: tokens, the more the later it was used. */
static double cost_of(const mnem__snapshots *x, const mnem__snapshot_list *list, int32_t index,
                      int32_t next) {
    const mnem__snapshot *s = &list->at[index];
    const double tokens = tokens_of(list, index);
    const double most = x->most + x->stored, age = (double)(x->clock - s->used);
    const int32_t worth = (s->asked ? ASKED_WORTH : 1) * (is_end(s->asked, next) ? END_WORTH : 1);
    return tokens * worth * most / (most + age);
}

/* Of a new one behind all of the list. */
static int32_t tokens_of_new(const mnem__snapshot_list *list, int32_t position) {
    return position - (list->count > 0 ? list->at[list->count - 1].position : 0);
}

static double cost_of_new(const mnem__snapshot_list *list, int32_t position, bool asked) {
    return (double)tokens_of_new(list, position) * (asked ? ASKED_WORTH * END_WORTH : 1);
}

/* The page that costs the least to lose, of those that only lists have: as much as the list to
 * which it is worth most. One that is a live state, too, wouldn't come free, while the sequence
 * whose state is kept instead needs a page for its copy. Of equals the first in the lists: pages
 * have other numbers on other ranks. */
static int32_t cheapest(mnem__snapshots *x, const mnem__snapshot_list *longer, double *cost) {
    int32_t found = -1;
    find_next(x, longer);
    memset(x->cost, 0, (size_t)x->pages->count * sizeof *x->cost);
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            if (x->lists[l].at[i].page < 0) continue;
            const int32_t page = x->lists[l].at[i].page;
            double *of = &x->cost[page];
            const double here = cost_of(x, &x->lists[l], i, x->next[page]);
            if (here > *of) *of = here;
        }
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            const int32_t p = x->lists[l].at[i].page;
            if (p >= 0 && x->held[p] == x->pages->references[p] &&
                (found < 0 || x->cost[p] < x->cost[found]))
                found = p;
        }
    *cost = found < 0 ? 0 : x->cost[found];
    return found;
}

/* ---- the store ---- */

static int32_t next_of_slot(const mnem__snapshots *x, int32_t slot) {
    int32_t next = NEXT_NONE;
    for (int32_t l = 0; l < x->list_count; l++) {
        int32_t behind = NEXT_NONE;
        for (int32_t i = x->lists[l].count; i-- > 0;) {
            const mnem__snapshot *s = &x->lists[l].at[i];
            if (has_slot(s, slot)) add_next(&next, behind);
            if (s->asked) behind = name_of(x, s);
        }
    }
    return next;
}

/* What a slot is worth to the list to which it is worth most. */
static double cost_of_slot(const mnem__snapshots *x, int32_t slot) {
    const int32_t next = next_of_slot(x, slot);
    double most = 0;
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            if (!has_slot(&x->lists[l].at[i], slot)) continue;
            const double here = cost_of(x, &x->lists[l], i, next);
            if (here > most) most = here;
        }
    return most;
}

bool mnem__snapshots_drop_stored(mnem__snapshots *x, double cost) {
    int32_t found = -1;
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++) {
            const mnem__snapshot *s = &x->lists[l].at[i];
            if (s->page >= 0) continue;
            const double here = cost_of_slot(x, s->slot);
            if (here < cost) found = s->slot, cost = here;
        }
    if (found >= 0) drop_slot(x, found);
    return found >= 0;
}

/* The slot that the page's bytes are in; below 0: they are not. */
static int32_t write_to_store(mnem__snapshots *x, int32_t page, int32_t position, int32_t tokens,
                              double cost) {
    if (!x->store.write) return MNEM__STORE_NOT;
    for (;;) {
        const int32_t slot = x->store.write(x->store.context, page, position, tokens);
        if (slot != MNEM__STORE_FULL || !mnem__snapshots_drop_stored(x, cost)) return slot;
    }
}

/* Stores a page of lists; below 0: it could not be. */
static int32_t store_page(mnem__snapshots *x, int32_t page, double cost) {
    int32_t position = 0, tokens = 0;
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = 0; i < x->lists[l].count; i++)
            if (x->lists[l].at[i].page == page) {
                position = x->lists[l].at[i].position;
                tokens = mnem__max_i32(tokens, tokens_of(&x->lists[l], i));
            }
    return write_to_store(x, page, position, tokens, cost);
}

/* Lists do without the page: they have it in the store, or not at all. */
static void move_out(mnem__snapshots *x, int32_t page, double cost) {
    const int32_t slot = store_page(x, page, cost);
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = x->lists[l].count; i-- > 0;) {
            mnem__snapshot *s = &x->lists[l].at[i];
            if (s->page != page) continue;
            if (slot < 0) {
                drop(x, &x->lists[l], i);
                continue;
            }
            s->page = -1;
            s->slot = slot;
            x->stored++;
            let_go(x, page);
        }
}

mnem_status mnem__snapshots_save(mnem__snapshots *x, const mnem__snapshot *snapshot, int fd,
                                 uint64_t at, mnem__checksum *sum) {
    const int32_t slot = snapshot->slot;
    const mnem_status status =
        x->store.save ? x->store.save(x->store.context, slot, fd, at, sum) : MNEM_NOT_READY;
    if (status == MNEM_NOT_READY) drop_slot(x, slot);
    return status;
}

bool mnem__snapshots_fetch(mnem__snapshots *x, const mnem__snapshot *snapshot, int32_t page) {
    const int32_t slot = snapshot->slot;
    if (x->store.read && x->store.read(x->store.context, slot, page)) return true;
    drop_slot(x, slot);
    return false;
}

void mnem__snapshots_detach(mnem__snapshots *x) {
    x->store = (mnem__snapshot_store){0};
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t i = x->lists[l].count; i-- > 0;)
            if (x->lists[l].at[i].page < 0) drop(x, &x->lists[l], i);
}

/* ---- memory ---- */

/* Of a list that is full; its last one isn't its end any more. */
static void drop_cheapest_of(mnem__snapshots *x, mnem__snapshot_list *list) {
    int32_t found = 0;
    for (int32_t i = 1; i < list->count; i++)
        if (cost_of(x, list, i, NEXT_NEW) < cost_of(x, list, found, NEXT_NEW)) found = i;
    drop(x, list, found);
}

/* Room for one more page of lists. */
static bool make_room(mnem__snapshots *x, const mnem__snapshot_list *list, int32_t position,
                      bool asked) {
    double cost;
    if (x->used < x->most) return true;
    const int32_t page = cheapest(x, asked ? list : NULL, &cost);
    if (page < 0) return false;
    if (!asked && cost >= cost_of_new(list, position, asked)) return false;
    move_out(x, page, cost);
    return true;
}

/* Behind all that the list has. */
static void append(mnem__snapshots *x, mnem__snapshot_list *list, mnem__snapshot snapshot) {
    if (list->count == x->each) drop_cheapest_of(x, list);
    snapshot.used = x->clock;
    list->at[list->count++] = snapshot;
    if (snapshot.page < 0)
        x->stored++;
    else
        hold(x, snapshot.page);
}

static bool append_stored(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked) {
    const int32_t slot = write_to_store(x, page, position, tokens_of_new(list, position),
                                        cost_of_new(list, position, asked));
    if (slot < 0) return false;
    append(x, list,
           (mnem__snapshot){.position = position, .page = -1, .slot = slot, .asked = asked});
    return true;
}

void mnem__snapshots_take(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked) {
    mnem__snapshot *there = mnem__snapshots_find(list, position);
    if (!mnem__snapshots_any(x) || position == 0) return;
    x->clock++;
    if (there && there->position == position) {
        there->asked |= asked;
        there->used = x->clock;
        return;
    }
    if (x->held[page] > 0 || make_room(x, list, position, asked))
        append(x, list, (mnem__snapshot){.position = position, .page = page, .asked = asked});
    else
        (void)append_stored(x, list, position, page, asked);
}

/* Where a new position belongs in the list; below 0: it is there already, or the list is full. */
static int32_t place_of(const mnem__snapshots *x, const mnem__snapshot_list *list,
                        int32_t position) {
    int32_t i = list->count;
    if (list->count == x->each) return -1;
    while (i > 0 && list->at[i - 1].position > position) i--;
    return i > 0 && list->at[i - 1].position == position ? -1 : i;
}

static void insert_at(mnem__snapshots *x, mnem__snapshot_list *list, int32_t i,
                      mnem__snapshot snapshot) {
    memmove(&list->at[i + 1], &list->at[i], (size_t)(list->count - i) * sizeof *list->at);
    snapshot.used = x->clock;
    list->at[i] = snapshot;
    list->count++;
    if (snapshot.page < 0)
        x->stored++;
    else
        hold(x, snapshot.page);
}

void mnem__snapshots_insert(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position,
                            int32_t page) {
    const int32_t i = place_of(x, list, position);
    if (i < 0 || x->used == x->most) return;
    insert_at(x, list, i, (mnem__snapshot){.position = position, .page = page});
}

bool mnem__snapshots_load(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position, int fd,
                          uint64_t at, mnem__checksum sum, uint64_t whole) {
    const int32_t i = place_of(x, list, position);
    if (i < 0 || !x->store.load) return false;
    const int32_t tokens = position - (i > 0 ? list->at[i - 1].position : 0);
    const int32_t slot = x->store.load(x->store.context, fd, at, position, tokens, &sum);
    if (slot < 0) return false;
    if (mnem__checksum_get(&sum) != whole) {
        x->store.drop(x->store.context, slot);
        return false;
    }
    insert_at(x, list, i, (mnem__snapshot){.position = position, .page = -1, .slot = slot});
    return true;
}

bool mnem__snapshots_put_away(mnem__snapshots *x, mnem__snapshot_list *list, int32_t position,
                              int32_t page) {
    const mnem__snapshot *there = mnem__snapshots_find(list, position);
    if (there && there->position == position) return true;
    x->clock++;
    return append_stored(x, list, position, page, true);
}

void mnem__snapshots_share(mnem__snapshots *x, const mnem__snapshot_list *from, int32_t n,
                           mnem__snapshot_list *to) {
    for (int32_t i = 0; i < from->count && from->at[i].position <= n; i++) {
        to->at[to->count++] = from->at[i];
        if (from->at[i].page < 0)
            x->stored++;
        else
            hold(x, from->at[i].page);
    }
}

void mnem__snapshots_cut(mnem__snapshots *x, mnem__snapshot_list *list, int32_t n) {
    while (list->count > 0 && list->at[list->count - 1].position > n)
        drop(x, list, list->count - 1);
}
