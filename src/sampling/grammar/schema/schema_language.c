/* schema_language.c: texts that fit several grammars at once, and none of some others.
 *
 * The idea: each grammar is written flat, without calls, into a draft of its own. A text stands
 * at a set of its nodes; the sets that can be reached are the states of one deterministic automaton
 * (subset construction, Rabin and Scott, 1959). A text is one of the language where the set has
 * the ends of all grammars that are wanted and of none that isn't. Sets from which a wanted grammar
 * has gone are left out.
 * Cost: the states, which may be as many as the product of the grammars' own; bounded by
 * STATES_MAX and WORDS_MAX. */
#include "sampling/grammar/schema/schema_language.h"

#include "base/heap.h"
#include "base/sort.h"

enum {
    GRAMMARS_MAX = 1200,
    STATES_MAX = 20000,
    WORDS_MAX = 1 << 20,
    SLOTS = 256, /* of a table at first */
    STEP_WORDS_MAX = 1 << 17,
    NONE = UINT32_MAX, /* there are too many */
    DEAD = UINT32_MAX - 1
};

/* States and steps are found by a hash of their nodes. */
typedef struct link {
    uint32_t hash;
    uint32_t same; /* the next one of the slot + 1 */
} link;

typedef struct table {
    uint32_t *slot, slots; /* the first one of each hash's last bits + 1 */
} table;

typedef struct state {
    link link;
    uint32_t from, count; /* of words: sorted nodes */
} state;

/* Nodes that a byte led to, and the state that they and what follows without a byte are: most bytes
 * of most states lead to what another one led to before. */
typedef struct step {
    link link;
    uint32_t from, count; /* of step_word */
    uint32_t to;          /* DEAD: no text */
} step;

/* Bytes [low, high] that lead from a state to a node. */
typedef struct move {
    uint8_t low, high;
    uint32_t to;
} move;

struct mnem__language {
    mnem__schema *s;
    mnem__draft d, *before;
    uint32_t start[GRAMMARS_MAX + 1], grammars;
    bool wanted[GRAMMARS_MAX];
    uint32_t *seen, search, *stack; /* of each node */
    state *states;
    uint32_t count, states_room, *word, words, words_room;
    uint32_t depth;         /* bytes that lead to the state at hand */
    table of_hash, of_next; /* of states, of steps */
    step *steps;
    uint32_t step_count, steps_room, *step_word, step_words, step_words_room;
    move *moves; /* of the state at hand */
    uint32_t move_count, moves_room, *fan, fan_room;
};

mnem__language *mnem__language_open(mnem__schema *s) {
    mnem__language *l = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *l);
    if (!l) {
        mnem__schema_no_memory(s);
        return NULL;
    }
    l->s = s;
    l->d.flat = true;
    l->d.bytes_max = s->d->bytes_max / 2;
    l->before = s->d;
    s->d = &l->d;
    return l;
}

bool mnem__language_next(mnem__language *l, bool wanted) {
    if (l->grammars) mnem__draft_end(&l->d);
    if (l->grammars == GRAMMARS_MAX)
        return mnem__schema_fail(
            l->s, MNEM_UNSUPPORTED,
            "more than %d patterns and property names apply to one value, the limit", GRAMMARS_MAX);
    l->start[l->grammars] = l->d.nodes;
    l->wanted[l->grammars++] = wanted;
    return true;
}

static bool prepare(mnem__language *l) {
    mnem__draft_end(&l->d);
    l->start[l->grammars] = l->d.nodes;
    if (!mnem__schema_is_fine(l->s)) return false;
    l->seen = mnem__calloc(MNEM__GRAMMAR_TAG, 3 * (size_t)l->d.nodes + 3, sizeof *l->seen);
    if (!l->seen) return mnem__schema_no_memory(l->s);
    l->stack = l->seen + l->d.nodes;
    return true;
}

/* The draft before is written again; what this one needed counts twice, as it had half. */
static void leave(mnem__language *l) {
    if (l->s->d != &l->d) return;
    l->s->d = l->before;
    mnem__draft_fits(l->before, 2 * l->d.bytes_needed);
}

