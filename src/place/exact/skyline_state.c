/* skyline_state.c: the state of a dive: lowest offsets, floors, slacks, and what a decision
 * changes.
 *
 * Bound: the items of a clique, each with its lowest offset (release date) and size (work), are
 * jobs of one machine, so r + the sum of sizes with lowest offset >= r must fit, for every r
 * (Jackson, 1955). A lower bound of the slack is kept, and the sum only made when that is used up.
 * Every lowest offset carries the set of decisions that raised it; a failure's set is the union
 * over the items of the bound that broke.
 *
 * Cost: a decision is O(items alive with the placed one + cliques they cover). Old values go to
 * trails, which only grow, so going back takes as long as what is undone. */
#include "place/exact/skyline_state.h"

#include "base/error.h"
#include "base/heap.h"

#define FAR INT64_MAX

typedef struct change { /* an old value, to go back to */
    int64_t *where, value;
} change;

static void set_copy(const mnem__skyline *k, uint64_t *set, const uint64_t *other) {
    for (int32_t w = 0; w < mnem__words_used(k); w++) set[w] = other[w];
}

/* ---- trails ---- */

void *mnem__skyline_extend(mnem__skyline *k, mnem__skyline_vector *v, size_t count, size_t size) {
    if (v->count + count > v->room) {
        const size_t room = 2 * v->room + 1024 + count;
        void *data = k->no_memory ? NULL : mnem__realloc("plan", v->data, room * size);
        if (!data) {
            k->no_memory = true;
            return NULL;
        }
        v->data = data;
        v->room = room;
    }
    v->count += count;
    return (char *)v->data + size * (v->count - count);
}

static void set_value(mnem__skyline *k, int64_t *where, int64_t value) {
    change *c = mnem__skyline_extend(k, &k->changes, 1, sizeof(change));
    if (c) *c = (change){where, *where};
    *where = value;
}

/* The words of the reason, then the item and how many they are. */
static void save_reason(mnem__skyline *k, int32_t item) {
    const int32_t words = mnem__words_used(k);
    uint64_t *saved = mnem__skyline_extend(k, &k->reasons, (size_t)words + 1, sizeof *saved);
    if (!saved) return;
    set_copy(k, saved, mnem__reason_of(k, item));
    saved[words] = (uint64_t)item << 32 | (uint64_t)words;
}

void mnem__skyline_go_back(mnem__skyline *k, const mnem__skyline_frame *f) {
    const change *changes = k->changes.data;
    while (k->changes.count > f->changes) {
        const change *c = &changes[--k->changes.count];
        *c->where = c->value;
    }
    while (k->reasons.count > f->reasons) {
        const uint64_t *last = (uint64_t *)k->reasons.data + k->reasons.count - 1;
        const size_t words = *last & UINT32_MAX;
        memcpy(mnem__reason_of(k, (int32_t)(*last >> 32)), last - words, words * sizeof *last);
        k->reasons.count -= words + 1;
    }
    k->candidates.count = (size_t)f->candidates_end;
    k->parts.count = (size_t)f->parts;
    k->head = f->head;
}

/* ---- the bound of a clique ---- */

/* By low, the highest first; nearly sorted already. Placed ones come first of all. */
static void sort_members(const int64_t *low, int32_t *m, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        const int32_t item = m[i];
        const int64_t key = low[item];
        int32_t at = i;
        for (; at > 0 && low[m[at - 1]] < key; at--) m[at] = m[at - 1];
        m[at] = item;
    }
}

static bool blame_all(mnem__skyline *k, const int32_t *m, int32_t n) {
    mnem__set_clear(k, k->conflict);
    for (int32_t i = 0; i < n; i++) {
        mnem__set_join(k, k->conflict, mnem__reason_of(k, m[i]));
        k->blame[m[i]] += 1;
    }
    return false;
}

bool mnem__skyline_bound(mnem__skyline *k, int32_t clique) {
    const int32_t n = k->s->begin[clique + 1] - k->s->begin[clique];
    int32_t *m = k->order + k->s->begin[clique], first = (int32_t)k->done[clique];
    int64_t work = 0, slack = k->dive->capacity;
    sort_members(k->low, m + first, n - first);
    while (first < n && mnem__is_placed(k, m[first])) first++;
    if (first > k->done[clique]) set_value(k, &k->done[clique], first);
    for (int32_t i = first; i < n; i++) {
        work += k->s->items[m[i]].bytes;
        const int64_t left = k->dive->capacity - work - k->low[m[i]];
        if (left < 0) return blame_all(k, m + first, i + 1 - first);
        if (left < slack) slack = left;
    }
    set_value(k, &k->slack[clique], slack);
    return true;
}

