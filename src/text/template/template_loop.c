/* template_loop.c: for, and what `loop` knows in its body.
 *
 * Items are taken one by one, at most one ahead: a filter may ask for what the body sets, as in
 * Jinja. loop.length and loop.revindex take them all. */
#include <string.h>

#include "text/template/template_run.h"

/* ---- taking items ---- */

static bool passes(mnem_template *t, const mnem__any_loop *loop, mnem__any item) {
    if (!loop->node->d || loop->unfiltered) return true;
    mnem__scope *before = t->scope;
    t->scope = mnem__scope_make(t, loop->around);
    mnem__template_assign(t, loop->node->a, item);
    const bool passed = mnem__any_truth(mnem__template_eval(t, loop->node->d));
    t->scope = before;
    return passed;
}

/* The next item that passes the filter; false at the end. */
static bool next_item(mnem_template *t, mnem__any_loop *loop, mnem__any *item) {
    while (loop->next < loop->items->count) {
        *item = loop->items->items[loop->next++];
        mnem__template_step(t, 1);
        if (passes(t, loop, *item)) return true;
    }
    return false;
}

static bool look_ahead(mnem_template *t, mnem__any_loop *loop) {
    if (!loop->has_ahead) loop->has_ahead = next_item(t, loop, &loop->ahead);
    return loop->has_ahead;
}

static bool turn(mnem_template *t, mnem__any_loop *loop) {
    if (!look_ahead(t, loop)) return false;
    loop->has_ahead = false;
    loop->previous = loop->current;
    loop->current = loop->ahead;
    loop->index0++;
    return true;
}

static int64_t length_of(mnem_template *t, mnem__any_loop *loop) {
    if (loop->node->d && !loop->unfiltered) { /* only what passes is left */
        mnem__any_list *rest = mnem__any_list_make(t, MNEM__ANY_LIST, 0).list;
        for (mnem__any item; next_item(t, loop, &item);) mnem__any_list_add(t, rest, item);
        loop->items = rest;
        loop->next = 0;
        loop->unfiltered = true;
    }
    return loop->index0 + 1 + loop->has_ahead + (loop->items->count - loop->next);
}

/* ---- the statement ---- */

static void clear(mnem__scope *scope) {
    for (mnem__binding *b = scope->first; b; b = b->next)
        b->value = mnem__any_of(MNEM__ANY_MISSING);
}

void mnem__template_run_for(mnem_template *t, const mnem__node *node, mnem__scope *around,
                            mnem__any items, int64_t depth0) {
    mnem__any_loop *loop = mnem__template_take(t, sizeof *loop);
    *loop = (mnem__any_loop){.node = node, .around = around, .index0 = -1, .depth0 = depth0};
    loop->items = mnem__any_items(t, items);
    mnem__scope *before = t->scope, *scope = mnem__scope_make(t, around);
    const char *name = mnem__template_intern(t, "loop", 4);
    bool turned = false;
    t->scope = scope;
    while (turn(t, loop)) {
        clear(scope);
        mnem__scope_set(t, scope, name, (mnem__any){.kind = MNEM__ANY_LOOP, .loop = loop});
        mnem__template_assign(t, node->a, loop->current);
        const mnem__flow flow = mnem__template_run(t, node->c);
        if (flow == MNEM__FLOW_BREAK) break;
        turned |= flow == MNEM__FLOW_ON; /* at the body's end: Jinja counts no other turns */
    }
    clear(scope);
    if (!turned) mnem__template_run(t, node->e);
    t->scope = before;
}

mnem__any mnem__template_call_loop(mnem_template *t, mnem__any_loop *loop,
                                   const mnem__arguments *more) {
    const size_t mark = t->out_bytes;
    if (!loop->node->sign)
        mnem__template_refuse(
            t, "loop() is called, but the loop is not recursive; add 'recursive' to its for");
    if (!more->list || more->list->count != 1 || more->named)
        mnem__template_refuse(t, "loop() takes exactly one argument, without a name");
    mnem__template_enter(t);
    mnem__template_run_for(t, loop->node, loop->around, more->list->items[0], loop->depth0 + 1);
    mnem__template_leave(t);
    return mnem__template_cut(t, mark);
}

/* ---- fields ---- */

static mnem__any run_cycle(mnem_template *t, mnem__any self, const mnem__any *a,
                           const mnem__arguments *more) {
    (void)a;
    if (more->named) mnem__template_refuse(t, "loop.cycle() takes no arguments with a name");
    if (!more->list || more->list->count == 0)
        mnem__template_refuse(t, "loop.cycle() needs at least one value");
    return more->list->items[self.loop->index0 % more->list->count];
}

static mnem__any run_changed(mnem_template *t, mnem__any self, const mnem__any *a,
                             const mnem__arguments *more) {
    (void)a;
    mnem__any values = mnem__any_list_make(t, MNEM__ANY_TUPLE, 0);
    if (more->list) values.list = more->list;
    const bool same = mnem__any_equal(t, self.loop->changed, values);
    self.loop->changed = values;
    return mnem__any_bool(!same);
}

static const mnem__method methods[] = {{MNEM__ANY_LOOP, {"cycle", "*", 0, run_cycle}},
                                       {MNEM__ANY_LOOP, {"changed", "*", 0, run_changed}}};

/* previtem and nextitem. */
static mnem__any neighbour(mnem_template *t, mnem__any_loop *loop, bool next) {
    if (next)
        return look_ahead(t, loop) ? loop->ahead
                                   : mnem__any_no("loop.nextitem: the last item has no next one");
    return loop->index0 > 0 ? loop->previous
                            : mnem__any_no("loop.previtem: the first item has no previous one");
}

mnem__any mnem__loop_field(mnem_template *t, mnem__any a, mnem__any name) {
    static const char *const names[] = {"index",    "index0",    "depth",   "depth0",
                                        "revindex", "revindex0", "length",  "first",
                                        "last",     "previtem",  "nextitem"};
    mnem__any_loop *loop = a.loop;
    size_t which = 0;
    while (which < 11 && !mnem__any_says(name, names[which])) which++;
    switch (which) {
    case 0: return mnem__any_int(loop->index0 + 1);
    case 1: return mnem__any_int(loop->index0);
    case 2: return mnem__any_int(loop->depth0 + 1);
    case 3: return mnem__any_int(loop->depth0);
    case 4: return mnem__any_int(length_of(t, loop) - loop->index0);
    case 5: return mnem__any_int(length_of(t, loop) - loop->index0 - 1);
    case 6: return mnem__any_int(length_of(t, loop));
    case 7: return mnem__any_bool(loop->index0 == 0);
    case 8: return mnem__any_bool(!look_ahead(t, loop));
    case 9: return neighbour(t, loop, false);
    case 10: return neighbour(t, loop, true);
    default: break;
    }
    for (int i = 0; i < 2; i++)
        if (mnem__any_says(name, methods[i].f.name))
            return mnem__template_method_make(t, a, &methods[i]);
    return mnem__any_of(MNEM__ANY_MISSING);
}
