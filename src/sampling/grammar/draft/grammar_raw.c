/* grammar_raw.c: see grammar_raw.h.
 *
 * The idea: a rule that writes JSON strings is read by a transducer that decodes them, and its
 * output by an automaton that searches for the end mark (Knuth, Morris and Pratt, 1977). What is
 * written is the product of the three, so whatever a schema says of strings holds of raw texts,
 * too. A state is a node of the draft, the calls that it stands in, what was read of a string, and
 * how much of the mark has been met.
 *
 *     OPEN --"--> TEXT --"--> DONE            only bytes of TEXT, and those that an escape stands
 *                 |  ^                        for, are written; quotes and backslashes are steps
 *                 \  +-- n " \ b f r t, u00.. without a byte
 *                 v  |
 *                ESCAPE
 *
 * Calls are followed, so a rule may stand in the output several times. Escapes of characters that
 * need none (\/, \u0041) are left out: the character itself is there as well. U+0000 is left out.
 * Cost: linear in the states; they take up to as many bytes as the draft may. */
#include "sampling/grammar/draft/grammar_raw.h"

#include <string.h>

#include "base/heap.h"

enum {
    CALLS_MAX = 64, /* inside one another */
    EPSILONS = 2,   /* steps without a byte of one state, at the most */
    MOVES = 256     /* bytes of one state, as ranges */
};

typedef enum raw_mode {
    OPEN,
    TEXT,
    ESCAPE,
    HEX_0, /* behind \u */
    HEX_00,
    HEX_000, /* behind \u00 */
    HEX_LOW, /* behind \u000: a control character's last digit */
    HEX_HIGH,
    DONE
} raw_mode;

/* ---- numbers for keys of 64 bits ---- */

typedef struct key_table {
    uint64_t *key;  /* [count], in the order of their numbers */
    uint32_t *slot; /* a number + 1; 0: free */
    uint32_t count, room, slots;
} key_table;

static void table_fini(key_table *t) {
    mnem__free(t->key);
    mnem__free(t->slot);
}

static uint32_t slot_of(const key_table *t, uint64_t key) {
    uint32_t at = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (t->slots - 1);
    while (t->slot[at] && t->key[t->slot[at] - 1] != key) at = (at + 1) & (t->slots - 1);
    return at;
}

static bool table_grow(key_table *t) {
    const uint32_t room = t->room ? 2 * t->room : 256;
    uint64_t *key = mnem__realloc(MNEM__GRAMMAR_TAG, t->key, room * sizeof *key);
    if (!key) return false;
    t->key = key;
    t->room = room;
    mnem__free(t->slot);
    t->slots = 2 * room;
    t->slot = mnem__calloc(MNEM__GRAMMAR_TAG, t->slots, sizeof *t->slot);
    if (!t->slot) return false;
    for (uint32_t i = 0; i < t->count; i++) t->slot[slot_of(t, t->key[i])] = i + 1;
    return true;
}

/* ---- states ---- */

typedef struct state {
    uint32_t node, frame;
    uint32_t met; /* bytes of the mark */
    raw_mode mode;
} state;

typedef struct raw {
    mnem__draft *d;
    const char *end;
    uint32_t end_bytes, fail[MNEM__RAW_END_MAX + 1];
    key_table states; /* node, met, mode, frame */
    key_table frames; /* where a call returns to, and the frame of that; frame 0: none */
    uint8_t *depth;   /* of each frame */
    uint32_t depth_room;
    uint32_t *at; /* of each state: its first node of the output, less base */
    mnem_status status;
} raw;

/* What follows a state. */
typedef struct moves {
    mnem__edge edge[MOVES]; /* to: a state */
    uint32_t edges, epsilon[EPSILONS], epsilons;
    bool ends;
} moves;

static void fail_with(raw *r, mnem_status status) {
    if (r->status == MNEM_OK) r->status = status;
}