void mnem__skyline_survey(mnem__skyline *k, int32_t clique) {
    int64_t floor = FAR, choices = 0;
    for (int32_t i = k->s->begin[clique] + (int32_t)k->done[clique]; i < k->s->begin[clique + 1];
         i++) {
        const int64_t low = k->low[k->order[i]];
        choices = low < floor ? 1 : choices + (low == floor);
        if (low < floor) floor = low;
    }
    if (floor != k->floor[clique]) set_value(k, &k->floor[clique], floor);
    if (choices != k->choices[clique]) set_value(k, &k->choices[clique], choices);
}

/* ---- what a decision does ---- */

typedef struct raised { /* what one decision raised: cliques [from, to), by at most most */
    int32_t from, to;
    int64_t below; /* below: only cliques whose floor is lower can have new floors */
    /* In the cliques of the item that was placed, what it took is what the others were raised by,
     * so that the bound grows by padding only. */
    const mnem__item *placed;
    int64_t padding;
} raised;

static int64_t align(int64_t offset, int64_t alignment) {
    return (offset + alignment - 1) & -alignment;
}

/* Raises item's low to at least top, for the reasons in k->conflict. */
static bool raise(mnem__skyline *k, int32_t item, int64_t top, raised *r) {
    const mnem__item *it = &k->s->items[item];
    const int64_t low = align(top, it->alignment), old = k->low[item];
    save_reason(k, item);
    set_copy(k, mnem__reason_of(k, item), k->conflict);
    if (low > r->below) r->below = low;
    if (low - top > r->padding) r->padding = low - top;
    set_value(k, &k->low[item], low);
    for (int32_t i = 0; i < mnem__spans_of(it); i++) {
        const mnem__span p = mnem__span_get(k->s, it, i);
        for (int32_t s = p.from; s < p.to; s++) {
            k->dropped[s] += k->floor[s] == old;
            if (k->rose[s] < low - old) k->rose[s] = low - old;
        }
    }
    if (it->first < r->from) r->from = it->first;
    if (it->end > r->to) r->to = it->end;
    if (low <= k->dive->capacity - it->bytes) return true;
    k->blame[item] += 1;
    return false;
}

static bool lives_in(const mnem__skyline *k, const mnem__item *item, int32_t clique) {
    for (int32_t i = 0; item && i < mnem__spans_of(item); i++) {
        const mnem__span p = mnem__span_get(k->s, item, i);
        if (clique >= p.from && clique < p.to) return true;
    }
    return false;
}

/* The slack of a clique after raises; where what is known doesn't say that there is some, the
 * bound does. New thresholds of the bound are at most r->below, and what is left is above them. */
static bool settle_slack(mnem__skyline *k, const raised *r, int32_t s) {
    const int64_t most = lives_in(k, r->placed, s) ? r->padding : k->rose[s];
    if (most == 0 || k->left[s] == 0) return true;
    const int64_t above = k->dive->capacity - r->below - k->left[s];
    int64_t slack = k->slack[s] - most;
    if (above > slack) slack = above < k->slack[s] ? above : k->slack[s];
    if (slack < 0) return mnem__skyline_bound(k, s);
    if (slack != k->slack[s]) set_value(k, &k->slack[s], slack);
    return true;
}

static bool settle(mnem__skyline *k, const raised *r) {
    bool fits = true;
    for (int32_t s = r->from; s < r->to && fits; s++) fits = settle_slack(k, r, s);
    for (int32_t s = r->from; s < r->to; s++) {
        k->rose[s] = 0;
        if (k->dropped[s] == 0) continue;
        if (fits && k->dropped[s] == k->choices[s])
            mnem__skyline_survey(k, s);
        else if (fits)
            set_value(k, &k->choices[s], k->choices[s] - k->dropped[s]);
        k->dropped[s] = 0;
    }
    return fits;
}

/* After a failure before settling. */
static bool unsettled(mnem__skyline *k, const raised *r) {
    memset(k->dropped + r->from, 0, (size_t)(r->to - r->from) * sizeof *k->dropped);
    memset(k->rose + r->from, 0, (size_t)(r->to - r->from) * sizeof *k->rose);
    return false;
}

/* Who lives with an item: those listed (itself too), and the items [first, end). */
typedef struct company {
    const int32_t *listed;
    int32_t count, first, end;
} company;

static company company_of(const mnem__skyline *k, int32_t item) {
    const mnem__cliques *s = k->s;
    const mnem__item *it = &s->items[item];
    if (s->near)
        return (company){s->near + s->near_begin[item],
                         s->near_begin[item + 1] - s->near_begin[item], 0, 0};
    return (company){s->members + s->begin[it->first],
                     s->begin[it->first + 1] - s->begin[it->first], s->starts[it->first + 1],
                     s->starts[it->end]};
}

