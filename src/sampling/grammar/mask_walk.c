/* mask_walk.c: see mask_walk.h.
 *
 * Invariant: what a table says of a state and a byte is what a step of the work says.
 * Cost: a byte of a token about 2 ns where the table knows it, 50 ns and more where it doesn't;
 * inside a string that admits any text only the tokens that aren't plain are walked. */
#include "sampling/grammar/mask_walk.h"

#include <string.h>

enum { UNKNOWN = 255, DEAD = 254, FULL = 253 };

/* ---- states ---- */

/* A call as it is seen from a state: those made for it by their order. */
static uint32_t seen_from(uint32_t call, uint32_t calls) {
    return call >= calls ? (call - calls) | UINT32_C(1) << 31 : call;
}

static uint32_t mix(uint32_t hash, uint32_t word) {
    return (hash ^ word) * UINT32_C(2654435761) ^ hash >> 15;
}

static uint32_t hash_of(const mnem__grammar_work *w, const mnem__walk_state *s) {
    uint32_t hash = s->frame.may_end;
    for (uint32_t i = s->frame.from; i < s->frame.to; i++)
        hash = mix(mix(hash, w->place[i].node), seen_from(w->place[i].call, s->calls));
    for (uint32_t i = s->edges; i < s->frame.edges; i++)
        hash = mix(mix(hash, w->edge[i].to.node), seen_from(w->edge[i].to.call, s->calls));
    return hash ^ hash >> 16;
}

static bool same_place(mnem__place x, mnem__place y, uint32_t x_calls, uint32_t y_calls) {
    return x.node == y.node && seen_from(x.call, x_calls) == seen_from(y.call, y_calls);
}

static int32_t edge_from(int32_t edge, uint32_t edges) {
    return edge < 0 ? -1 : edge - (int32_t)edges;
}

/* A call has only edges that were made with it. */
static bool same_calls(const mnem__grammar_work *w, const mnem__walk_state *x,
                       const mnem__walk_state *y) {
    const uint32_t calls = x->frame.calls - x->calls, edges = x->frame.edges - x->edges;
    if (calls != y->frame.calls - y->calls || edges != y->frame.edges - y->edges) return false;
    for (uint32_t i = 0; i < calls; i++)
        if (edge_from(w->call[x->calls + i].edge, x->edges) !=
            edge_from(w->call[y->calls + i].edge, y->edges))
            return false;
    for (uint32_t i = 0; i < edges; i++) {
        const mnem__call_edge a = w->edge[x->edges + i], b = w->edge[y->edges + i];
        if (!same_place(a.to, b.to, x->calls, y->calls) ||
            edge_from(a.before, x->edges) != edge_from(b.before, y->edges))
            return false;
    }
    return true;
}

static bool same_state(const mnem__grammar_work *w, const mnem__walk_state *x,
                       const mnem__walk_state *y) {
    const uint32_t places = x->frame.to - x->frame.from;
    if (x->hash != y->hash || x->frame.may_end != y->frame.may_end ||
        places != y->frame.to - y->frame.from)
        return false;
    for (uint32_t i = 0; i < places; i++)
        if (!same_place(w->place[x->frame.from + i], w->place[y->frame.from + i], x->calls,
                        y->calls))
            return false;
    return same_calls(w, x, y);
}

/* The number of the state that was made last; FULL: there is no room for it. */
static uint8_t number_of(mnem__mask_walk *walk, mnem__walk_state *made) {
    mnem__grammar_work *w = walk->work;
    made->hash = hash_of(w, made);
    uint32_t at = made->hash % MNEM__WALK_SLOTS;
    for (; walk->slot[at] != UNKNOWN; at = (at + 1) % MNEM__WALK_SLOTS)
        if (same_state(w, &walk->state[walk->slot[at]], made)) {
            mnem__grammar_work_forget(w, &made->frame, made->calls, made->edges);
            return walk->slot[at];
        }
    if (walk->states == MNEM__WALK_STATES) return FULL;
    walk->state[walk->states] = *made;
    memset(walk->to[walk->states], UNKNOWN, sizeof *walk->to);
    walk->slot[at] = (uint8_t)walk->states;
    return (uint8_t)walk->states++;
}

