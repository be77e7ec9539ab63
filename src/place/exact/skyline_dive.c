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
 * Failures explain themselves: each comes with the set of decisions that it is due to
 * (skyline_state.c). The search goes back to the deepest decision in the set (conflict-directed
 * backjumping, Prosser 1993). Parts of time that no unplaced item connects are solved one after the
 * other.
 *
 * Gaps: an item whose life has gaps may lie over several valleys at once. Only those cliques are
 * decided whose candidates have no lower floor anywhere; the lowest clique always is one.
 *
 * Cost: a node is that of its decision (skyline_state.c) and a look at the floors of its part. */
#include "place/exact/skyline_state.h"

enum { NONE = -1 };

typedef struct part { /* cliques that wait to be placed: a list that grows and shrinks at its end */
    int32_t from, to, next;
} part;

static bool set_has(const uint64_t *set, int64_t decision) {
    return set[decision / 64] >> (decision % 64) & 1;
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
static void gather(mnem__skyline *k, mnem__skyline_frame *f) {
    f->candidates = (int32_t)k->candidates.count;
    for (int32_t i = k->s->begin[f->clique]; i < k->s->begin[f->clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        if (k->low[item] != f->floor || waits_for_twin(k, item)) continue;
        if (!mnem__skyline_extend(k, &k->candidates, 1, sizeof(int32_t))) break;
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
    part *p = mnem__skyline_extend(k, &k->parts, 1, sizeof(part));
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
    mnem__skyline_frame *f = &k->frames[k->depth];
    *f = (mnem__skyline_frame){.from = p.from, .to = p.to, .head = p.next};
    f->clique = pick_section(k, p.from, p.to);
    f->floor = k->floor[f->clique];
    f->parts = (int32_t)k->parts.count;
    gather(k, f);
    mnem__set_clear(k, conflict_at(k, k->depth));
    f->changes = k->changes.count;
    f->reasons = k->reasons.count;
    k->head = p.next;
    k->depth++;
}

/* Tries the next alternative of the deepest decision; false when it failed. */
static bool try_next(mnem__skyline *k) {
    const int32_t decision = k->depth - 1;
    mnem__skyline_frame *f = &k->frames[decision];
    const int32_t next = f->next++;
    k->last_section = f->clique;
    if (next < f->candidates_end) {
        if (!mnem__skyline_place(k, ((int32_t *)k->candidates.data)[next], decision)) return false;
    } else if (!mnem__skyline_leave(k, f, decision)) {
        return false;
    }
    push_parts(k, f->from, f->to);
    return true;
}

/* Adds why the candidates in a clique are no others. */
static void why_no_others(const mnem__skyline *k, int32_t clique, uint64_t *conflict) {
    for (int32_t i = k->s->begin[clique]; i < k->s->begin[clique + 1]; i++) {
        const int32_t item = k->s->members[i];
        mnem__set_join(k, conflict, mnem__reason_of(k, item));
        if (mnem__is_placed(k, item)) mnem__set_add(conflict, k->decided[item]);
    }
}

/* After a failure: back to the deepest decision that has to do with it and has an alternative.
 * false: there is none. */
static bool retreat(mnem__skyline *k) {
    while (k->depth > 0) {
        const int32_t decision = k->depth - 1;
        mnem__skyline_frame *f = &k->frames[decision];
        mnem__skyline_go_back(k, f);
        if (set_has(k->conflict, decision)) {
            uint64_t *gathered = conflict_at(k, decision);
            mnem__set_join(k, gathered, k->conflict);
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
        mnem__set_clear(k, mnem__reason_of(k, i));
        for (int32_t at = s->items[i].first; at + 1 < s->items[i].end; at++) k->crossing[at]++;
    }
    for (int32_t clique = dive->from; clique < dive->to; clique++) {
        k->left[clique] = k->done[clique] = 0;
        for (int32_t i = s->begin[clique]; i < s->begin[clique + 1]; i++)
            k->left[clique] += s->items[s->members[i]].bytes;
        mnem__skyline_survey(k, clique);
        if (!mnem__skyline_bound(k, clique)) return false;
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
