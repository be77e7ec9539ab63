/* grammar_work.c: see grammar_work.h.
 *
 * Invariant: a place is in a frame once, a call has an edge once; both are what makes ambiguous and
 * endless grammars finite.
 * Cost: a step looks at every place of the frame, and at those that its calls and returns lead to;
 * in JSON that is one or two. */
#include "sampling/grammar/grammar_work.h"

#include <string.h>

#include "base/heap.h"

/* ---- storage ---- */

/* Places, calls and edges that go with a state of so many bytes: walking along a token needs more
 * than a state. */
static uint32_t room_for(uint64_t state_bytes) {
    uint32_t room = 256;
    while (room < state_bytes / 4 && room < UINT32_C(1) << 24) room *= 2;
    return room;
}

uint64_t mnem__grammar_work_bytes(uint64_t state_bytes, uint32_t rules) {
    const mnem__grammar_work *w = NULL;
    return room_for(state_bytes) * (sizeof *w->place + sizeof *w->call + sizeof *w->edge +
                                    sizeof *w->renamed + 2 * sizeof *w->seen) +
           rules * (uint64_t)sizeof *w->of_rule;
}

void *mnem__grammar_zeros(size_t count, size_t size) {
    void *p = mnem__calloc(MNEM__GRAMMAR_TAG, count, size);
    if (p) memset(p, 0, count * size);
    return p;
}

mnem_status mnem__grammar_work_init(mnem__grammar_work *w, const mnem__program *program,
                                    uint64_t state_bytes, uint64_t steps_max) {
    const uint32_t room = room_for(state_bytes);
    w->program = program;
    w->room = room;
    w->seen_mask = 2 * room - 1;
    w->steps_max = steps_max;
    w->place = mnem__grammar_zeros(room, sizeof *w->place);
    w->call = w->place ? mnem__grammar_zeros(room, sizeof *w->call) : NULL;
    w->edge = w->call ? mnem__grammar_zeros(room, sizeof *w->edge) : NULL;
    w->renamed = w->edge ? mnem__grammar_zeros(room, sizeof *w->renamed) : NULL;
    w->seen = w->renamed ? mnem__grammar_zeros(2 * (size_t)room, sizeof *w->seen) : NULL;
    w->of_rule = w->seen ? mnem__grammar_zeros(program->rules, sizeof *w->of_rule) : NULL;
    return w->of_rule ? MNEM_OK : mnem__heap_status();
}

void mnem__grammar_work_fini(mnem__grammar_work *w) {
    mnem__free(w->place);
    mnem__free(w->call);
    mnem__free(w->edge);
    mnem__free(w->renamed);
    mnem__free(w->seen);
    mnem__free(w->of_rule);
    *w = (mnem__grammar_work){0};
}

/* ---- places, calls and returns ---- */

static bool has_room(mnem__grammar_work *w, uint32_t count, const char *what) {
    if (w->status != MNEM_OK) return false;
    if (count < w->room) return true;
    w->status = mnem__fail(MNEM_OVER_BUDGET,
                           "grammar: the text so far needs more than %u %s to follow the grammar; "
                           "set a larger state_bytes",
                           w->room, what);
    return false;
}

static bool take_steps(mnem__grammar_work *w, uint64_t n) {
    if ((w->steps += n) <= w->steps_max) return w->status == MNEM_OK;
    if (w->status == MNEM_OK)
        w->status = mnem__fail(
            MNEM_OVER_BUDGET,
            "grammar: one token takes more than %llu steps, the limit; simplify the grammar",
            (unsigned long long)w->steps_max);
    return false;
}

static void add_place(mnem__grammar_work *w, uint32_t node, uint32_t call) {
    const mnem__program_node *n = &w->program->node[node];
    if (n->op == MNEM__NODE_BYTES && n->b == 0) return;
    uint32_t at = (node * UINT32_C(2654435761) ^ call * UINT32_C(2246822519)) >> 7;
    for (at &= w->seen_mask; w->seen[at].frame == w->number; at = (at + 1) & w->seen_mask) {
        const mnem__place *p = &w->place[w->seen[at].index];
        if (p->node == node && p->call == call) return;
    }
    if (!has_room(w, w->places, "places")) return;
    w->seen[at].index = w->places;
    w->seen[at].frame = w->number;
    w->place[w->places++] = (mnem__place){node, call};
}

static void add_edge(mnem__grammar_work *w, uint32_t call, mnem__place to) {
    mnem__call *c = &w->call[call];
    uint64_t edges = 1;
    int32_t e = c->edge;
    for (; e >= 0; e = w->edge[e].before, edges++)
        if (w->edge[e].to.node == to.node && w->edge[e].to.call == to.call) break;
    if (!take_steps(w, edges) || e >= 0 || !has_room(w, w->edges, "returns")) return;
    w->edge[w->edges] = (mnem__call_edge){to, c->edge};
    c->edge = (int32_t)w->edges++;
    if (c->returned) add_place(w, to.node, to.call);
}

