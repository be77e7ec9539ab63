/* template_list_filters.c: filters of iterables.
 *
 * Where Python gives a generator, the result is walked at once and can be read once; it is true
 * whatever is in it, as there. Attributes are paths: "function.name", "0". */
#include <string.h>

#include "text/template/template_call.h"
#include "text/values/template_chars.h"

#define FILTER(name)                                                                               \
    static mnem__any filter_##name(mnem_template *t, mnem__any in, const mnem__any *a,             \
                                   const mnem__arguments *more)
#define UNUSED(x) (void)(x)

static mnem__any_list *new_list(mnem_template *t) {
    return mnem__any_list_make(t, MNEM__ANY_LIST, 0).list;
}

static mnem__any as_list(mnem__any_list *list) {
    return (mnem__any){.kind = MNEM__ANY_LIST, .list = list};
}

static bool is_nothing(mnem__any a) {
    return !mnem__is_given(a) || mnem__any_is(a, MNEM__ANY_NONE);
}

/* ---- attributes of items ---- */

/* "12" as a number, as it picks an item; other parts as they are. */
static mnem__any path_part(mnem_template *t, mnem__any part) {
    mnem__any number = mnem__any_int(0);
    if (part.length == 0) return part;
    for (size_t at = 0; at < part.length;)
        if (!mnem__char_is_digit(mnem__char_next(part.text, &at))) return part;
    if (!mnem__template_read_int(t, part, 10, &number.i)) /* a superscript is no number, as there */
        mnem__template_refuse(
            t, "the item number '%.*s' of an attribute must be written in the digits 0 to 9",
            (int)(part.length < 40 ? part.length : 40), part.text);
    return number;
}

/* What path names in item; path NONE: item itself. */
static mnem__any follow(mnem_template *t, mnem__any item, mnem__any path) {
    if (is_nothing(path)) return item;
    if (!mnem__any_is(path, MNEM__ANY_TEXT)) return mnem__template_item(t, item, path);
    const mnem__any_list *parts = mnem__text_split(t, path, mnem__any_word("."), -1, false).list;
    for (uint32_t i = 0; i < parts->count; i++)
        item = mnem__template_item(t, item, path_part(t, parts->items[i]));
    return item;
}

/* Texts compare without case unless told otherwise. */
static mnem__any fold(mnem_template *t, mnem__any key, bool case_sensitive) {
    return !case_sensitive && mnem__any_is(key, MNEM__ANY_TEXT) ? mnem__text_lower(t, key) : key;
}

/* A key for each item: what path names in it, folded. */
static mnem__any *keys_of(mnem_template *t, const mnem__any_list *items, mnem__any path,
                          bool case_sensitive) {
    mnem__any *keys = mnem__template_take(t, items->count * sizeof *keys);
    for (uint32_t i = 0; i < items->count; i++)
        keys[i] = fold(t, follow(t, items->items[i], path), case_sensitive);
    return keys;
}

/* The same of several paths ("a,b"): a list of keys, also where it is one. */
static mnem__any *key_lists_of(mnem_template *t, const mnem__any_list *items, mnem__any paths,
                               bool case_sensitive) {
    mnem__any *keys = mnem__template_take(t, items->count * sizeof *keys);
    mnem__any_list *parts = new_list(t);
    if (mnem__any_is(paths, MNEM__ANY_TEXT))
        parts = mnem__text_split(t, paths, mnem__any_word(","), -1, false).list;
    else
        mnem__any_list_add(t, parts, paths);
    for (uint32_t i = 0; i < items->count; i++) {
        keys[i] = mnem__any_list_make(t, MNEM__ANY_LIST, parts->count);
        for (uint32_t p = 0; p < parts->count; p++)
            mnem__any_list_add(
                t, keys[i].list,
                fold(t, follow(t, items->items[i], parts->items[p]), case_sensitive));
    }
    return keys;
}

/* ---- order ---- */

static mnem__any_list *copy(mnem_template *t, mnem__any in) {
    const mnem__any_list *items = mnem__any_items(t, in);
    mnem__any_list *list = mnem__any_list_make(t, MNEM__ANY_LIST, items->count).list;
    for (uint32_t i = 0; i < items->count; i++) mnem__any_list_add(t, list, items->items[i]);
    return list;
}