static void restart(mnem__mask_walk *walk) {
    mnem__grammar_work *w = walk->work;
    const uint64_t steps = w->steps;
    mnem__grammar_work_load(w, walk->text);
    w->steps = steps;
    walk->states = 0;
    memset(walk->slot, UNKNOWN, sizeof walk->slot);
    mnem__walk_state first = {.frame = w->frame[0], .calls = w->calls, .edges = w->edges};
    number_of(walk, &first);
}

/* The bytes around one that lead where it does, by the edges of all places. */
static void same_bytes(const mnem__grammar_work *w, const mnem__frame *f, uint8_t byte,
                       uint8_t *low, uint8_t *high) {
    *low = 0;
    *high = 255;
    for (uint32_t i = f->from; i < f->to; i++) {
        const mnem__program_node *n = &w->program->node[w->place[i].node];
        const mnem__edge *e = w->program->edge + n->a, *end = e + n->b;
        for (; e < end && e->high < byte; e++)
            if (e->high >= *low) *low = (uint8_t)(e->high + 1);
        if (e == end) continue;
        const bool has = e->low <= byte;
        if (has && e->low > *low) *low = e->low;
        if (has ? e->high < *high : e->low <= *high) *high = has ? e->high : (uint8_t)(e->low - 1);
    }
}

/* Where a byte leads that the table doesn't know. */
static uint8_t find(mnem__mask_walk *walk, uint8_t from, uint8_t byte) {
    mnem__grammar_work *w = walk->work;
    mnem__walk_state made = {.calls = w->calls, .edges = w->edges};
    uint8_t to = DEAD;
    if (mnem__grammar_work_leap(w, &walk->state[from].frame, byte, &made.frame))
        to = number_of(walk, &made);
    else
        mnem__grammar_work_forget(w, &made.frame, made.calls, made.edges);
    if (w->status != MNEM_OK) return FULL;
    if (to == FULL) return to;
    uint8_t low, high;
    same_bytes(w, &walk->state[from].frame, byte, &low, &high);
    memset(&walk->to[from][low], to, high - low + 1U);
    return to;
}

/* ---- plain text ---- */

enum { CHARACTER_BYTES = 4, LOOKED_AT = 8 /* places of a state */ };
/* Bytes of plain characters, by their first ones. */
typedef struct plain_bytes {
    uint8_t count;
    struct {
        uint8_t low, high;
    } range[CHARACTER_BYTES];
} plain_bytes;
#define TAIL                                                                                       \
    { 0x80, 0xBF }
static const plain_bytes plain[] = {
    {1, {{0x20, 0x21}}},
    {1, {{0x23, 0x5B}}},
    {1, {{0x5D, 0x7F}}},
    {2, {{0xC2, 0xDF}, TAIL}},
    {3, {{0xE0, 0xE0}, {0xA0, 0xBF}, TAIL}},
    {3, {{0xE1, 0xEC}, TAIL, TAIL}},
    {3, {{0xED, 0xED}, {0x80, 0x9F}, TAIL}},
    {3, {{0xEE, 0xEF}, TAIL, TAIL}},
    {4, {{0xF0, 0xF0}, {0x90, 0xBF}, TAIL, TAIL}},
    {4, {{0xF1, 0xF3}, TAIL, TAIL, TAIL}},
    {4, {{0xF4, 0xF4}, {0x80, 0x8F}, TAIL, TAIL}},
};

/* Whether all characters of a row, from byte `at` on, lead from a node to *to, which is the first
 * that one does while it is UINT32_MAX. */