uint64_t mnem__language_bytes(const mnem__language *l) {
    return sizeof *l + mnem__draft_bytes_used(&l->d) + 3 * (uint64_t)l->d.nodes * sizeof *l->seen;
}

bool mnem__language_set_aside(mnem__language *l) {
    const bool ready = prepare(l), fits = mnem__draft_fits(&l->d, 8 * (uint64_t)l->d.nodes);
    leave(l);
    if (ready && !fits)
        return mnem__schema_fail(l->s, MNEM_OVER_BUDGET,
                                 "compiling this pattern exceeds the memory limit; simplify it");
    return ready;
}

void mnem__language_close(mnem__language *l) {
    if (!l) return;
    leave(l);
    mnem__draft_fini(&l->d);
    mnem__free(l->seen);
    mnem__free(l->of_hash.slot);
    mnem__free(l->of_next.slot);
    mnem__free(l->states);
    mnem__free(l->word);
    mnem__free(l->steps);
    mnem__free(l->step_word);
    mnem__free(l->moves);
    mnem__free(l->fan);
    mnem__free(l);
}

uint32_t mnem__language_depth(const mnem__language *l) {
    return l->depth;
}

/* ---- sets of nodes ---- */

static void visit(mnem__language *l, uint32_t node, uint32_t *depth) {
    if (l->seen[node] == l->search) return;
    l->seen[node] = l->search;
    l->stack[(*depth)++] = node;
}

static bool is_below(const void *context, uint32_t a, uint32_t b) {
    (void)context;
    return a < b;
}

/* Most sets are small, and nearly in order. */
static void sort_nodes(uint32_t *node, uint32_t n) {
    if (n > 64) {
        mnem__sort(node, n, is_below, NULL);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t one = node[i];
        uint32_t at = i;
        for (; at && node[at - 1] > one; at--) node[at] = node[at - 1];
        node[at] = one;
    }
}

static bool grow(mnem__language *l, void **block, uint32_t *room, uint32_t needed, size_t size) {
    if (needed <= *room) return true;
    const uint32_t more = needed > 2 * *room ? needed : 2 * *room;
    void *grown = mnem__realloc(MNEM__GRAMMAR_TAG, *block, more * size);
    if (!grown) return mnem__schema_no_memory(l->s);
    *block = grown;
    *room = more;
    return true;
}

/* What nodes lead to without a byte, behind the words; returns how many, or NONE. */
static uint32_t close_set(mnem__language *l, const uint32_t *node, uint32_t n) {
    uint32_t depth = 0, count = 0;
    const uint32_t most = l->words + l->d.nodes;
    if (most > WORDS_MAX || !mnem__draft_fits(&l->d, 8 * (uint64_t)most)) return NONE;
    if (!grow(l, (void **)&l->word, &l->words_room, most, sizeof *l->word)) return NONE;
    uint32_t *out = l->word + l->words;
    l->search++;
    for (uint32_t i = 0; i < n; i++) visit(l, node[i], &depth);
    while (depth) {
        const uint32_t at = l->stack[--depth];
        const mnem__draft_node *d = &l->d.node[at];
        if (d->op == MNEM__DRAFT_SPLIT || d->op == MNEM__DRAFT_JUMP) {
            visit(l, (uint32_t)((int32_t)at + d->x), &depth);
            if (d->op == MNEM__DRAFT_SPLIT) visit(l, (uint32_t)((int32_t)at + d->y), &depth);
            continue;
        }
        out[count++] = at;
    }
    sort_nodes(out, count);
    return mnem__schema_spend(l->s, 4 * (uint64_t)count + n) ? count : NONE;
}

