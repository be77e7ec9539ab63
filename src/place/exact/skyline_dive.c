/* skyline_dive.c: exact search for a placement within a capacity.
 *
 * Idea: in some solution every item rests on the floor or on another item. Each clique has a floor
 * (nothing more goes below it); together they are a skyline. In a valley, a run of cliques lower
 * than its neighbours, one clique is chosen, and a node decides what lies directly on its floor:
 * one of the items that can, or nothing. Deciding in valleys only leaves no holes to come back to.
 *
 *     floors   ___       ___            A: fits the valley, B doesn't: its lowest offset is that of
 *                 |_____|   |____       the hill it covers, so it isn't a candidate.
 *                  [ A ]
 *                [    B    ]
 *
 * Bound: the items of a clique, each with its lowest offset (release date) and size (work), are
 * jobs of one machine, so r + the sum of sizes with lowest offset >= r must fit, for every r
 * (Jackson, 1955). A lower bound of the slack is kept, and the sum only made when that is used up.
 *
 * Failures explain themselves: every lowest offset carries the set of decisions that raised it; a
 * failure's set is the union over the items of the bound that broke. The search goes back to the
 * deepest decision in the set (conflict-directed backjumping, Prosser 1993). Parts of time that no
 * unplaced item connects are solved one after the other.
 *
 * Gaps: an item whose life has gaps may lie over several valleys at once. Only those cliques are
 * decided whose candidates have no lower floor anywhere; the lowest clique always is one.
 *
 * Invariant: low[i] >= floor of each of its cliques; floor = the least low of those not placed.
 * Cost: a node is O(items alive with the placed one + cliques they cover); only growing trails
 * take memory. */
#include "place/exact/skyline_dive.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"

enum { NONE = -1 };
#define FAR    INT64_MAX
#define PLACED FAR

typedef struct change { /* an old value, to go back to */
    int64_t *where, value;
} change;

typedef struct part { /* cliques that wait to be placed: a list that grows and shrinks at its end */
    int32_t from, to, next;
} part;

typedef struct frame { /* one decision */
    int32_t from, to, clique, head, parts;
    int32_t candidates, next; /* [candidates, candidates_end) of the stack; the one to try */
    int32_t candidates_end;
    size_t changes, reasons;
    int64_t floor;
} frame;

typedef struct vector { /* grows */
    void *data;
    size_t count, room;
} vector;

struct mnem__skyline {
    const mnem__cliques *s;
    const mnem__dive *dive;
    /* of items */
    int64_t *low; /* PLACED once it has an offset */
    int64_t *offset;
    int64_t *decided; /* of placed ones: the decision */
    double *blame;
    uint64_t *reason; /* [items][words]: decisions that raised low */
    /* of cliques */
    int64_t *floor, *left, *crossing, *slack, *choices;
    int64_t *done;    /* of order: so many are placed */
    int64_t *rose;    /* the most that the decision raised an item by, as above */
    int64_t *dropped; /* choices that the decision took, until it is settled */
    int32_t *order;   /* members, roughly by low, highest first: only a cache */
    /* of decisions */
    int32_t levels, words;
    frame *frames;
    uint64_t *conflicts; /* [levels][words]: gathered from the alternatives that failed */
    uint64_t *conflict;  /* [words]: of the last failure */
    int32_t depth, head, last_section;
    vector changes, reasons, candidates, parts; /* change, (item, words), int32_t, part */
    bool no_memory;
};

/* ---- sets of decisions ---- */

static void set_add(uint64_t *set, int64_t decision) {
    set[decision / 64] |= UINT64_C(1) << (decision % 64);
}

static bool set_has(const uint64_t *set, int64_t decision) {
    return set[decision / 64] >> (decision % 64) & 1;
}

/* Words that decisions so far need: what is beyond is 0, or old and unused in k->conflict. */
static int32_t words_used(const mnem__skyline *k) {
    return k->depth / 64 + 1;
}

static void set_join(const mnem__skyline *k, uint64_t *set, const uint64_t *other) {
    for (int32_t w = 0; w < words_used(k); w++) set[w] |= other[w];
}

static void set_copy(const mnem__skyline *k, uint64_t *set, const uint64_t *other) {
    for (int32_t w = 0; w < words_used(k); w++) set[w] = other[w];
}

static void set_clear(const mnem__skyline *k, uint64_t *set) {
    memset(set, 0, (size_t)k->words * sizeof *set);
}

static uint64_t *reason_of(const mnem__skyline *k, int32_t item) {
    return k->reason + (size_t)item * (size_t)k->words;
}

/* ---- trails ---- */

/* Room for count more; NULL: there is no memory, and the dive ends at the next node. */
static void *extend(mnem__skyline *k, vector *v, size_t count, size_t size) {
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
    change *c = extend(k, &k->changes, 1, sizeof(change));
    if (c) *c = (change){where, *where};
    *where = value;
}