FILTER(list) {
    UNUSED(a), UNUSED(more);
    return as_list(copy(t, in));
}
FILTER(sort) {
    UNUSED(more);
    mnem__any_list *list = copy(t, in);
    const mnem__any *keys = key_lists_of(t, list, a[2], mnem__argument_bool(a[1], false));
    mnem__template_sort(t, list, keys, mnem__argument_bool(a[0], false));
    return as_list(list);
}
FILTER(dictsort) {
    UNUSED(more);
    const mnem__any by = mnem__argument_text(t, a[1], "key", "dictsort");
    const bool value = mnem__any_says(by, "value");
    if (!value && !mnem__any_says(by, "key"))
        mnem__template_refuse(t, "dictsort: by is '%.*s', expected 'key' or 'value'",
                              (int)(by.length < 40 ? by.length : 40), by.text);
    if (!mnem__any_is(in, MNEM__ANY_DICT))
        mnem__template_refuse(t, "dictsort: expected a dict, found a value of type %s",
                              mnem__any_type(in));
    mnem__any_list *list = copy(t, mnem__any_view_make(t, in.dict, MNEM__VIEW_ITEMS));
    const mnem__any *keys =
        keys_of(t, list, mnem__any_int(value), mnem__argument_bool(a[0], false));
    mnem__template_sort(t, list, keys, mnem__argument_bool(a[2], false));
    return as_list(list);
}
FILTER(reverse) {
    UNUSED(a), UNUSED(more);
    const mnem__any bounds[3] = {mnem__any_of(MNEM__ANY_NONE), mnem__any_of(MNEM__ANY_NONE),
                                 mnem__any_int(-1)};
    if (mnem__any_is(in, MNEM__ANY_TEXT)) return mnem__any_slice(t, in, bounds);
    return mnem__any_iterator_make(
        t, mnem__any_slice(t, as_list(mnem__any_items(t, in)), bounds).list);
}
FILTER(unique) {
    UNUSED(more);
    const mnem__any_list *items = mnem__any_items(t, in);
    const mnem__any *keys = keys_of(t, items, a[1], mnem__argument_bool(a[0], false));
    mnem__any_dict *seen = mnem__any_dict_make(t, MNEM__ANY_DICT).dict;
    mnem__any_list *list = new_list(t);
    for (uint32_t i = 0; i < items->count; i++) {
        if (mnem__any_dict_find(t, seen, keys[i])) continue;
        mnem__any_dict_set(t, seen, keys[i], mnem__any_bool(true));
        mnem__any_list_add(t, list, items->items[i]);
    }
    return mnem__any_iterator_make(t, list);
}
FILTER(groupby) {
    UNUSED(more);
    mnem__any_list *items = copy(t, in), *groups = new_list(t), *group = NULL;
    const bool case_sensitive = mnem__argument_bool(a[2], false);
    for (int pass = 0; pass < 2; pass++) { /* sorted first, then cut */
        mnem__any *keys = keys_of(t, items, a[0], case_sensitive);
        for (uint32_t i = 0; i < items->count; i++)
            if (mnem__any_is(keys[i], MNEM__ANY_UNDEFINED) && mnem__is_given(a[1]))
                keys[i] = fold(t, a[1], case_sensitive);
        if (pass == 0) mnem__template_sort(t, items, keys, false);
        for (uint32_t i = 0; pass == 1 && i < items->count; i++) {
            if (i == 0 || !mnem__any_equal(t, keys[i], keys[i - 1])) {
                mnem__any key = follow(t, items->items[i], a[0]);
                if (mnem__any_is(key, MNEM__ANY_UNDEFINED) && mnem__is_given(a[1])) key = a[1];
                group = new_list(t);
                mnem__any pair = mnem__any_pair(t, key, as_list(group));
                pair.flag = MNEM__TUPLE_GROUP;
                mnem__any_list_add(t, groups, pair);
            }
            mnem__any_list_add(t, group, items->items[i]);
        }
    }
    return as_list(groups);
}

/* ---- one of them ---- */

FILTER(first) {
    UNUSED(a), UNUSED(more);
    if (mnem__any_is(in, MNEM__ANY_ITERATOR) && in.iterator->at < in.iterator->list->count)
        return in.iterator->list->items[in.iterator->at++];
    const mnem__any_list *items = mnem__any_items(t, in);
    return items->count ? items->items[0]
                        : mnem__any_no("first: the sequence is empty and has no first item");
}
FILTER(last) {
    UNUSED(a), UNUSED(more);
    if (mnem__any_is(in, MNEM__ANY_ITERATOR))
        mnem__template_refuse(
            t, "last: an iterator has no last item; apply the filter list before last");
    const mnem__any_list *items = mnem__any_items(t, in);
    return items->count ? items->items[items->count - 1]
                        : mnem__any_no("last: the sequence is empty and has no last item");
}