static void enter(mnem__grammar_work *w, uint32_t rule, mnem__place back) {
    const mnem__program *p = w->program;
    if (w->of_rule[rule].frame != w->number) {
        if (!has_room(w, w->calls, "calls")) return;
        w->call[w->calls] = (mnem__call){.edge = -1};
        w->of_rule[rule].call = w->calls++;
        w->of_rule[rule].frame = w->number;
        add_place(w, p->start[rule], w->of_rule[rule].call);
    }
    const uint32_t call = w->of_rule[rule].call;
    if (p->node[back.node].op != MNEM__NODE_RETURN || back.call >= w->calls_old ||
        back.call == MNEM__OUTERMOST) {
        add_edge(w, call, back);
        return;
    }
    for (int32_t e = w->call[back.call].edge; e >= 0 && w->status == MNEM_OK; e = w->edge[e].before)
        add_edge(w, call, w->edge[e].to);
}

static void leave(mnem__grammar_work *w, uint32_t call) {
    if (call == MNEM__OUTERMOST) {
        w->may_end = true;
        return;
    }
    if (call >= w->calls_old) w->call[call].returned = true;
    for (int32_t e = w->call[call].edge; e >= 0 && take_steps(w, 1); e = w->edge[e].before)
        add_place(w, w->edge[e].to.node, w->edge[e].to.call);
}

/* Follows what needs no byte, and keeps what does, from place `from` on. */
static void expand(mnem__grammar_work *w, uint32_t from) {
    const mnem__program *p = w->program;
    uint32_t kept = from;
    for (uint32_t i = from; i < w->places && take_steps(w, 1); i++) { /* places grows meanwhile */
        const mnem__place at = w->place[i];
        const mnem__program_node *n = &p->node[at.node];
        if (n->op == MNEM__NODE_CALL) enter(w, n->a, (mnem__place){n->b, at.call});
        if (n->op == MNEM__NODE_RETURN) leave(w, at.call);
        if (n->op != MNEM__NODE_FORK) continue;
        for (uint32_t t = n->a; t < n->a + n->b; t++) add_place(w, p->target[t], at.call);
    }
    for (uint32_t i = from; i < w->places; i++)
        if (p->node[w->place[i].node].op == MNEM__NODE_BYTES) w->place[kept++] = w->place[i];
    w->places = kept;
}

/* ---- frames ---- */

/* A frame is begun behind all that there is. */
static void begin_frame(mnem__grammar_work *w) {
    w->calls_old = w->calls;
    w->may_end = false;
    if (++w->number == 0) { /* numbers begin again: nothing was seen in them */
        memset(w->seen, 0, ((size_t)w->seen_mask + 1) * sizeof *w->seen);
        memset(w->of_rule, 0, w->program->rules * sizeof *w->of_rule);
        w->number = 1;
    }
}

/* What lies behind a frame is forgotten, and the next one is begun. */
static void open_frame(mnem__grammar_work *w, uint32_t frame) {
    const mnem__frame *f = &w->frame[frame];
    w->places = f->to;
    w->calls = f->calls;
    w->edges = f->edges;
    begin_frame(w);
}

static mnem__frame whole_frame(const mnem__grammar_work *w, uint32_t from) {
    return (mnem__frame){from, w->places, w->calls, w->edges, w->may_end};
}

static void close_frame(mnem__grammar_work *w, uint32_t frame, uint32_t from) {
    w->frame[frame] = whole_frame(w, from);
}

/* The places that those of a frame lead to by a byte. */
static void follow(mnem__grammar_work *w, const mnem__frame *f, uint8_t byte) {
    const mnem__program *p = w->program;
    for (uint32_t i = f->from; i < f->to; i++) {
        const mnem__program_node *n = &p->node[w->place[i].node];
        const mnem__edge *e = p->edge + n->a, *end = e + n->b;
        while (e < end && e->high < byte) e++;
        if (e < end && e->low <= byte) add_place(w, (uint32_t)e->to, w->place[i].call);
    }
}

bool mnem__grammar_work_step(mnem__grammar_work *w, uint32_t frame, uint8_t byte) {
    open_frame(w, frame);
    const uint32_t from = w->places;
    follow(w, &w->frame[frame], byte);
    expand(w, from);
    close_frame(w, frame + 1, from);
    return w->status == MNEM_OK && mnem__frame_lives(&w->frame[frame + 1]);
}