static uint32_t number_of(raw *r, key_table *t, uint64_t key) {
    if (r->status != MNEM_OK) return 0;
    if (t->count == t->room) {
        const uint64_t bytes = (uint64_t)t->room * 2 * (sizeof *t->key + 4 * sizeof *t->slot);
        if (!mnem__draft_fits(r->d, bytes))
            fail_with(r, MNEM_OVER_BUDGET);
        else if (!table_grow(t))
            fail_with(r, mnem__heap_status());
        if (r->status != MNEM_OK) return 0;
    }
    const uint32_t at = slot_of(t, key);
    if (!t->slot[at]) {
        t->key[t->count++] = key;
        t->slot[at] = t->count;
    }
    return t->slot[at] - 1;
}

enum { NODE_BITS = 28, MET_BITS = 6, MODE_BITS = 4, FRAME_BITS = 26 };

static uint32_t state_of(raw *r, uint32_t node, uint32_t frame, raw_mode mode, uint32_t met) {
    if (node >> NODE_BITS || frame >> FRAME_BITS) fail_with(r, MNEM_OVER_BUDGET);
    const uint64_t key = (((uint64_t)frame << MODE_BITS | mode) << MET_BITS | met) << NODE_BITS;
    return number_of(r, &r->states, key | node);
}

static state state_at(const raw *r, uint32_t number) {
    const uint64_t key = r->states.key[number];
    return (state){.node = (uint32_t)(key & ((1U << NODE_BITS) - 1)),
                   .met = (uint32_t)(key >> NODE_BITS & ((1U << MET_BITS) - 1)),
                   .mode = (raw_mode)(key >> (NODE_BITS + MET_BITS) & ((1U << MODE_BITS) - 1)),
                   .frame = (uint32_t)(key >> (NODE_BITS + MET_BITS + MODE_BITS))};
}

/* The frame of a call in another frame. */
static uint32_t frame_of(raw *r, uint32_t back, uint32_t in) {
    const uint32_t before = r->frames.count;
    const uint32_t frame = number_of(r, &r->frames, (uint64_t)back << 32 | in);
    if (r->status != MNEM_OK || frame < before) return frame;
    if (r->frames.room > r->depth_room) {
        uint8_t *grown = mnem__realloc(MNEM__GRAMMAR_TAG, r->depth, r->frames.room);
        if (!grown) fail_with(r, mnem__heap_status());
        if (!grown) return 0;
        r->depth = grown;
        r->depth_room = r->frames.room;
    }
    r->depth[frame] = frame ? (uint8_t)(r->depth[in] + 1) : 0;
    if (r->depth[frame] > CALLS_MAX)
        fail_with(r, mnem__fail(MNEM_UNSUPPORTED,
                                "schema: with raw_end, a schema can't refer to itself, nor nest "
                                "more than %d deep",
                                CALLS_MAX));
    return frame;
}

/* ---- the mark ---- */

static void find_fails(raw *r) {
    r->fail[0] = 0;
    for (uint32_t i = 1, k = 0; i < r->end_bytes; i++) {
        while (k && r->end[i] != r->end[k]) k = r->fail[k - 1];
        if (r->end[i] == r->end[k]) k++;
        r->fail[i] = k;
    }
}

/* How much of the mark is met behind a byte more; end_bytes: all of it. */
static uint32_t step(const raw *r, uint32_t met, int byte) {
    while (met && (uint8_t)r->end[met] != byte) met = r->fail[met - 1];
    return (uint8_t)r->end[met] == byte ? met + 1 : 0;
}

/* ---- what follows a state ---- */

static uint32_t moved(uint32_t node, int32_t far) {
    return (uint32_t)((int32_t)node + far);
}

static void put_epsilon(moves *m, uint32_t to) {
    if (m->epsilons < EPSILONS) m->epsilon[m->epsilons++] = to;
}

/* Bytes of the output, up to `last`, from a state to a place. */
static void put_bytes(raw *r, const state *s, uint32_t node, int first, int last, moves *m) {
    while (first <= last && m->edges < MOVES) {
        const uint32_t met = step(r, s->met, first);
        int end = first;
        while (end < last && step(r, s->met, end + 1) == met) end++;
        if (met < r->end_bytes) {
            const uint32_t to = state_of(r, node, s->frame, TEXT, met);
            m->edge[m->edges++] = (mnem__edge){(uint8_t)first, (uint8_t)end, (int32_t)to};
        }
        first = end + 1;
    }
}