/* The words of the reason, then the item and how many they are. */
static void save_reason(mnem__skyline *k, int32_t item) {
    const int32_t words = words_used(k);
    uint64_t *saved = extend(k, &k->reasons, (size_t)words + 1, sizeof *saved);
    if (!saved) return;
    set_copy(k, saved, reason_of(k, item));
    saved[words] = (uint64_t)item << 32 | (uint64_t)words;
}

static void go_back(mnem__skyline *k, const frame *f) {
    const change *changes = k->changes.data;
    while (k->changes.count > f->changes) {
        const change *c = &changes[--k->changes.count];
        *c->where = c->value;
    }
    while (k->reasons.count > f->reasons) {
        const uint64_t *last = (uint64_t *)k->reasons.data + k->reasons.count - 1;
        const size_t words = *last & UINT32_MAX;
        memcpy(reason_of(k, (int32_t)(*last >> 32)), last - words, words * sizeof *last);
        k->reasons.count -= words + 1;
    }
    k->candidates.count = (size_t)f->candidates_end;
    k->parts.count = (size_t)f->parts;
    k->head = f->head;
}

/* ---- the bound of a clique ---- */

static bool is_placed(const mnem__skyline *k, int32_t item) {
    return k->low[item] == PLACED;
}

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
    set_clear(k, k->conflict);
    for (int32_t i = 0; i < n; i++) {
        set_join(k, k->conflict, reason_of(k, m[i]));
        k->blame[m[i]] += 1;
    }
    return false;
}

