/* report_spans.c: spans of threads, summed by name.
 *
 * The idea: each thread has a stack of what runs; an end belongs to the innermost that began. What
 * is deeper than the stack isn't timed.
 * Cost: a search among the threads, which are few, and an entry for each name. */
#include "base/error.h"
#include "mnem/trace_read.h"
#include "sight/report/report_private.h"

static mnem__span_stack *stack_of(mnem__spans *s, uint32_t thread) {
    for (uint32_t i = 0; i < s->stacks; i++)
        if (s->stack[i].thread == thread) return &s->stack[i];
    mnem__span_stack *more = mnem__realloc("report", s->stack, (s->stacks + 1) * sizeof *more);
    if (!more) return NULL;
    s->stack = more;
    more[s->stacks] = (mnem__span_stack){.thread = thread};
    return &more[s->stacks++];
}

/* Room for the sum of that name; names are numbered from 0 without gaps, more or less. */
static bool reserve(mnem__spans *s, uint32_t name) {
    if (name < s->count) return true;
    uint32_t room = s->count ? s->count : 64;
    while (room <= name) room *= 2;
    mnem__span_sum *more = mnem__realloc("report", s->of, room * sizeof *more);
    if (!more) return false;
    for (uint32_t i = s->count; i < room; i++) more[i] = (mnem__span_sum){.name = i};
    s->of = more;
    s->count = room;
    return true;
}

static void begin(mnem__span_stack *t, const mnem__report_event *e) {
    if (t->depth < MNEM__SPAN_DEPTH) {
        t->name[t->depth] = e->name;
        t->sort[t->depth] = e->why;
        t->from[t->depth] = e->at;
        t->bytes[t->depth] = e->bytes;
    }
    t->depth++;
}

static void add(mnem__span_sum *o, const mnem__span *span) {
    const uint64_t took = span->to - span->from;
    o->count++;
    o->total += took;
    o->bytes += span->bytes;
    o->multiply_adds += span->multiply_adds;
    o->sort = span->sort;
    if (took > o->longest) o->longest = took;
}

mnem_status mnem__spans_tell(mnem__spans *s, const mnem__report_event *e, bool *ended,
                             mnem__span *span) {
    mnem__span_stack *t = stack_of(s, e->thread);
    *ended = false;
    if (!t) return mnem__heap_status();
    if (e->what == MNEM__REPORT_BEGIN) {
        begin(t, e);
        return MNEM_OK;
    }
    if (!t->depth || --t->depth >= MNEM__SPAN_DEPTH) return MNEM_OK;
    const uint32_t i = t->depth;
    if (!reserve(s, t->name[i])) return mnem__heap_status();
    const bool adds = t->sort[i] == MNEM_SPAN_OPERATOR; /* what its end says */
    *span = (mnem__span){.from = t->from[i],
                         .to = e->at,
                         .bytes = e->bytes && !adds ? e->bytes : t->bytes[i],
                         .multiply_adds = adds ? e->bytes : 0,
                         .name = t->name[i],
                         .lane = (uint32_t)(t - s->stack),
                         .depth = i,
                         .sort = t->sort[i]};
    add(&s->of[t->name[i]], span);
    *ended = true;
    return MNEM_OK;
}

void mnem__spans_fini(mnem__spans *s) {
    mnem__free(s->of);
    mnem__free(s->stack);
    *s = (mnem__spans){0};
}