/* Whether the set has an end of a grammar, or anything of it. */
static bool has(const mnem__language *l, const uint32_t *set, uint32_t n, uint32_t grammar,
                bool end) {
    const uint32_t from = end ? l->start[grammar + 1] - 1 : l->start[grammar];
    uint32_t a = 0, b = n;
    while (a < b) {
        const uint32_t middle = a + (b - a) / 2;
        if (set[middle] < from)
            a = middle + 1;
        else
            b = middle;
    }
    return a < n && set[a] < l->start[grammar + 1];
}

static bool lives(const mnem__language *l, const uint32_t *set, uint32_t n) {
    for (uint32_t g = 0; g < l->grammars; g++)
        if (l->wanted[g] && !has(l, set, n, g, false)) return false;
    return n > 0;
}

static bool accepts(const mnem__language *l, const uint32_t *set, uint32_t n) {
    for (uint32_t g = 0; g < l->grammars; g++)
        if (has(l, set, n, g, true) != l->wanted[g]) return false;
    return true;
}

static bool start_set(mnem__language *l, uint32_t *n) {
    *n = close_set(l, l->start, l->grammars);
    return *n != NONE;
}

/* The nodes that a set goes on to by a byte; returns how many. */
static uint32_t go_on(const mnem__language *l, const uint32_t *set, uint32_t n, uint8_t byte,
                      uint32_t *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const mnem__draft_node *d = &l->d.node[set[i]];
        if (d->op != MNEM__DRAFT_BYTES) continue;
        for (int32_t e = d->x; e < d->x + d->y; e++)
            if (l->d.edge[e].low <= byte && byte <= l->d.edge[e].high)
                out[count++] = (uint32_t)((int32_t)set[i] + l->d.edge[e].to);
    }
    return count;
}

bool mnem__language_has(mnem__language *l, const char *bytes, size_t length) {
    uint32_t n;
    if (!start_set(l, &n)) return false;
    uint32_t *next = l->stack + l->d.nodes + 1;
    for (size_t i = 0; i < length && n; i++) {
        const uint32_t count = go_on(l, l->word, n, (uint8_t)bytes[i], next);
        n = close_set(l, next, count);
        if (n == NONE) return false;
    }
    return accepts(l, l->word, n);
}

/* ---- states ---- */

static uint32_t hash_of(const uint32_t *node, uint32_t n) {
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++) hash = (hash ^ node[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32);
}

static uint32_t first_of(const table *t, uint32_t hash) {
    return t->slots ? t->slot[hash & (t->slots - 1)] : 0;
}

static void enter(table *t, link *one, uint32_t index) {
    uint32_t *slot = &t->slot[one->hash & (t->slots - 1)];
    one->same = *slot;
    *slot = index + 1;
}

/* Enters the last of count things of size bytes that begin with their link; with four times as
 * many slots where there are more things than slots. */
static bool enter_last(mnem__language *l, table *t, void *things, size_t size, uint32_t count) {
    uint8_t *last = (uint8_t *)things + (count - 1) * size, *thing = things;
    if (count <= t->slots) {
        enter(t, (link *)(void *)last, count - 1);
        return true;
    }
    mnem__free(t->slot);
    t->slots = t->slots ? 4 * t->slots : SLOTS;
    t->slot = mnem__calloc(MNEM__GRAMMAR_TAG, t->slots, sizeof *t->slot);
    if (!t->slot) t->slots = 0;
    if (!t->slot) return mnem__schema_no_memory(l->s);
    for (uint32_t i = 0; i < count; i++) enter(t, (link *)(void *)(thing + i * size), i);
    return true;
}

/* The state of the set behind the words; NONE: there are too many. */
static uint32_t state_of(mnem__language *l, uint32_t n) {
    const uint32_t *set = l->word + l->words;
    const uint32_t hash = hash_of(set, n);
    for (uint32_t at = first_of(&l->of_hash, hash); at; at = l->states[at - 1].link.same) {
        const state *t = &l->states[at - 1];
        if (t->link.hash == hash && t->count == n &&
            memcmp(l->word + t->from, set, n * sizeof *set) == 0)
            return at - 1;
    }
    if (l->count == STATES_MAX ||
        !grow(l, (void **)&l->states, &l->states_room, l->count + 1, sizeof *l->states))
        return NONE;
    l->states[l->count++] = (state){{hash, 0}, l->words, n};
    l->words += n;
    return enter_last(l, &l->of_hash, l->states, sizeof *l->states, l->count) ? l->count - 1 : NONE;
}