static mnem__any extreme(mnem_template *t, mnem__any in, const mnem__any *a, int sign) {
    const mnem__any_list *items = mnem__any_items(t, in);
    const mnem__any *keys = keys_of(t, items, a[1], mnem__argument_bool(a[0], false));
    uint32_t best = 0;
    if (items->count == 0)
        return mnem__any_no("max or min: the sequence is empty and has no items");
    for (uint32_t i = 1; i < items->count; i++)
        if (mnem__any_compare(t, keys[i], keys[best]) * sign > 0) best = i;
    return items->items[best];
}

FILTER(max) {
    UNUSED(more);
    return extreme(t, in, a, 1);
}
FILTER(min) {
    UNUSED(more);
    return extreme(t, in, a, -1);
}
FILTER(sum) {
    UNUSED(more);
    const mnem__any_list *items = mnem__any_items(t, in);
    mnem__any sum = mnem__is_given(a[1]) ? a[1] : mnem__any_int(0);
    if (mnem__any_is(sum, MNEM__ANY_TEXT))
        mnem__template_refuse(
            t, "sum: the start value is text, expected a number; use join for texts");
    for (uint32_t i = 0; i < items->count; i++)
        sum = mnem__template_binary(t, '+', sum, follow(t, items->items[i], a[0]));
    return sum;
}
FILTER(join) {
    UNUSED(more);
    const mnem__any by = mnem__is_given(a[0]) ? mnem__template_str(t, a[0]) : mnem__any_text("", 0);
    const mnem__any_list *items = mnem__any_items(t, in);
    const size_t mark = t->out_bytes;
    for (uint32_t i = 0; i < items->count; i++) {
        if (i > 0) mnem__template_put(t, by.text, by.length);
        mnem__template_put_str(t, follow(t, items->items[i], a[1]));
    }
    return mnem__template_cut(t, mark);
}

/* ---- some of them ---- */

/* The arguments behind the first n. */
static mnem__arguments behind(mnem_template *t, const mnem__arguments *more, uint32_t n) {
    mnem__arguments rest = {new_list(t), more->named};
    for (uint32_t i = n; more->list && i < more->list->count; i++)
        mnem__any_list_add(t, rest.list, more->list->items[i]);
    return rest;
}

static const mnem__function *named(mnem_template *t, mnem__any name, bool filter) {
    char text[32] = "";
    name = mnem__argument_text(t, name, "", "the name of a filter or a test");
    if (name.length < sizeof text) memcpy(text, name.text, name.length);
    const mnem__function *f = filter ? mnem__template_filter(text) : mnem__template_test(text);
    if (!f)
        mnem__template_refuse(t, "%s '%.*s' does not exist; correct its name",
                              filter ? "filter" : "test",
                              (int)(name.length < 64 ? name.length : 64), name.text);
    return f;
}

static uint32_t count_of(const mnem__arguments *more) {
    return more->list ? more->list->count : 0;
}

/* Items for which a test is as wanted; skip: the path of what is tested comes before its name. */
static mnem__any choose(mnem_template *t, mnem__any in, const mnem__arguments *more, bool wanted,
                        uint32_t skip) {
    if (!mnem__any_truth(in)) return mnem__any_iterator_make(t, new_list(t)); /* whatever it is */
    const mnem__any_list *items = mnem__any_items(t, in);
    mnem__any_list *list = new_list(t);
    if (count_of(more) < skip)
        mnem__template_refuse(t, "selectattr and rejectattr need the name of an attribute");
    const mnem__any path = skip ? more->list->items[0] : mnem__any_of(MNEM__ANY_NONE);
    const bool tests = count_of(more) > skip;
    const mnem__function *f = tests ? named(t, more->list->items[skip], false) : NULL;
    const mnem__arguments rest = behind(t, more, skip + 1);
    for (uint32_t i = 0; i < items->count; i++) {
        mnem__any key = follow(t, items->items[i], path);
        if (f) key = mnem__template_apply(t, f, key, &rest);
        if (mnem__any_truth(key) == wanted) mnem__any_list_add(t, list, items->items[i]);
    }
    return mnem__any_iterator_make(t, list);
}

FILTER(select) {
    UNUSED(a);
    return choose(t, in, more, true, 0);
}
FILTER(reject) {
    UNUSED(a);
    return choose(t, in, more, false, 0);
}
FILTER(selectattr) {
    UNUSED(a);
    return choose(t, in, more, true, 1);
}
FILTER(rejectattr) {
    UNUSED(a);
    return choose(t, in, more, false, 1);
}

