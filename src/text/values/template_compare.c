/* template_compare.c: what is equal, what comes first, what contains what, and sorting by it.
 *
 * As in Python: numbers and bools compare by value, an order of values of different kinds fails.
 * Valid UTF-8 has the order of its characters. Cost: merge sort (stable, as Python's is). */
#include <math.h>
#include <string.h>

#include "text/values/template_private.h"

static bool equal_lists(mnem_template *t, const mnem__any_list *a, const mnem__any_list *b) {
    if (a->count != b->count) return false;
    mnem__template_enter(t);
    bool equal = true;
    for (uint32_t i = 0; i < a->count && equal; i++)
        equal = mnem__any_equal(t, a->items[i], b->items[i]);
    mnem__template_leave(t);
    return equal;
}

static bool equal_dicts(mnem_template *t, const mnem__any_dict *a, const mnem__any_dict *b) {
    if (a->count != b->count) return false;
    mnem__template_enter(t);
    bool equal = true;
    for (uint32_t i = 0; i < a->count && equal; i++) {
        const mnem__any *value = mnem__any_dict_find(t, b, a->entries[i].key);
        equal = value && mnem__any_equal(t, a->entries[i].value, *value);
    }
    mnem__template_leave(t);
    return equal;
}

static bool equal_ranges(const mnem__any_range *a, const mnem__any_range *b) {
    return a->count == b->count && (a->count == 0 || a->start == b->start) &&
           (a->count < 2 || a->step == b->step);
}

bool mnem__any_equal(mnem_template *t, mnem__any a, mnem__any b) {
    if (mnem__any_number(a) && mnem__any_number(b))
        return mnem__any_whole(a) && mnem__any_whole(b) ? a.i == b.i
                                                        : mnem__any_f64(a) == mnem__any_f64(b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case MNEM__ANY_UNDEFINED:
    case MNEM__ANY_NONE: return true;
    case MNEM__ANY_BIG:
    case MNEM__ANY_TEXT:
        if (a.length != b.length) return false;
        mnem__template_step(t, a.length / 64);
        return memcmp(a.text, b.text, a.length) == 0;
    case MNEM__ANY_LIST:
    case MNEM__ANY_TUPLE: return equal_lists(t, a.list, b.list);
    case MNEM__ANY_DICT: return equal_dicts(t, a.dict, b.dict);
    case MNEM__ANY_RANGE: return equal_ranges(a.range, b.range);
    default: return a.list == b.list; /* the same thing */
    }
}

static int compare_texts(mnem_template *t, mnem__any a, mnem__any b) {
    const size_t n = a.length < b.length ? a.length : b.length;
    mnem__template_step(t, n / 64);
    const int order = memcmp(a.text, b.text, n);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_lists(mnem_template *t, const mnem__any_list *a, const mnem__any_list *b) {
    int order = 0;
    mnem__template_enter(t);
    for (uint32_t i = 0; i < a->count && i < b->count && order == 0; i++)
        if (!mnem__any_equal(t, a->items[i], b->items[i]))
            order = mnem__any_compare(t, a->items[i], b->items[i]);
    mnem__template_leave(t);
    return order != 0 ? order : (a->count > b->count) - (a->count < b->count);
}

/* An int of more than 64 bits is beyond any other of its sign; how far a float is isn't known. */
static int compare_big(mnem_template *t, mnem__any a, mnem__any b) {
    const int minus = *a.text == '-';
    if (!mnem__any_big(b)) {
        if (!mnem__any_whole(b) && !(fabs(b.f) < 0x1p63))
            mnem__template_refuse(
                t,
                "an integer of more than 64 bits can't be compared with a float of 2^63 or more");
        return minus ? -1 : 1;
    }
    if (minus != (*b.text == '-')) return minus ? -1 : 1;
    int order = (a.length > b.length) - (a.length < b.length);
    if (order == 0) order = memcmp(a.text, b.text, a.length);
    return minus ? -order : order;
}

int mnem__any_compare(mnem_template *t, mnem__any a, mnem__any b) {
    mnem__template_step(t, 1);
    if (mnem__any_whole(a) && mnem__any_whole(b)) return (a.i > b.i) - (a.i < b.i);
    if (mnem__any_number(a) && mnem__any_number(b)) {
        const double x = mnem__any_f64(a), y = mnem__any_f64(b);
        return (x > y) - (x < y);
    }
    if (mnem__any_big(a) && (mnem__any_big(b) || mnem__any_number(b))) return compare_big(t, a, b);
    if (mnem__any_big(b) && mnem__any_number(a)) return -compare_big(t, b, a);
    if (a.kind == b.kind && a.kind == MNEM__ANY_TEXT) return compare_texts(t, a, b);
    if (a.kind == b.kind && (a.kind == MNEM__ANY_LIST || a.kind == MNEM__ANY_TUPLE))
        return compare_lists(t, a.list, b.list);
    mnem__template_refuse(t, "values of the types %s and %s can't be compared", mnem__any_type(a),
                          mnem__any_type(b));
}

static bool contains_text(mnem_template *t, mnem__any all, mnem__any one) {
    if (!mnem__any_is(one, MNEM__ANY_TEXT))
        mnem__template_refuse(t,
                              "the left side of 'in' must be text, as the right side is text, "
                              "found a value of type %s",
                              mnem__any_type(one));
    mnem__template_step(t, all.length / 16);
    return one.length == 0 || memmem(all.text, all.length, one.text, one.length);
}

bool mnem__any_contains(mnem_template *t, mnem__any all, mnem__any one) {
    if (mnem__any_is(all, MNEM__ANY_TEXT)) return contains_text(t, all, one);
    if (mnem__any_is(all, MNEM__ANY_DICT)) return mnem__any_dict_find(t, all.dict, one);
    if (mnem__any_is(all, MNEM__ANY_VIEW) && all.view->of == MNEM__VIEW_KEYS)
        return mnem__any_dict_find(t, all.view->dict, one); /* which refuses what isn't hashable */
    const mnem__any_list *list = mnem__any_items(t, all);
    mnem__template_step(t, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        if (mnem__any_equal(t, list->items[i], one)) return true;
    return false;
}

/* ---- sorting ---- */

typedef struct sorter {
    mnem_template *t;
    const mnem__any *keys;
    bool reverse; /* equal ones keep their order in any case */
} sorter;

static void merge(const sorter *s, const uint32_t *from, uint32_t *to, size_t n, size_t half) {
    for (size_t i = 0, a = 0, b = half; i < n; i++) {
        bool second = a == half;
        if (a < half && b < n) {
            const int order = mnem__any_compare(s->t, s->keys[from[b]], s->keys[from[a]]);
            second = s->reverse ? order > 0 : order < 0;
        }
        to[i] = from[second ? b++ : a++];
    }
}

void mnem__template_sort(mnem_template *t, mnem__any_list *items, const mnem__any *keys,
                         bool reverse) {
    const sorter s = {t, keys, reverse};
    const size_t n = items->count;
    uint32_t *from = mnem__template_take(t, 2 * n * sizeof *from), *to = from + n;
    mnem__any *sorted = mnem__template_take(t, n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) from[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            const size_t left = n - at < 2 * width ? n - at : 2 * width;
            merge(&s, from + at, to + at, left, left < width ? left : width);
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
    for (size_t i = 0; i < n; i++) sorted[i] = items->items[from[i]];
    items->items = sorted;
    items->room = items->count;
}
