/* template_any.c: values: making them, walking them, comparing them as Python does.
 *
 * Cost: a dict finds by hash once it has more than a few entries; walking a value that isn't a list
 * makes one. */
#include "text/values/template_any.h"

#include <string.h>

#include "text/values/template_chars.h"
#include "text/values/template_private.h"

/* ---- making ---- */

mnem__any mnem__any_word(const char *text) {
    return mnem__any_text(text, strlen(text));
}

mnem__any mnem__any_no(const char *what) {
    mnem__any no = mnem__any_word(what);
    no.kind = MNEM__ANY_UNDEFINED;
    no.flag = MNEM__UNDEFINED_OTHER;
    return no;
}

/* Room for count things of size bytes, of which there may be any number. */
static void *take_array(mnem_template *t, size_t count, size_t size) {
    if (count > UINT32_MAX / 2)
        mnem__template_fail(t, MNEM_OVER_BUDGET,
                            "a list or a dict would have %zu items, expected at most %u", count,
                            UINT32_MAX / 2);
    mnem__template_step(t, count / 16);
    return mnem__template_take(t, count * size);
}

mnem__any mnem__any_list_make(mnem_template *t, mnem__any_kind kind, size_t count) {
    mnem__any_list *list = mnem__template_take(t, sizeof *list);
    *list = (mnem__any_list){.room = (uint32_t)count};
    if (count > 0) list->items = take_array(t, count, sizeof *list->items);
    return (mnem__any){.kind = (uint8_t)kind, .list = list};
}