bool mnem__skyline_place(mnem__skyline *k, int32_t item, int32_t decision) {
    const mnem__item *it = &k->s->items[item];
    const int64_t top = k->low[item] + it->bytes;
    raised r = {it->first, it->end, top, it, 0};
    k->offset[item] = k->low[item];
    k->decided[item] = decision;
    set_value(k, &k->low[item], MNEM__PLACED);
    for (int32_t i = 0; i < mnem__spans_of(it); i++) {
        const mnem__span p = mnem__span_get(k->s, it, i);
        for (int32_t s = p.from; s < p.to; s++) {
            k->dropped[s] = 1;
            set_value(k, &k->left[s], k->left[s] - it->bytes);
        }
    }
    for (int32_t s = it->first; s + 1 < it->end; s++)
        set_value(k, &k->crossing[s], k->crossing[s] - 1);
    set_copy(k, k->conflict, mnem__reason_of(k, item));
    mnem__set_add(k->conflict, decision);
    const company c = company_of(k, item);
    for (int32_t i = 0; i < c.count; i++)
        if (k->low[c.listed[i]] < top && !raise(k, c.listed[i], top, &r)) return unsettled(k, &r);
    for (int32_t i = c.first; i < c.end; i++)
        if (k->low[i] < top && !raise(k, i, top, &r)) return unsettled(k, &r);
    return settle(k, &r);
}

/* Adds to k->conflict why other stands where it does, and to *top where it could end. */
static void consider(mnem__skyline *k, int32_t other, int64_t *top) {
    mnem__set_join(k, k->conflict, mnem__reason_of(k, other));
    if (mnem__is_placed(k, other)) {
        mnem__set_add(k->conflict, k->decided[other]);
        return;
    }
    const int64_t end = k->low[other] + k->s->items[other].bytes;
    if (end < *top) *top = end;
}

/* Item doesn't lie at its low: it rests on something that isn't placed yet. */
static bool lift(mnem__skyline *k, int32_t item, int32_t decision, raised *r) {
    int64_t top = FAR;
    mnem__set_clear(k, k->conflict);
    mnem__set_add(k->conflict, decision);
    mnem__set_join(k, k->conflict, mnem__reason_of(k, item));
    const company c = company_of(k, item);
    for (int32_t i = 0; i < c.count; i++)
        if (c.listed[i] != item) consider(k, c.listed[i], &top);
    for (int32_t i = c.first; i < c.end; i++) consider(k, i, &top);
    if (top == FAR) return false;
    return raise(k, item, top > k->low[item] ? top : k->low[item] + 1, r);
}

bool mnem__skyline_leave(mnem__skyline *k, const mnem__skyline_frame *f, int32_t decision) {
    raised r = {.from = f->clique, .to = f->clique + 1};
    for (int32_t i = k->s->begin[f->clique]; i < k->s->begin[f->clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        if (k->low[item] != f->floor) continue;
        if (!lift(k, item, decision, &r)) return unsettled(k, &r);
    }
    return settle(k, &r);
}

/* ---- memory ---- */

mnem_status mnem__skyline_create(const mnem__cliques *s, mnem__skyline **out) {
    const size_t items = (size_t)s->item_count, cliques = (size_t)s->count;
    const size_t levels = 2 * items + 64, words = (levels + 63) / 64;
    mnem__skyline *k = mnem__calloc("plan", 1, sizeof *k);
    *out = k;
    if (!k) return mnem__heap_status();
    k->s = s;
    k->levels = (int32_t)levels;
    k->words = (int32_t)words;
    const size_t numbers = 4 * items + 8 * cliques + (items + levels + 1) * words;
    const size_t bytes = numbers * sizeof(int64_t) + levels * sizeof(mnem__skyline_frame) +
                         (size_t)s->begin[s->count] * sizeof(int32_t);
    k->low = mnem__calloc("plan", 1, bytes);
    if (!k->low) {
        mnem__skyline_destroy(k);
        *out = NULL;
        return mnem__heap_status();
    }
    k->offset = k->low + items;
    k->decided = k->offset + items;
    k->blame = (double *)(k->decided + items);
    k->floor = (int64_t *)(k->blame + items);
    k->left = k->floor + cliques;
    k->crossing = k->left + cliques;
    k->slack = k->crossing + cliques;
    k->choices = k->slack + cliques;
    k->dropped = k->choices + cliques;
    k->rose = k->dropped + cliques;
    k->done = k->rose + cliques;
    k->reason = (uint64_t *)(k->done + cliques);
    k->conflicts = k->reason + items * words;
    k->conflict = k->conflicts + levels * words;
    k->frames = (mnem__skyline_frame *)(k->conflict + words);
    k->order = (int32_t *)(k->frames + levels);
    memcpy(k->order, s->members, (size_t)s->begin[s->count] * sizeof *k->order);
    return MNEM_OK;
}

void mnem__skyline_destroy(mnem__skyline *k) {
    if (!k) return;
    mnem__free(k->low);
    mnem__free(k->changes.data);
    mnem__free(k->reasons.data);
    mnem__free(k->candidates.data);
    mnem__free(k->parts.data);
    mnem__free(k);
}

const int64_t *mnem__skyline_offsets(const mnem__skyline *k) {
    return k->offset;
}

double *mnem__skyline_blame(mnem__skyline *k) {
    return k->blame;
}