bool mnem__grammar_work_leap(mnem__grammar_work *w, const mnem__frame *f, uint8_t byte,
                             mnem__frame *to) {
    begin_frame(w);
    const uint32_t from = w->places;
    follow(w, f, byte);
    expand(w, from);
    *to = whole_frame(w, from);
    return w->status == MNEM_OK && mnem__frame_lives(to);
}

bool mnem__grammar_work_enter(mnem__grammar_work *w, mnem__place at, mnem__frame *to) {
    begin_frame(w);
    const uint32_t from = w->places;
    add_place(w, at.node, at.call);
    expand(w, from);
    *to = whole_frame(w, from);
    return w->status == MNEM_OK && mnem__frame_lives(to);
}

void mnem__grammar_work_forget(mnem__grammar_work *w, const mnem__frame *last, uint32_t calls,
                               uint32_t edges) {
    w->places = last->from;
    w->calls = calls;
    w->edges = edges;
}

mnem_status mnem__grammar_work_begin(mnem__grammar_work *w) {
    w->frame[0] = (mnem__frame){.calls = 1};
    w->call[MNEM__OUTERMOST] = (mnem__call){.edge = -1};
    w->status = MNEM_OK;
    w->steps = 0;
    open_frame(w, 0);
    add_place(w, w->program->start[w->program->root], MNEM__OUTERMOST);
    expand(w, 0);
    close_frame(w, 0, 0);
    return w->status;
}

/* ---- states ---- */

/* Numbers calls in the order in which they are met; queue[0 .. calls) are those. */
static uint32_t rename_call(mnem__grammar_work *w, uint32_t call, uint32_t *queue,
                            uint32_t *calls) {
    if (w->renamed[call] == UINT32_MAX) {
        w->renamed[call] = *calls;
        queue[(*calls)++] = call;
    }
    return w->renamed[call];
}

static uint32_t out_of_room(mnem__grammar_work *w) {
    w->status = mnem__fail(
        MNEM_OVER_BUDGET,
        "grammar: the text so far is nested too deeply for state_bytes; set a larger one");
    return 0;
}

/* state: head, places, then for each call its number of edges and those. The queue of calls lies at
 * the end of room, and is gone when the words are whole. */
uint32_t mnem__grammar_work_save(mnem__grammar_work *w, uint32_t frame, uint32_t *state,
                                 uint32_t room) {
    const mnem__frame *f = &w->frame[frame];
    uint32_t *queue = (uint32_t *)(void *)(w->place + f->to); /* nothing needs what is behind */
    uint32_t at = MNEM__STATE_HEAD, calls = 0, edges = 0;
    if (f->calls > 2 * (w->room - f->to)) return out_of_room(w);
    for (uint32_t i = 0; i < f->calls; i++) w->renamed[i] = UINT32_MAX;
    rename_call(w, MNEM__OUTERMOST, queue, &calls);
    for (uint32_t i = f->from; i < f->to; i++) {
        if (at + 2 > room) return out_of_room(w);
        state[at++] = w->place[i].node;
        state[at++] = rename_call(w, w->place[i].call, queue, &calls);
    }
    for (uint32_t c = 0; c < calls; c++) {
        if (at + 1 > room) return out_of_room(w);
        const uint32_t count = at++;
        state[count] = 0;
        for (int32_t e = w->call[queue[c]].edge; e >= 0; e = w->edge[e].before, edges++) {
            if (at + 2 > room) return out_of_room(w);
            state[count]++;
            state[at++] = w->edge[e].to.node;
            state[at++] = rename_call(w, w->edge[e].to.call, queue, &calls);
        }
    }
    state[MNEM__STATE_PLACES] = f->to - f->from;
    state[MNEM__STATE_CALLS] = calls;
    state[MNEM__STATE_EDGES] = edges;
    state[MNEM__STATE_END] = f->may_end;
    return at;
}

void mnem__grammar_work_load(mnem__grammar_work *w, const uint32_t *state) {
    const uint32_t *at = state + MNEM__STATE_HEAD;
    w->status = MNEM_OK;
    w->steps = 0;
    w->places = state[MNEM__STATE_PLACES];
    w->calls = state[MNEM__STATE_CALLS];
    w->edges = 0;
    w->may_end = state[MNEM__STATE_END];
    for (uint32_t i = 0; i < w->places; i++, at += 2) w->place[i] = (mnem__place){at[0], at[1]};
    for (uint32_t c = 0; c < w->calls; c++) {
        const uint32_t count = *at++;
        w->call[c] = (mnem__call){.edge = -1};
        for (uint32_t e = count; e-- > 0;) { /* the last one is met first again */
            w->edge[w->edges] = (mnem__call_edge){{at[2 * e], at[2 * e + 1]}, w->call[c].edge};
            w->call[c].edge = (int32_t)w->edges++;
        }
        at += 2 * count;
    }
    close_frame(w, 0, 0);
}