/* Notes where nodes lead, while there is room. */
static bool note_step(mnem__language *l, const uint32_t *next, uint32_t n, uint32_t to,
                      uint32_t hash) {
    if (l->step_words + n > STEP_WORDS_MAX) return true;
    if (!grow(l, (void **)&l->steps, &l->steps_room, l->step_count + 1, sizeof *l->steps) ||
        !grow(l, (void **)&l->step_word, &l->step_words_room, l->step_words + n, sizeof *next))
        return false;
    memcpy(l->step_word + l->step_words, next, n * sizeof *next);
    l->steps[l->step_count++] = (step){{hash, 0}, l->step_words, n, to};
    l->step_words += n;
    return enter_last(l, &l->of_next, l->steps, sizeof *l->steps, l->step_count);
}

/* The state of n nodes and what follows them without a byte; NONE, DEAD. */
static uint32_t reach(mnem__language *l, const uint32_t *next, uint32_t n) {
    const uint32_t hash = hash_of(next, n);
    uint32_t to = DEAD;
    for (uint32_t at = first_of(&l->of_next, hash); at; at = l->steps[at - 1].link.same) {
        const step *t = &l->steps[at - 1];
        if (t->link.hash == hash && t->count == n &&
            memcmp(l->step_word + t->from, next, n * sizeof *next) == 0)
            return t->to;
    }
    const uint32_t count = close_set(l, next, n);
    if (count == NONE) return NONE;
    if (count && lives(l, l->word + l->words, count)) to = state_of(l, count);
    return to == NONE || !note_step(l, next, n, to, hash) ? NONE : to;
}

/* The moves of a state's nodes, and the bytes at which they may change. */
static bool find_moves(mnem__language *l, const state *t, uint64_t cut[4]) {
    l->move_count = 0;
    for (uint32_t i = t->from; i < t->from + t->count; i++) {
        const mnem__draft_node *d = &l->d.node[l->word[i]];
        if (d->op != MNEM__DRAFT_BYTES) continue;
        const uint32_t most = l->move_count + (uint32_t)d->y;
        if (!grow(l, (void **)&l->moves, &l->moves_room, most, sizeof *l->moves)) return false;
        for (int32_t e = d->x; e < d->x + d->y; e++) {
            const mnem__edge *edge = &l->d.edge[e];
            cut[edge->low / 64] |= UINT64_C(1) << edge->low % 64;
            if (edge->high < 255)
                cut[(edge->high + 1) / 64] |= UINT64_C(1) << (edge->high + 1) % 64;
            l->moves[l->move_count++] =
                (move){edge->low, edge->high, (uint32_t)((int32_t)l->word[i] + edge->to)};
        }
    }
    return true;
}

/* The bytes from cut to cut. */
typedef struct parts {
    uint32_t count,
        next[257];     /* of each part: where its nodes begin in l->fan; and where all end */
    uint16_t low[257]; /* its first byte; 256 behind the last one */
    uint8_t of[256];   /* the part of each byte */
} parts;

static void find_parts(const uint64_t cut[4], parts *p) {
    p->count = 0;
    for (int word = 0; word < 4; word++)
        for (uint64_t bits = cut[word]; bits; bits &= bits - 1)
            p->low[p->count++] = (uint16_t)(64 * word + __builtin_ctzll(bits));
    p->low[p->count] = 256;
    for (uint32_t k = 0; k < p->count; k++)
        memset(p->of + p->low[k], (int)k, (size_t)(p->low[k + 1] - p->low[k]));
}

