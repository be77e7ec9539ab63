/* template_globals.c: the functions that every template has. */
#include <string.h>

#include "text/template/template_call.h"

#define GLOBAL(name)                                                                               \
    static mnem__any run_##name(mnem_template *t, mnem__any in, const mnem__any *a,                \
                                const mnem__arguments *more)
#define UNUSED(x) (void)(x)

enum { RANGE_MAX = 100000 }; /* the sandbox's */

GLOBAL(range) {
    UNUSED(in), UNUSED(more);
    mnem__any_range r = {.step = 1, .stop = mnem__argument_int(t, a[0], 0, "range()")};
    if (mnem__is_given(a[1])) {
        r.start = r.stop;
        r.stop = mnem__argument_int(t, a[1], 0, "range()");
    }
    r.step = mnem__argument_int(t, a[2], 1, "range()");
    if (r.step == 0) mnem__template_refuse(t, "range(): the step is 0, expected another integer");
    const bool up = r.step > 0;
    const uint64_t far =
        up ? (uint64_t)r.stop - (uint64_t)r.start : (uint64_t)r.start - (uint64_t)r.stop;
    const uint64_t step = up ? (uint64_t)r.step : 0 - (uint64_t)r.step;
    const uint64_t count = (up ? r.stop > r.start : r.stop < r.start) ? (far - 1) / step + 1 : 0;
    if (count > RANGE_MAX)
        mnem__template_refuse(t, "range(): the result would have %llu numbers, expected at most %d",
                              (unsigned long long)count, RANGE_MAX);
    r.count = (int64_t)count;
    mnem__any_range *range = mnem__template_take(t, sizeof *range);
    *range = r;
    return (mnem__any){.kind = MNEM__ANY_RANGE, .range = range};
}

/* From a dict or pairs, and arguments by name. */
static mnem__any dict_of(mnem_template *t, mnem__any_kind kind, const mnem__arguments *more) {
    const mnem__any dict = mnem__any_dict_make(t, kind);
    if (more->list && more->list->count > 1)
        mnem__template_refuse(t, "dict() takes at most 1 argument without a name, but %u are given",
                              more->list->count);
    mnem__any from = mnem__any_of(MNEM__ANY_MISSING);
    if (more->list && more->list->count > 0) from = more->list->items[0];
    if (mnem__any_is(from, MNEM__ANY_DICT))
        from = mnem__any_view_make(t, from.dict, MNEM__VIEW_ITEMS);
    const mnem__any_list *pairs = mnem__is_given(from) ? mnem__any_items(t, from) : NULL;
    for (uint32_t i = 0; pairs && i < pairs->count; i++) {
        const mnem__any_list *pair = mnem__any_items(t, pairs->items[i]);
        if (pair->count != 2)
            mnem__template_refuse(t, "dict(): item %u has %u values, expected 2: a key and a value",
                                  i, pair->count);
        mnem__any_dict_set(t, dict.dict, pair->items[0], pair->items[1]);
    }
    for (uint32_t i = 0; more->named && i < more->named->count; i++)
        mnem__any_dict_set(t, dict.dict, more->named->entries[i].key,
                           more->named->entries[i].value);
    return dict;
}

GLOBAL(dict) {
    UNUSED(in), UNUSED(a);
    return dict_of(t, MNEM__ANY_DICT, more);
}
GLOBAL(namespace) {
    UNUSED(in), UNUSED(a);
    const mnem__any space = dict_of(t, MNEM__ANY_NAMESPACE, more);
    for (uint32_t i = 0; i < space.dict->count; i++) {
        const mnem__any name = space.dict->entries[i].key;
        if (mnem__any_is(name, MNEM__ANY_TEXT) && name.length > 0 && name.text[0] == '_')
            mnem__template_refuse(
                t, "namespace(): the name '%.*s' begins with '_'; choose another name",
                (int)(name.length < 40 ? name.length : 40), name.text);
    }
    return space;
}
GLOBAL(raise_exception) {
    UNUSED(in), UNUSED(more);
    mnem__template_raise(t, a[0]);
}
GLOBAL(strftime_now) {
    UNUSED(in), UNUSED(more);
    return mnem__template_clock(t, mnem__argument_text(t, a[0], "", "strftime_now()"));
}
GLOBAL(cycler) {
    UNUSED(in), UNUSED(a);
    if (more->named) mnem__template_refuse(t, "cycler() takes no arguments with a name");
    if (!more->list || more->list->count == 0)
        mnem__template_refuse(t, "cycler() needs at least one value");
    return (mnem__any){.kind = MNEM__ANY_CYCLER, .list = more->list};
}
GLOBAL(joiner) {
    UNUSED(in), UNUSED(more);
    mnem__any joiner = mnem__any_list_make(t, MNEM__ANY_JOINER, 1);
    mnem__any_list_add(t, joiner.list, mnem__is_given(a[0]) ? a[0] : mnem__any_word(", "));
    return joiner;
}

static const mnem__function globals[] = {
    {"range", "start stop step", 1, run_range},
    {"dict", "*", 0, run_dict},
    {"namespace", "*", 0, run_namespace},
    {"raise_exception", "message", 1, run_raise_exception},
    {"strftime_now", "format", 1, run_strftime_now},
    {"cycler", "*", 0, run_cycler},
    {"joiner", "sep", 0, run_joiner},
    {"lipsum", NULL, 0, NULL},
};

mnem__any mnem__template_global(mnem__any name) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (mnem__any_says(name, globals[i].name))
            return (mnem__any){.kind = MNEM__ANY_FUNCTION, .i = (int64_t)i};
    return mnem__any_of(MNEM__ANY_MISSING);
}

mnem__any mnem__template_call_global(mnem_template *t, mnem__any f, const mnem__arguments *more) {
    return mnem__template_apply(t, &globals[f.i], f, more);
}

/* ---- cyclers ---- */

static mnem__any run_next(mnem_template *t, mnem__any self, const mnem__any *a,
                          const mnem__arguments *more) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    const mnem__any item = self.list->items[self.list->at];
    self.list->at = (self.list->at + 1) % self.list->count;
    return item;
}

static mnem__any run_reset(mnem_template *t, mnem__any self, const mnem__any *a,
                           const mnem__arguments *more) {
    UNUSED(t), UNUSED(a), UNUSED(more);
    self.list->at = 0;
    return mnem__any_of(MNEM__ANY_NONE);
}

mnem__any mnem__cycler_field(mnem_template *t, mnem__any cycler, mnem__any name) {
    static const mnem__method methods[] = {{MNEM__ANY_CYCLER, {"next", "", 0, run_next}},
                                           {MNEM__ANY_CYCLER, {"reset", "", 0, run_reset}}};
    if (mnem__any_says(name, "current")) return cycler.list->items[cycler.list->at];
    for (int i = 0; i < 2; i++)
        if (mnem__any_says(name, methods[i].f.name))
            return mnem__template_method_make(t, cycler, &methods[i]);
    return mnem__any_of(MNEM__ANY_MISSING);
}