void mnem__any_list_add(mnem_template *t, mnem__any_list *list, mnem__any item) {
    if (list->count == list->room) {
        const uint32_t room = list->room ? 2 * list->room : 4;
        mnem__any *items = take_array(t, room, sizeof *items);
        if (list->count > 0) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
}

mnem__any mnem__any_pair(mnem_template *t, mnem__any first, mnem__any second) {
    const mnem__any pair = mnem__any_list_make(t, MNEM__ANY_TUPLE, 2);
    mnem__any_list_add(t, pair.list, first);
    mnem__any_list_add(t, pair.list, second);
    return pair;
}

mnem__any mnem__any_iterator_make(mnem_template *t, mnem__any_list *list) {
    mnem__any_iterator *iterator = mnem__template_take(t, sizeof *iterator);
    *iterator = (mnem__any_iterator){list, 0};
    return (mnem__any){.kind = MNEM__ANY_ITERATOR, .iterator = iterator};
}

mnem__any mnem__any_view_make(mnem_template *t, mnem__any_dict *dict, int of) {
    mnem__any_view *view = mnem__template_take(t, sizeof *view);
    *view = (mnem__any_view){.dict = dict, .of = of};
    return (mnem__any){.kind = MNEM__ANY_VIEW, .view = view};
}

/* ---- dicts ---- */

enum { FEW = 8 }; /* entries that are searched one by one */

bool mnem__any_hashable(mnem_template *t, mnem__any a) {
    bool hashable = !mnem__any_is(a, MNEM__ANY_LIST) && !mnem__any_is(a, MNEM__ANY_DICT);
    if (mnem__any_is(a, MNEM__ANY_VIEW)) return a.view->of == MNEM__VIEW_VALUES;
    if (!mnem__any_is(a, MNEM__ANY_TUPLE)) return hashable;
    mnem__template_enter(t);
    for (uint32_t i = 0; i < a.list->count && hashable; i++)
        hashable = mnem__any_hashable(t, a.list->items[i]);
    mnem__template_leave(t);
    return hashable;
}

/* Equal values have equal hashes: 1, 1.0 and true are equal. Of what is hashable, and so not too
 * deep. */
static uint32_t hash_of(mnem_template *t, mnem__any a) {
    uint64_t hash = 0;
    if (mnem__any_is(a, MNEM__ANY_TEXT) || mnem__any_big(a)) {
        mnem__template_step(t, a.length / 64);
        hash = 0xCBF29CE484222325u; /* FNV-1a */
        for (uint32_t i = 0; i < a.length; i++)
            hash = (hash ^ (unsigned char)a.text[i]) * 0x100000001B3u;
    } else if (mnem__any_number(a)) {
        const double f = mnem__any_f64(a) + 0.0; /* no -0 */
        memcpy(&hash, &f, sizeof hash);
    } else if (mnem__any_is(a, MNEM__ANY_TUPLE)) {
        for (uint32_t i = 0; i < a.list->count; i++)
            hash = hash * 31 + hash_of(t, a.list->items[i]);
    }
    hash *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

mnem__any mnem__any_dict_make(mnem_template *t, mnem__any_kind kind) {
    mnem__any_dict *dict = mnem__template_take(t, sizeof *dict);
    *dict = (mnem__any_dict){0};
    return (mnem__any){.kind = (uint8_t)kind, .dict = dict};
}

static void put_slot(mnem__any_dict *dict, uint32_t number) {
    uint32_t at = dict->entries[number].hash & dict->slots_mask;
    while (dict->slots[at]) at = (at + 1) & dict->slots_mask;
    dict->slots[at] = number + 1;
}

/* Room for twice as many entries, and slots for twice as many as that. */
static void grow_dict(mnem_template *t, mnem__any_dict *dict) {
    const uint32_t room = dict->room ? 2 * dict->room : FEW / 2;
    mnem__any_entry *entries = take_array(t, room, sizeof *entries);
    if (dict->count > 0) memcpy(entries, dict->entries, dict->count * sizeof *entries);
    dict->entries = entries;
    dict->room = room;
    if (room <= FEW) return;
    dict->slots = take_array(t, 2 * (size_t)room, sizeof *dict->slots);
    memset(dict->slots, 0, 2 * (size_t)room * sizeof *dict->slots);
    dict->slots_mask = 2 * room - 1;
    for (uint32_t i = 0; i < dict->count; i++) put_slot(dict, i);
}

static mnem__any_entry *find_entry(mnem_template *t, const mnem__any_dict *dict, mnem__any key,
                                   uint32_t hash) {
    if (!dict->slots) {
        for (uint32_t i = 0; i < dict->count; i++)
            if (dict->entries[i].hash == hash && mnem__any_equal(t, dict->entries[i].key, key))
                return &dict->entries[i];
        return NULL;
    }
    for (uint32_t at = hash & dict->slots_mask; dict->slots[at]; at = (at + 1) & dict->slots_mask) {
        mnem__any_entry *entry = &dict->entries[dict->slots[at] - 1];
        mnem__template_step(t, 1);
        if (entry->hash == hash && mnem__any_equal(t, entry->key, key)) return entry;
    }
    return NULL;
}

static void check_key(mnem_template *t, mnem__any key) {
    if (!mnem__any_hashable(t, key))
        mnem__template_refuse(t,
                              "a value of type %s can't be the key of a dict; use text or a number",
                              mnem__any_type(key));
}

mnem__any *mnem__any_dict_find(mnem_template *t, const mnem__any_dict *dict, mnem__any key) {
    check_key(t, key);
    mnem__any_entry *entry = find_entry(t, dict, key, hash_of(t, key));
    return entry ? &entry->value : NULL;
}

void mnem__any_dict_set(mnem_template *t, mnem__any_dict *dict, mnem__any key, mnem__any value) {
    check_key(t, key);
    const uint32_t hash = hash_of(t, key);
    mnem__any_entry *entry = find_entry(t, dict, key, hash);
    if (entry) {
        entry->value = value;
        return;
    }
    if (dict->count == dict->room) grow_dict(t, dict);
    dict->entries[dict->count++] = (mnem__any_entry){key, value, hash};
    if (dict->slots) put_slot(dict, dict->count - 1);
}

/* ---- asking ---- */

bool mnem__any_says(mnem__any a, const char *word) {
    const size_t n = strlen(word);
    return mnem__any_is(a, MNEM__ANY_TEXT) && a.length == n && memcmp(a.text, word, n) == 0;
}

const char *mnem__any_type(mnem__any a) {
    static const char *const names[] = {
        "nothing",   "Undefined", "NoneType", "bool",  "int",         "int",    "float",
        "str",       "list",      "tuple",    "dict",  "dict view",   "range",  "iterator",
        "Namespace", "function",  "method",   "Macro", "LoopContext", "Cycler", "Joiner"};
    return names[a.kind];
}

int64_t mnem__any_length(mnem__any a) {
    switch (a.kind) {
    case MNEM__ANY_UNDEFINED: return 0;
    case MNEM__ANY_TEXT: return (int64_t)mnem__char_count(a.text, a.length);
    case MNEM__ANY_LIST:
    case MNEM__ANY_TUPLE: return a.list->count;
    case MNEM__ANY_DICT: return a.dict->count;
    case MNEM__ANY_VIEW: return a.view->dict->count;
    case MNEM__ANY_RANGE: return a.range->count;
    default: return -1;
    }
}

bool mnem__any_truth(mnem__any a) {
    switch (a.kind) {
    case MNEM__ANY_NONE: return false;
    case MNEM__ANY_BOOL:
    case MNEM__ANY_INT: return a.i != 0;
    case MNEM__ANY_FLOAT: return a.f != 0;
    case MNEM__ANY_TEXT: return a.length > 0;
    default: return mnem__any_length(a) != 0;
    }
}

bool mnem__any_iterable(mnem__any a) {
    return mnem__any_length(a) >= 0 || mnem__any_is(a, MNEM__ANY_ITERATOR) ||
           mnem__any_is(a, MNEM__ANY_LOOP);
}

/* ---- walking ---- */

static mnem__any_list *view_items(mnem_template *t, const mnem__any_dict *dict, int of) {
    mnem__any_list *list = mnem__any_list_make(t, MNEM__ANY_LIST, dict->count).list;
    for (uint32_t i = 0; i < dict->count; i++) {
        const mnem__any_entry *e = &dict->entries[i];
        mnem__any item = of == MNEM__VIEW_VALUES ? e->value : e->key;
        if (of == MNEM__VIEW_ITEMS) item = mnem__any_pair(t, e->key, e->value);
        mnem__any_list_add(t, list, item);
    }
    return list;
}

static mnem__any_list *text_items(mnem_template *t, mnem__any a) {
    mnem__any_list *list = mnem__any_list_make(t, MNEM__ANY_LIST, 0).list;
    for (size_t at = 0; at < a.length;) {
        const size_t n = mnem__char_bytes(a.text[at]);
        mnem__any_list_add(t, list, mnem__any_text(a.text + at, n));
        at += n;
    }
    return list;
}

static mnem__any_list *rest_of(mnem_template *t, mnem__any_iterator *iterator) {
    mnem__any_list *list = mnem__template_take(t, sizeof *list);
    const uint32_t left = iterator->list->count - iterator->at;
    *list = (mnem__any_list){
        .items = left ? iterator->list->items + iterator->at : NULL, .count = left, .room = left};
    iterator->at = iterator->list->count;
    return list;
}

mnem__any_list *mnem__any_items(mnem_template *t, mnem__any a) {
    mnem__any_list *list;
    switch (a.kind) {
    case MNEM__ANY_LIST:
    case MNEM__ANY_TUPLE: return a.list;
    case MNEM__ANY_UNDEFINED: return mnem__any_list_make(t, MNEM__ANY_LIST, 0).list;
    case MNEM__ANY_TEXT: return text_items(t, a);
    case MNEM__ANY_DICT: return view_items(t, a.dict, MNEM__VIEW_KEYS);
    case MNEM__ANY_VIEW: return view_items(t, a.view->dict, a.view->of);
    case MNEM__ANY_ITERATOR: return rest_of(t, a.iterator);
    case MNEM__ANY_RANGE:
        list = mnem__any_list_make(t, MNEM__ANY_LIST, (size_t)a.range->count).list;
        for (int64_t i = 0; i < a.range->count; i++)
            mnem__any_list_add(t, list, mnem__any_int(a.range->start + i * a.range->step));
        return list;
    default:
        mnem__template_refuse(t, "can't iterate a value of type %s, expected a list or a dict",
                              mnem__any_type(a));
    }
}

mnem__any mnem__any_at(mnem_template *t, mnem__any a, int64_t i) {
    if (mnem__any_is(a, MNEM__ANY_TEXT)) mnem__template_step(t, a.length / 64);
    const int64_t n = mnem__any_length(a);
    if (i < 0) i += n;
    if (i < 0 || i >= n) return mnem__any_of(MNEM__ANY_MISSING);
    if (mnem__any_is(a, MNEM__ANY_RANGE)) return mnem__any_int(a.range->start + i * a.range->step);
    if (!mnem__any_is(a, MNEM__ANY_TEXT)) return a.list->items[i];
    const size_t at = mnem__char_offset(a.text, a.length, (size_t)i);
    return mnem__any_text(a.text + at, mnem__char_bytes(a.text[at]));
}

/* One end of a slice, as Python does it: from the end where it is below 0, and never outside. */
static int64_t slice_end(mnem_template *t, mnem__any bound, int64_t n, bool back, bool is_start) {
    if (mnem__any_is(bound, MNEM__ANY_NONE)) return is_start ? (back ? n - 1 : 0) : (back ? -1 : n);
    if (!mnem__any_whole(bound))
        mnem__template_refuse(t,
                              "the bound of a slice must be an integer, found a value of type %s",
                              mnem__any_type(bound));
    int64_t i = bound.i;
    if (i < 0) i = i < -n ? -1 : i + n;
    if (i < 0) return back ? -1 : 0;
    return i >= n ? (back ? n - 1 : n) : i;
}

/* step: as it was given, since a range shows it. */
static mnem__any slice_range(mnem_template *t, const mnem__any_range *r, int64_t start,
                             int64_t stop, int64_t step, int64_t count) {
    mnem__any_range *range = mnem__template_take(t, sizeof *range);
    int64_t way;
    *range = (mnem__any_range){r->start + start * r->step, 0, 0, count};
    if (__builtin_mul_overflow(stop, r->step, &way) ||
        __builtin_add_overflow(r->start, way, &range->stop) ||
        __builtin_mul_overflow(r->step, step, &range->step))
        mnem__template_refuse(t, "the slice of a range exceeds integers of 64 bits");
    return (mnem__any){.kind = MNEM__ANY_RANGE, .range = range};
}

static mnem__any slice_text(mnem_template *t, mnem__any a, int64_t start, int64_t step,
                            int64_t count) {
    mnem__template_step(t, a.length / 64);
    if (step == 1) {
        const size_t from = mnem__char_offset(a.text, a.length, (size_t)start);
        const size_t n = mnem__char_offset(a.text + from, a.length - from, (size_t)count);
        return mnem__any_text(a.text + from, n);
    }
    const mnem__any_list *chars = text_items(t, a);
    const size_t mark = t->out_bytes;
    for (int64_t i = 0; i < count; i++)
        mnem__template_put(t, chars->items[start + i * step].text,
                           chars->items[start + i * step].length);
    return mnem__template_cut(t, mark);
}

mnem__any mnem__any_slice(mnem_template *t, mnem__any a, const mnem__any bounds[3]) {
    const bool sliceable = a.kind == MNEM__ANY_TEXT || a.kind == MNEM__ANY_LIST ||
                           a.kind == MNEM__ANY_TUPLE || a.kind == MNEM__ANY_RANGE;
    if (!sliceable)
        mnem__template_refuse(
            t, "a value of type %s can't be sliced; text, lists, tuples and ranges can",
            mnem__any_type(a));
    int64_t step = 1;
    if (mnem__any_is(a, MNEM__ANY_TEXT)) mnem__template_step(t, a.length / 64);
    const int64_t n = mnem__any_length(a);
    if (mnem__any_whole(bounds[2]))
        step = bounds[2].i;
    else if (!mnem__any_is(bounds[2], MNEM__ANY_NONE))
        mnem__template_refuse(t, "the step of a slice must be an integer, found a value of type %s",
                              mnem__any_type(bounds[2]));
    if (step == 0) mnem__template_refuse(t, "the step of a slice is 0, expected another integer");
    const int64_t given = step;
    if (step > n) step = n + 1; /* the first one only, as any larger step */
    if (step < -n) step = -n - 1;
    const int64_t start = slice_end(t, bounds[0], n, step < 0, true);
    const int64_t stop = slice_end(t, bounds[1], n, step < 0, false);
    int64_t count = 0;
    if (step > 0 && stop > start) count = (stop - start - 1) / step + 1;
    if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
    if (mnem__any_is(a, MNEM__ANY_RANGE)) return slice_range(t, a.range, start, stop, given, count);
    if (mnem__any_is(a, MNEM__ANY_TEXT)) return slice_text(t, a, start, step, count);
    const mnem__any slice = mnem__any_list_make(t, (mnem__any_kind)a.kind, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        mnem__any_list_add(t, slice.list, a.list->items[start + i * step]);
    return slice;
}