/* The nodes to which each part leads, in the order of the state's nodes. */
static bool find_fan(mnem__language *l, const state *t, parts *p) {
    uint64_t cut[4] = {1}; /* byte 0 begins one */
    uint32_t end[257];
    if (!find_moves(l, t, cut)) return false;
    find_parts(cut, p);
    memset(end, 0, (p->count + 1) * sizeof *end);
    for (uint32_t i = 0; i < l->move_count; i++)
        for (uint32_t k = p->of[l->moves[i].low]; k <= p->of[l->moves[i].high]; k++) end[k + 1]++;
    for (uint32_t k = 0; k < p->count; k++) end[k + 1] += end[k];
    memcpy(p->next, end, (p->count + 1) * sizeof *end);
    if (!grow(l, (void **)&l->fan, &l->fan_room, end[p->count], sizeof *l->fan)) return false;
    for (uint32_t i = 0; i < l->move_count; i++)
        for (uint32_t k = p->of[l->moves[i].low]; k <= p->of[l->moves[i].high]; k++)
            l->fan[end[k]++] = l->moves[i].to;
    return true;
}

/* Writes a state's edges into the draft that is written: nodes 2 * state and one more from base on
 * are a state's fork and its bytes. */
static bool write_edges(mnem__language *l, uint32_t at, uint32_t *edges) {
    const state t = l->states[at];
    parts p;
    *edges = 0;
    if (!find_fan(l, &t, &p)) return false;
    for (uint32_t k = 0; k < p.count; k++) {
        const uint32_t count = p.next[k + 1] - p.next[k];
        if (!mnem__schema_spend(l->s, 1 + count)) return false;
        const uint32_t to = count ? reach(l, l->fan + p.next[k], count) : DEAD;
        if (to == NONE) return false;
        if (to == DEAD) continue;
        const int32_t far = 2 * ((int32_t)to - (int32_t)at) - 1;
        mnem__draft_edge_put(l->before,
                             (mnem__edge){(uint8_t)p.low[k], (uint8_t)(p.low[k + 1] - 1), far});
        ++*edges;
    }
    return true;
}

/* The fork of a state that accepts leads to the end, which is found later. */
static bool write_state(mnem__language *l, uint32_t at, bool *any) {
    const state *t = &l->states[at];
    const bool end = accepts(l, l->word + t->from, t->count);
    const uint32_t node =
        mnem__draft_node_put(l->before, end ? MNEM__DRAFT_SPLIT : MNEM__DRAFT_JUMP, 1, 0);
    const uint32_t bytes =
        mnem__draft_node_put(l->before, MNEM__DRAFT_BYTES, (int32_t)l->before->edges, 0);
    uint32_t edges;
    *any |= end;
    if (!write_edges(l, at, &edges)) return false;
    if (l->before->status == MNEM_OK) l->before->node[bytes].y = (int32_t)edges;
    return node < bytes || l->before->status != MNEM_OK;
}

bool mnem__language_write(mnem__language *l, const char *too_large, bool *any) {
    mnem__draft *d = l->before;
    uint32_t n;
    bool fits = prepare(l);
    *any = false;
    if (!fits) return false;
    const uint32_t base = d->nodes, edges = d->edges;
    fits = start_set(l, &n);
    if (fits && !lives(l, l->word, n)) {
        mnem__draft_class(d, NULL, 0);
        return true;
    }
    if (fits) state_of(l, n);
    uint32_t level = l->count; /* the first state of the next number of bytes */
    for (uint32_t at = 0; fits && at < l->count && d->status == MNEM_OK; at++) {
        if (at == level) {
            level = l->count;
            l->depth++;
        }
        fits = write_state(l, at, any);
    }
    if (!fits) { /* what was written is taken back */
        mnem__draft_cut(d, base, edges);
        return l->s->status == MNEM_OK &&
               mnem__schema_fail(l->s, MNEM_OVER_BUDGET, "%s", too_large);
    }
    for (uint32_t node = base; node < d->nodes && d->status == MNEM_OK; node += 2)
        if (d->node[node].op == MNEM__DRAFT_SPLIT) d->node[node].y = (int32_t)(d->nodes - node);
    return true;
}