static void read_text(raw *r, const state *s, uint32_t node, int first, int last, moves *m) {
    for (int from = first; from <= last;) {
        int end = from;
        const bool plain = from != '"' && from != '\\';
        while (plain && end < last && end + 1 != '"' && end + 1 != '\\') end++;
        if (plain)
            put_bytes(r, s, node, from, end, m);
        else
            put_epsilon(m, state_of(r, node, s->frame, from == '"' ? DONE : ESCAPE, 0));
        from = end + 1;
    }
}

/* A byte inside an escape. */
static void read_escape(raw *r, const state *s, uint32_t node, int byte, moves *m) {
    static const char letters[] = "\"\\bfnrt", chars[] = "\"\\\b\f\n\r\t";
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = byte ? strchr(s->mode == ESCAPE ? letters : digits, byte) : NULL;
    raw_mode next = s->mode;
    if (s->mode == ESCAPE && byte == 'u') next = HEX_0;
    if (s->mode == HEX_0 && byte == '0') next = HEX_00;
    if (s->mode == HEX_00 && byte == '0') next = HEX_000;
    if (s->mode == HEX_000 && byte == '0') next = HEX_LOW;
    if (s->mode == HEX_000 && byte == '1') next = HEX_HIGH;
    if (next != s->mode) put_epsilon(m, state_of(r, node, s->frame, next, 0));
    if (next != s->mode || !found) return;
    int code = 0;
    if (s->mode == ESCAPE) code = (uint8_t)chars[found - letters];
    if (s->mode == HEX_LOW) code = (int)(found - digits) % 16;
    if (s->mode == HEX_HIGH) code = 16 + (int)(found - digits) % 16;
    if (code) put_bytes(r, s, node, code, code, m);
}

static void read_bytes(raw *r, const state *s, moves *m) {
    const mnem__draft_node *n = &r->d->node[s->node];
    for (int32_t e = n->x; e < n->x + n->y; e++) {
        const mnem__edge *edge = &r->d->edge[e];
        const uint32_t node = moved(s->node, edge->to);
        if (s->mode == OPEN && edge->low <= '"' && edge->high >= '"')
            put_epsilon(m, state_of(r, node, s->frame, TEXT, 0));
        if (s->mode == TEXT) read_text(r, s, node, edge->low, edge->high, m);
        if (s->mode == OPEN || s->mode == TEXT || s->mode == DONE) continue;
        for (int byte = edge->low; byte <= edge->high; byte++) read_escape(r, s, node, byte, m);
    }
}

static void read_return(raw *r, const state *s, moves *m) {
    const uint64_t frame = r->frames.key[s->frame];
    m->ends = s->frame == 0 && s->mode == DONE;
    if (s->frame == 0) return;
    put_epsilon(m, state_of(r, (uint32_t)(frame >> 32), (uint32_t)frame, s->mode, s->met));
}

static void find_moves(raw *r, uint32_t number, moves *m) {
    const state s = state_at(r, number);
    const mnem__draft_node n = r->d->node[s.node];
    m->edges = m->epsilons = 0;
    m->ends = false;
    switch ((mnem__draft_op)n.op) {
    case MNEM__DRAFT_BYTES: read_bytes(r, &s, m); break;
    case MNEM__DRAFT_RETURN: read_return(r, &s, m); break;
    case MNEM__DRAFT_CALL:
        if (r->d->start[n.x] < 0)
            fail_with(r, mnem__fail(MNEM_UNSUPPORTED, "schema: a rule is used before it is "
                                                      "defined: a bug in mnem, please report it"));
        else
            put_epsilon(m, state_of(r, (uint32_t)r->d->start[n.x], frame_of(r, s.node + 1, s.frame),
                                    s.mode, s.met));
        break;
    case MNEM__DRAFT_SPLIT:
        put_epsilon(m, state_of(r, moved(s.node, n.x), s.frame, s.mode, s.met));
        put_epsilon(m, state_of(r, moved(s.node, n.y), s.frame, s.mode, s.met));
        break;
    case MNEM__DRAFT_JUMP:
        put_epsilon(m, state_of(r, moved(s.node, n.x), s.frame, s.mode, s.met));
        break;
    }
}