static mnem__any map_attribute(mnem_template *t, const mnem__any_list *items,
                               const mnem__any_dict *names) {
    mnem__any_list *list = new_list(t);
    const mnem__any *path = mnem__any_dict_find(t, names, mnem__any_word("attribute"));
    const mnem__any *other = mnem__any_dict_find(t, names, mnem__any_word("default"));
    if (!path || names->count > 1u + (other != NULL))
        mnem__template_refuse(
            t, "map: expected a filter, or attribute=NAME with or without default=VALUE");
    for (uint32_t i = 0; i < items->count; i++) {
        const mnem__any value = follow(t, items->items[i], *path);
        const bool none = mnem__any_is(value, MNEM__ANY_UNDEFINED) && other;
        mnem__any_list_add(t, list, none ? *other : value);
    }
    return mnem__any_iterator_make(t, list);
}

FILTER(map) {
    UNUSED(a);
    if (!mnem__any_truth(in)) return mnem__any_iterator_make(t, new_list(t));
    const mnem__any_list *items = mnem__any_items(t, in);
    if (count_of(more) == 0 && more->named) return map_attribute(t, items, more->named);
    if (count_of(more) == 0)
        mnem__template_refuse(t, "map: expected a filter or attribute=NAME, found no argument");
    const mnem__function *f = named(t, more->list->items[0], true);
    const mnem__arguments rest = behind(t, more, 1);
    mnem__any_list *list = new_list(t);
    for (uint32_t i = 0; i < items->count; i++)
        mnem__any_list_add(t, list, mnem__template_apply(t, f, items->items[i], &rest));
    return mnem__any_iterator_make(t, list);
}

FILTER(items) {
    UNUSED(a), UNUSED(more);
    if (mnem__any_is(in, MNEM__ANY_UNDEFINED)) return mnem__any_iterator_make(t, new_list(t));
    if (!mnem__any_is(in, MNEM__ANY_DICT))
        mnem__template_refuse(t, "items: expected a dict, found a value of type %s",
                              mnem__any_type(in));
    const mnem__any view = mnem__any_view_make(t, in.dict, MNEM__VIEW_ITEMS);
    return mnem__any_iterator_make(t, mnem__any_items(t, view));
}

/* ---- cut into lists ---- */

FILTER(batch) {
    UNUSED(more);
    const mnem__any_list *items = mnem__any_items(t, in);
    const int64_t most = mnem__argument_int(t, a[0], 0, "batch");
    mnem__any_list *lists = new_list(t), *list = NULL;
    for (uint32_t i = 0; i < items->count; i++) {
        if (!list || list->count == most) {
            list = new_list(t);
            mnem__any_list_add(t, lists, as_list(list));
        }
        mnem__any_list_add(t, list, items->items[i]);
    }
    while (list && !is_nothing(a[1]) && list->count < most) mnem__any_list_add(t, list, a[1]);
    return mnem__any_iterator_make(t, lists);
}
FILTER(slice) {
    UNUSED(more);
    const mnem__any_list *items = mnem__any_items(t, in);
    const int64_t slices = mnem__argument_int(t, a[0], 0, "slice");
    if (slices == 0)
        mnem__template_refuse(t, "slice: the number of slices is 0, expected at least 1");
    mnem__any_list *lists = new_list(t);
    int64_t at = 0;
    for (int64_t s = 0; s < slices; s++) {
        const bool longer = s < items->count % slices;
        mnem__any_list *list = new_list(t);
        for (int64_t n = items->count / slices + longer; n > 0; n--)
            mnem__any_list_add(t, list, items->items[at++]);
        if (!longer && !is_nothing(a[1])) mnem__any_list_add(t, list, a[1]);
        mnem__any_list_add(t, lists, as_list(list));
    }
    return mnem__any_iterator_make(t, lists);
}

static const mnem__function filters[] = {
    {"batch", "linecount fill_with", 1, filter_batch},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"first", "", 0, filter_first},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"items", "", 0, filter_items},
    {"join", "d attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"list", "", 0, filter_list},
    {"map", "*", 0, filter_map},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"reject", "*", 0, filter_reject},
    {"rejectattr", "*", 0, filter_rejectattr},
    {"reverse", "", 0, filter_reverse},
    {"select", "*", 0, filter_select},
    {"selectattr", "*", 0, filter_selectattr},
    {"slice", "slices fill_with", 1, filter_slice},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"sum", "attribute start", 0, filter_sum},
    {"unique", "case_sensitive attribute", 0, filter_unique},
};

const mnem__function *mnem__template_list_filter(const char *name) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (strcmp(filters[i].name, name) == 0) return &filters[i];
    return NULL;
}