/* Makes the slack of a clique exact; false and a conflict when it is below 0. */
static bool bound(mnem__skyline *k, int32_t clique) {
    const int32_t n = k->s->begin[clique + 1] - k->s->begin[clique];
    int32_t *m = k->order + k->s->begin[clique], first = (int32_t)k->done[clique];
    int64_t work = 0, slack = k->dive->capacity;
    sort_members(k->low, m + first, n - first);
    while (first < n && is_placed(k, m[first])) first++;
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

/* Floor and number of choices of a clique, from its unplaced items. */
static void survey(mnem__skyline *k, int32_t clique) {
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
    set_copy(k, reason_of(k, item), k->conflict);
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
    if (slack < 0) return bound(k, s);
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
            survey(k, s);
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

/* Puts item at its low: all that lives with it must go above. */
static bool place(mnem__skyline *k, int32_t item, int32_t decision) {
    const mnem__item *it = &k->s->items[item];
    const int64_t top = k->low[item] + it->bytes;
    raised r = {it->first, it->end, top, it, 0};
    k->offset[item] = k->low[item];
    k->decided[item] = decision;
    set_value(k, &k->low[item], PLACED);
    for (int32_t i = 0; i < mnem__spans_of(it); i++) {
        const mnem__span p = mnem__span_get(k->s, it, i);
        for (int32_t s = p.from; s < p.to; s++) {
            k->dropped[s] = 1;
            set_value(k, &k->left[s], k->left[s] - it->bytes);
        }
    }
    for (int32_t s = it->first; s + 1 < it->end; s++)
        set_value(k, &k->crossing[s], k->crossing[s] - 1);
    set_copy(k, k->conflict, reason_of(k, item));
    set_add(k->conflict, decision);
    const company c = company_of(k, item);
    for (int32_t i = 0; i < c.count; i++)
        if (k->low[c.listed[i]] < top && !raise(k, c.listed[i], top, &r)) return unsettled(k, &r);
    for (int32_t i = c.first; i < c.end; i++)
        if (k->low[i] < top && !raise(k, i, top, &r)) return unsettled(k, &r);
    return settle(k, &r);
}

/* Adds to k->conflict why other stands where it does, and to *top where it could end. */
static void consider(mnem__skyline *k, int32_t other, int64_t *top) {
    set_join(k, k->conflict, reason_of(k, other));
    if (is_placed(k, other)) {
        set_add(k->conflict, k->decided[other]);
        return;
    }
    const int64_t end = k->low[other] + k->s->items[other].bytes;
    if (end < *top) *top = end;
}

/* Item doesn't lie at its low: it rests on something that isn't placed yet. */
static bool lift(mnem__skyline *k, int32_t item, int32_t decision, raised *r) {
    int64_t top = FAR;
    set_clear(k, k->conflict);
    set_add(k->conflict, decision);
    set_join(k, k->conflict, reason_of(k, item));
    const company c = company_of(k, item);
    for (int32_t i = 0; i < c.count; i++)
        if (c.listed[i] != item) consider(k, c.listed[i], &top);
    for (int32_t i = c.first; i < c.end; i++) consider(k, i, &top);
    if (top == FAR) return false;
    return raise(k, item, top > k->low[item] ? top : k->low[item] + 1, r);
}

/* Nothing lies on the floor of the clique. */
static bool leave(mnem__skyline *k, const frame *f, int32_t decision) {
    raised r = {.from = f->clique, .to = f->clique + 1};
    for (int32_t i = k->s->begin[f->clique]; i < k->s->begin[f->clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        if (k->low[item] != f->floor) continue;
        if (!lift(k, item, decision, &r)) return unsettled(k, &r);
    }
    return settle(k, &r);
}

/* ---- choosing where to decide ---- */

typedef struct pick {
    int32_t clique;
    double key[2];
} pick;

static void offer(const mnem__skyline *k, int32_t clique, pick *best) {
    const double choices = (double)(k->choices[clique] + (k->slack[clique] > 0));
    const int32_t away = clique - k->last_section;
    double key[2] = {choices, (double)k->slack[clique]};
    if (k->dive->rule == MNEM__VALLEY_NEAREST) key[1] = away < 0 ? -away : away;
    if (k->dive->rule == MNEM__VALLEY_LOWEST) {
        key[0] = (double)k->floor[clique];
        key[1] = choices;
    }
    if (best->clique != NONE &&
        (key[0] > best->key[0] || (key[0] == best->key[0] && key[1] >= best->key[1])))
        return;
    *best = (pick){clique, {key[0], key[1]}};
}

/* Has some candidate of the clique, one with gaps, a lower floor elsewhere? */
static bool spans_a_lower_valley(const mnem__skyline *k, int32_t clique) {
    for (int32_t i = k->s->begin[clique]; i < k->s->begin[clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        const mnem__item *it = &k->s->items[item];
        if (k->low[item] != k->floor[clique]) continue;
        for (int32_t j = 0; j < it->spans; j++) {
            const mnem__span p = mnem__span_get(k->s, it, j);
            for (int32_t s = p.from; s < p.to; s++)
                if (k->floor[s] < k->floor[clique]) return true;
        }
    }
    return false;
}

static int32_t pick_section(const mnem__skyline *k, int32_t from, int32_t to) {
    pick best = {.clique = NONE};
    for (int32_t s = from; s < to;) {
        int32_t end = s + 1;
        while (end < to && k->floor[end] == k->floor[s]) end++;
        if ((s == from || k->floor[s - 1] > k->floor[s]) &&
            (end == to || k->floor[end] > k->floor[s]))
            for (int32_t i = s; i < end && k->left[s]; i++)
                if (!k->s->near || !spans_a_lower_valley(k, i)) offer(k, i, &best);
        s = end;
    }
    return best.clique;
}

/* A twin that is still to be placed goes first: the other order would be the same again. */
static bool waits_for_twin(const mnem__skyline *k, int32_t item) {
    const int32_t twin = k->s->items[item].twin;
    return twin != NONE && k->low[twin] == k->low[item];
}

/* The candidates on the floor of f->clique, best first. */
static void gather(mnem__skyline *k, frame *f) {
    f->candidates = (int32_t)k->candidates.count;
    for (int32_t i = k->s->begin[f->clique]; i < k->s->begin[f->clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        if (k->low[item] != f->floor || waits_for_twin(k, item)) continue;
        if (!extend(k, &k->candidates, 1, sizeof(int32_t))) break;
        int32_t *c = (int32_t *)k->candidates.data + f->candidates;
        int32_t at = (int32_t)k->candidates.count - 1 - f->candidates;
        for (; at > 0 && k->dive->priority[c[at - 1]] < k->dive->priority[item]; at--)
            c[at] = c[at - 1];
        c[at] = item;
    }
    f->candidates_end = (int32_t)k->candidates.count;
    f->next = f->candidates;
}

/* ---- the search ---- */

static void push_part(mnem__skyline *k, int32_t from, int32_t to) {
    const int32_t index = (int32_t)k->parts.count;
    part *p = extend(k, &k->parts, 1, sizeof(part));
    if (!p) return;
    *p = (part){from, to, k->head};
    k->head = index;
}

/* What is left of [from, to) after a decision, cut where nothing crosses. */
static void push_parts(mnem__skyline *k, int32_t from, int32_t to) {
    int32_t end = to;
    for (int32_t s = to - 1; s >= from; s--) {
        if (s > from && k->crossing[s - 1] > 0) continue;
        if (s + 1 < end || k->left[s] > 0) push_part(k, s, end);
        end = s;
    }
}

static uint64_t *conflict_at(const mnem__skyline *k, int32_t decision) {
    return k->conflicts + (size_t)decision * (size_t)k->words;
}

/* Opens a decision in the first part that waits. */
static void open_frame(mnem__skyline *k) {
    const part p = ((part *)k->parts.data)[k->head];
    frame *f = &k->frames[k->depth];
    *f = (frame){.from = p.from, .to = p.to, .head = p.next};
    f->clique = pick_section(k, p.from, p.to);
    f->floor = k->floor[f->clique];
    f->parts = (int32_t)k->parts.count;
    gather(k, f);
    set_clear(k, conflict_at(k, k->depth));
    f->changes = k->changes.count;
    f->reasons = k->reasons.count;
    k->head = p.next;
    k->depth++;
}

/* Tries the next alternative of the deepest decision; false when it failed. */
static bool try_next(mnem__skyline *k) {
    const int32_t decision = k->depth - 1;
    frame *f = &k->frames[decision];
    const int32_t next = f->next++;
    k->last_section = f->clique;
    if (next < f->candidates_end) {
        if (!place(k, ((int32_t *)k->candidates.data)[next], decision)) return false;
    } else if (!leave(k, f, decision)) {
        return false;
    }
    push_parts(k, f->from, f->to);
    return true;
}

/* Adds why the candidates in a clique are no others. */
static void why_no_others(const mnem__skyline *k, int32_t clique, uint64_t *conflict) {
    for (int32_t i = k->s->begin[clique]; i < k->s->begin[clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        set_join(k, conflict, reason_of(k, item));
        if (is_placed(k, item)) set_add(conflict, k->decided[item]);
    }
}

/* After a failure: back to the deepest decision that has to do with it and has an alternative.
 * false: there is none. */
static bool retreat(mnem__skyline *k) {
    while (k->depth > 0) {
        const int32_t decision = k->depth - 1;
        frame *f = &k->frames[decision];
        go_back(k, f);
        if (set_has(k->conflict, decision)) {
            uint64_t *gathered = conflict_at(k, decision);
            set_join(k, gathered, k->conflict);
            if (f->next <= f->candidates_end) return true;
            why_no_others(k, f->clique, gathered);
            memcpy(k->conflict, gathered, (size_t)k->words * sizeof *gathered);
            k->conflict[decision / 64] &= ~(UINT64_C(1) << (decision % 64));
        }
        k->candidates.count = (size_t)f->candidates;
        k->depth--;
    }
    return false;
}

static mnem__dive_end search(mnem__skyline *k, mnem__dive *dive) {
    uint64_t failures = 0;
    while (k->head != NONE) {
        if (failures >= dive->failures_max || k->depth == k->levels) return MNEM__DIVE_LIMIT;
        dive->nodes++;
        open_frame(k);
        while (!try_next(k)) {
            if (k->no_memory) return MNEM__DIVE_NO_MEMORY;
            if (++failures % 64 == 0 && mnem__search_limits_check(dive->limits, 0))
                return MNEM__DIVE_LIMIT;
            if (!retreat(k)) return MNEM__DIVE_EXHAUSTED;
        }
        if (k->no_memory) return MNEM__DIVE_NO_MEMORY;
    }
    return k->no_memory ? MNEM__DIVE_NO_MEMORY : MNEM__DIVE_FOUND;
}

static bool start(mnem__skyline *k, const mnem__dive *dive) {
    const mnem__cliques *s = k->s;
    memset(k->crossing + dive->from, 0, (size_t)(dive->to - dive->from) * sizeof *k->crossing);
    for (int32_t i = s->starts[dive->from]; i < s->starts[dive->to]; i++) {
        k->low[i] = 0;
        set_clear(k, reason_of(k, i));
        for (int32_t at = s->items[i].first; at + 1 < s->items[i].end; at++) k->crossing[at]++;
    }
    for (int32_t clique = dive->from; clique < dive->to; clique++) {
        k->left[clique] = k->done[clique] = 0;
        for (int32_t i = s->begin[clique]; i < s->begin[clique + 1]; i++)
            k->left[clique] += s->items[s->members[i]].bytes;
        survey(k, clique);
        if (!bound(k, clique)) return false;
    }
    k->depth = 0;
    k->head = NONE;
    k->last_section = dive->from;
    k->changes.count = k->reasons.count = k->candidates.count = k->parts.count = 0;
    push_part(k, dive->from, dive->to);
    return true;
}

mnem__dive_end mnem__skyline_dive(mnem__skyline *k, mnem__dive *dive) {
    k->dive = dive;
    k->no_memory = false;
    return start(k, dive) ? search(k, dive) : MNEM__DIVE_EXHAUSTED;
}

const int64_t *mnem__skyline_offsets(const mnem__skyline *k) {
    return k->offset;
}

double *mnem__skyline_blame(mnem__skyline *k) {
    return k->blame;
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
    const size_t bytes = numbers * sizeof(int64_t) + levels * sizeof(frame) +
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
    k->frames = (frame *)(k->conflict + words);
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