/* ---- nodes ---- */

/* Ends, a node of its bytes, and a split or a jump for each step without a byte. */
static uint32_t nodes_of(const moves *m) {
    const uint32_t n = (m->edges > 0) + m->epsilons;
    return m->ends || n == 0 ? 1 : n;
}

static uint32_t put_bytes_node(raw *r, const moves *m, uint32_t base) {
    mnem__draft *d = r->d;
    const uint32_t first = d->edges, here = d->nodes;
    for (uint32_t i = 0; i < m->edges; i++) {
        const uint32_t to = base + r->at[m->edge[i].to];
        mnem__draft_edge_put(
            d, (mnem__edge){m->edge[i].low, m->edge[i].high, (int32_t)to - (int32_t)here});
    }
    return mnem__draft_node_put(d, MNEM__DRAFT_BYTES, (int32_t)first, (int32_t)m->edges);
}

static void put_nodes(raw *r, const moves *m, uint32_t base) {
    mnem__draft *d = r->d;
    if (m->ends) mnem__draft_node_put(d, MNEM__DRAFT_RETURN, 0, 0);
    if (m->ends) return;
    for (uint32_t i = 0; i < m->epsilons; i++) {
        const int32_t far = (int32_t)(base + r->at[m->epsilon[i]]) - (int32_t)d->nodes;
        const bool last = i + 1 == m->epsilons && !m->edges;
        mnem__draft_node_put(d, last ? MNEM__DRAFT_JUMP : MNEM__DRAFT_SPLIT, far, last ? 0 : 1);
    }
    if (m->edges || !m->epsilons) put_bytes_node(r, m, base);
}

/* All states that can be reached, then their nodes. */
static void write_all(raw *r, uint32_t rule, uint32_t out) {
    moves *m = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *m);
    uint32_t nodes = 0, room = 0;
    if (!m) fail_with(r, mnem__heap_status());
    frame_of(r, 0, 0); /* which is frame 0 */
    state_of(r, (uint32_t)r->d->start[rule], 0, OPEN, 0);
    for (uint32_t i = 0; m && r->status == MNEM_OK && i < r->states.count; i++) {
        find_moves(r, i, m);
        if (r->states.room > room) {
            uint32_t *grown =
                mnem__realloc(MNEM__GRAMMAR_TAG, r->at, r->states.room * sizeof *r->at);
            if (!grown) fail_with(r, mnem__heap_status());
            if (!grown) break;
            r->at = grown;
            room = r->states.room;
        }
        r->at[i] = nodes;
        nodes += nodes_of(m);
    }
    mnem__draft_begin(r->d, out);
    const uint32_t base = r->d->nodes;
    for (uint32_t i = 0; r->status == MNEM_OK && i < r->states.count; i++) {
        find_moves(r, i, m);
        put_nodes(r, m, base);
        fail_with(r, r->d->status);
    }
    mnem__free(m);
}

mnem_status mnem__raw_write(mnem__draft *d, uint32_t rule, const char *end, uint32_t *out) {
    raw r = {.d = d, .end = end, .end_bytes = (uint32_t)strlen(end)};
    if (r.end_bytes == 0 || r.end_bytes > MNEM__RAW_END_MAX)
        return mnem__fail(MNEM_INVALID, "grammar: raw_end has %u bytes, expected 1 to %d",
                          r.end_bytes, MNEM__RAW_END_MAX);
    for (const char *at = end; *at; at++)
        if (*at == '"' || *at == '\\' || (uint8_t)*at < ' ')
            return mnem__fail(
                MNEM_INVALID,
                "grammar: raw_end must not contain quotes, backslashes or control characters");
    find_fails(&r);
    *out = mnem__draft_rule(d);
    if (d->status == MNEM_OK) write_all(&r, rule, *out);
    fail_with(&r, d->status);
    table_fini(&r.states);
    table_fini(&r.frames);
    mnem__free(r.depth);
    mnem__free(r.at);
    if (r.status == MNEM_OVER_BUDGET)
        return mnem__fail(
            r.status,
            "grammar: the grammar of a schema needs more memory than the limit of %llu bytes",
            (unsigned long long)d->bytes_max);
    return r.status;
}