static bool leads(const mnem__program *p, uint32_t node, const plain_bytes *row, int at,
                  uint32_t *to) {
    const mnem__program_node *n = &p->node[node];
    uint32_t byte = row->range[at].low;
    const bool last = at == CHARACTER_BYTES - 1 || at + 1 == row->count;
    if (n->op != MNEM__NODE_BYTES) return false;
    for (uint32_t i = n->a; i < n->a + n->b && byte <= row->range[at].high; i++) {
        const mnem__edge *e = &p->edge[i];
        if (e->high < byte) continue;
        if (e->low > byte) return false;
        if (last && *to == UINT32_MAX) *to = (uint32_t)e->to;
        if (last ? *to != (uint32_t)e->to : !leads(p, (uint32_t)e->to, row, at + 1, to))
            return false;
        byte = e->high + 1U;
    }
    return byte > row->range[at].high;
}

/* The node that every plain character leads to; UINT32_MAX: there is none. */
static uint32_t behind_plain(const mnem__program *p, uint32_t node) {
    uint32_t to = UINT32_MAX;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!leads(p, node, &plain[i], 0, &to)) return UINT32_MAX;
    return to;
}

/* Whether any plain text may follow a state. Such a state stands between characters. */
static bool is_free(mnem__mask_walk *walk, uint8_t state) {
    const mnem__grammar_work *w = walk->work;
    mnem__walk_state *s = &walk->state[state];
    const uint32_t end =
        s->frame.to < s->frame.from + LOOKED_AT ? s->frame.to : s->frame.from + LOOKED_AT;
    for (uint32_t i = s->frame.from; !s->is_free && i < end; i++)
        if (behind_plain(w->program, w->place[i].node) == w->place[i].node) s->is_free = 2;
    if (!s->is_free) s->is_free = 1;
    return s->is_free == 2;
}

/* Whether a node goes on by a byte of plain text. */
static bool takes_plain(const mnem__program *p, uint32_t node) {
    const mnem__program_node *n = &p->node[node];
    for (uint32_t i = n->a; i < n->a + n->b; i++)
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
            if (p->edge[i].low <= plain[k].range[0].high &&
                p->edge[i].high >= plain[k].range[0].low)
                return true;
    return false;
}

/* How many plain characters may follow, whatever they are, up to most; UINT32_MAX: any number.
 * *exact: none may follow so many. */
static uint32_t plain_room(mnem__mask_walk *walk, uint32_t most, bool *exact) {
    mnem__grammar_work *w = walk->work;
    mnem__frame at = walk->state[0].frame;
    uint32_t room = 0, last = UINT32_MAX, to = UINT32_MAX;
    *exact = true;
    for (; room < most; room++) {
        uint32_t i = at.from;
        for (bool any = false; i < at.to && !any; i++) { /* mostly it is the same node again */
            if (w->place[i].node != last) to = behind_plain(w->program, last = w->place[i].node);
            any = to != UINT32_MAX;
        }
        *exact &= at.to - at.from < 2;
        if (at.to == at.from) break;
        const mnem__place from = w->place[i - 1];
        if (to == UINT32_MAX) *exact &= !takes_plain(w->program, from.node);
        if (to == UINT32_MAX) break;
        if (to == from.node) return UINT32_MAX;
        if (!mnem__grammar_work_enter(w, (mnem__place){to, from.call}, &at)) {
            *exact = false;
            break;
        }
    }
    restart(walk);
    return room;
}

/* ---- tokens ---- */

/* The states behind each byte of the token at hand. */
typedef struct path {
    uint8_t state[MNEM__GRAMMAR_TOKEN_BYTES + 1];
    uint8_t byte[MNEM__GRAMMAR_TOKEN_BYTES];
    uint32_t known; /* bytes that have states */
    bool plain;     /* the token and all that share its first bytes are plain text */
    uint32_t free;  /* bytes behind which any plain text may follow; 0: none */
} path;

static void allow(uint64_t *mask, const mnem__token_entry *e) {
    mask[e->id / 64] |= UINT64_C(1) << e->id % 64;
}

/* Goes on to length, or to where a plain token is free; DEAD or FULL where that fails, with known
 * bytes before. */
static uint8_t go_on(mnem__mask_walk *walk, path *p, uint32_t length) {
    uint8_t state = p->state[p->known];
    p->free = 0;
    for (; p->known < length && !p->free; p->known++) {
        const uint8_t byte = p->byte[p->known];
        uint8_t to = walk->to[state][byte];
        if (to == UNKNOWN) to = find(walk, state, byte);
        if (to >= FULL) return to;
        state = p->state[p->known + 1] = to;
        if (p->plain && is_free(walk, state)) p->free = p->known + 1;
    }
    return state;
}

/* A token for which the tables are too small, byte after byte. */
static bool walk_alone(mnem__mask_walk *walk, const path *p, uint32_t length, uint32_t *failed) {
    mnem__grammar_work *w = walk->work;
    const uint64_t steps = w->steps;
    mnem__grammar_work_load(w, walk->text);
    w->steps = steps;
    for (uint32_t i = 0; i < length; i++)
        if (!mnem__grammar_work_step(w, i, p->byte[i])) {
            *failed = i + 1;
            return false;
        }
    return true;
}

/* Whether the token at hand is allowed; if not, *failed is how many of its bytes aren't. A bound
 * that was passed is the work's status. */
static bool reach(mnem__mask_walk *walk, path *p, uint32_t length, uint32_t *failed) {
    mnem__grammar_work *w = walk->work;
    for (int tries = 0; tries < 2; tries++) {
        const uint8_t state = go_on(walk, p, length);
        *failed = p->known + 1;
        if (state != FULL || w->steps > w->steps_max) return state < FULL;
        restart(walk);
        p->known = 0;
    }
    p->free = 0;
    const bool allowed = walk_alone(walk, p, length, failed);
    if (w->status == MNEM_OK) restart(walk);
    return allowed;
}

static mnem_status walk_list(mnem__mask_walk *walk, const mnem_token_set *tokens,
                             const mnem__token_list *list, uint64_t *mask) {
    path p = {.known = 0, .plain = list->mask};
    uint32_t failed = UINT32_MAX;
    for (uint32_t i = 0; i < list->count;) {
        const mnem__token_entry *e = &list->entry[i];
        if (e->shared >= failed) {
            i = e->next;
            continue;
        }
        failed = UINT32_MAX;
        if (p.known > e->shared) p.known = e->shared;
        for (uint32_t k = e->shared; k < e->length; k++) /* few: a call takes longer */
            p.byte[k] = tokens->text[e->bytes + k - e->shared];
        if (reach(walk, &p, e->length, &failed)) {
            failed = UINT32_MAX;
            allow(mask, e);
        }
        MNEM__TRY(walk->work->status);
        i++;
        for (; p.free && i < list->count && list->entry[i].shared >= p.free; i++)
            allow(mask, &list->entry[i]);
    }
    return MNEM_OK;
}

/* The plain tokens of a list where so many characters may follow. */
static mnem_status allow_plain(mnem__mask_walk *walk, const mnem_token_set *tokens,
                               const mnem__token_list *list, uint32_t room, bool exact,
                               uint64_t *mask) {
    if (list->characters <= room)
        for (uint32_t k = 0; k < tokens->mask_words; k++) mask[k] |= list->mask[k];
    else if (exact)
        for (uint32_t i = 0; i < list->count; i++) {
            if (list->entry[i].characters <= room) allow(mask, &list->entry[i]);
        }
    else
        return walk_list(walk, tokens, list, mask);
    return MNEM_OK;
}

mnem_status mnem__mask_walk_all(mnem__mask_walk *walk, mnem__grammar_work *w, const uint32_t *text,
                                const mnem_token_set *tokens, uint64_t *mask) {
    bool exact;
    walk->work = w;
    walk->text = text;
    w->steps = 0;
    restart(walk);
    const uint32_t room = plain_room(walk, MNEM__LONG_CHARACTERS, &exact);
    for (int i = 0; i < MNEM__TOKENS_OTHER; i++)
        MNEM__TRY(allow_plain(walk, tokens, &tokens->list[i], room, exact, mask));
    return walk_list(walk, tokens, &tokens->list[MNEM__TOKENS_OTHER], mask);
}
