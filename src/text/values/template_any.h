/* template_any.h: the values of a template: Python's types for JSON, and further types of
 * templates.
 *
 * Texts are UTF-8 and immutable, so a part of a text is a pointer into it. Lists, tuples and
 * dicts are immutable once a template sees them (the sandbox forbids changes); namespaces can
 * change. All values lie in the template's arena (template_private.h) and are freed with it. A
 * function that fails ends the rendering (mnem__template_fail). */
#ifndef MNEM_SRC_TEXT_VALUES_TEMPLATE_ANY_H
#define MNEM_SRC_TEXT_VALUES_TEMPLATE_ANY_H

#include "mnem/template.h"

typedef enum mnem__any_kind {
    MNEM__ANY_MISSING, /* an argument that isn't given: never visible to templates */
    MNEM__ANY_UNDEFINED,
    MNEM__ANY_NONE,
    MNEM__ANY_BOOL,
    MNEM__ANY_INT,
    MNEM__ANY_BIG, /* an int of more than 64 bits, as text: can only be compared and written */
    MNEM__ANY_FLOAT,
    MNEM__ANY_TEXT,
    MNEM__ANY_LIST,
    MNEM__ANY_TUPLE,
    MNEM__ANY_DICT,
    MNEM__ANY_VIEW,     /* a dict's keys(), values() or items() */
    MNEM__ANY_RANGE,    /* a list that prints as range(...) */
    MNEM__ANY_ITERATOR, /* can be iterated once */
    MNEM__ANY_NAMESPACE,
    MNEM__ANY_FUNCTION, /* a global one */
    MNEM__ANY_METHOD,   /* of a value */
    MNEM__ANY_MACRO,
    MNEM__ANY_LOOP,
    MNEM__ANY_CYCLER,
    MNEM__ANY_JOINER,
} mnem__any_kind;

/* The values of flag, by kind. */
enum {
    MNEM__UNDEFINED_VARIABLE = 0, /* text: the unknown name */
    MNEM__UNDEFINED_ATTRIBUTE,
    MNEM__UNDEFINED_UNSAFE, /* hidden by the sandbox */
    MNEM__UNDEFINED_OTHER,  /* text: what is missing */

    MNEM__TEXT_SAFE = 1,   /* TEXT: markup; text added to it is escaped */
    MNEM__TUPLE_GROUP = 1, /* TUPLE: of groupby, with .grouper and .list */
};

typedef struct mnem__any_list mnem__any_list;
typedef struct mnem__any_dict mnem__any_dict;

typedef struct mnem__any {
    uint8_t kind; /* mnem__any_kind */
    uint8_t flag;
    uint32_t length; /* of text */
    union {
        int64_t i; /* INT and BOOL; FUNCTION: which */
        double f;
        const char *text;
        mnem__any_list *list; /* LIST, TUPLE, CYCLER, JOINER */
        mnem__any_dict *dict; /* DICT, NAMESPACE */
        struct mnem__any_view *view;
        struct mnem__any_range *range;
        struct mnem__any_iterator *iterator;
        struct mnem__any_method *method;
        struct mnem__any_macro *macro;
        struct mnem__any_loop *loop;
    };
} mnem__any;

struct mnem__any_list {
    mnem__any *items;
    uint32_t count, room;
    uint32_t at; /* CYCLER, JOINER: calls so far */
};

typedef struct mnem__any_entry {
    mnem__any key, value;
    uint32_t hash;
} mnem__any_entry;
/* Entries in the order of insertion. */
struct mnem__any_dict {
    mnem__any_entry *entries;
    uint32_t count, room;
    uint32_t *slots; /* open addressing: an entry's number + 1; NULL: few entries */
    uint32_t slots_mask;
};

typedef struct mnem__any_view {
    mnem__any_dict *dict;
    enum { MNEM__VIEW_KEYS, MNEM__VIEW_VALUES, MNEM__VIEW_ITEMS } of;
} mnem__any_view;
typedef struct mnem__any_range {
    int64_t start, stop, step, count;
} mnem__any_range;
typedef struct mnem__any_iterator {
    mnem__any_list *list;
    uint32_t at;
} mnem__any_iterator;
typedef struct mnem__any_method {
    mnem__any self;
    const struct mnem__method *what;
} mnem__any_method;

/* ---- constructors ---- */

static inline mnem__any mnem__any_of(mnem__any_kind kind) {
    return (mnem__any){.kind = (uint8_t)kind};
}
static inline mnem__any mnem__any_bool(bool b) {
    return (mnem__any){.kind = MNEM__ANY_BOOL, .i = b};
}
static inline mnem__any mnem__any_int(int64_t i) {
    return (mnem__any){.kind = MNEM__ANY_INT, .i = i};
}
static inline mnem__any mnem__any_float(double f) {
    return (mnem__any){.kind = MNEM__ANY_FLOAT, .f = f};
}
static inline mnem__any mnem__any_text(const char *text, size_t length) {
    return (mnem__any){.kind = MNEM__ANY_TEXT, .length = (uint32_t)length, .text = text};
}
static inline bool mnem__any_big(mnem__any a) {
    return a.kind == MNEM__ANY_BIG;
}
/* A text in static storage. */
mnem__any mnem__any_word(const char *text);
/* MNEM__UNDEFINED_OTHER. */
mnem__any mnem__any_no(const char *what);
/* An empty LIST or TUPLE with room for count items. */
mnem__any mnem__any_list_make(mnem_template *t, mnem__any_kind kind, size_t count);
void mnem__any_list_add(mnem_template *t, mnem__any_list *list, mnem__any item);
mnem__any mnem__any_pair(mnem_template *t, mnem__any first, mnem__any second);
mnem__any mnem__any_dict_make(mnem_template *t, mnem__any_kind kind);
void mnem__any_dict_set(mnem_template *t, mnem__any_dict *dict, mnem__any key, mnem__any value);
/* NULL: there is none. */
mnem__any *mnem__any_dict_find(mnem_template *t, const mnem__any_dict *dict, mnem__any key);
mnem__any mnem__any_iterator_make(mnem_template *t, mnem__any_list *list);
mnem__any mnem__any_view_make(mnem_template *t, mnem__any_dict *dict, int of);

/* ---- queries ---- */

static inline bool mnem__any_is(mnem__any a, mnem__any_kind kind) {
    return a.kind == (uint8_t)kind;
}
static inline bool mnem__any_whole(mnem__any a) {
    return a.kind == MNEM__ANY_INT || a.kind == MNEM__ANY_BOOL;
}
static inline bool mnem__any_number(mnem__any a) {
    return mnem__any_whole(a) || a.kind == MNEM__ANY_FLOAT;
}
static inline double mnem__any_f64(mnem__any a) {
    return a.kind == MNEM__ANY_FLOAT ? a.f : (double)a.i;
}
/* Whether a is this text; counts no step. */
bool mnem__any_says(mnem__any a, const char *word);
/* The Python name of its type. */
const char *mnem__any_type(mnem__any a);
bool mnem__any_truth(mnem__any a);
/* Whether it can be a key. */
bool mnem__any_hashable(mnem_template *t, mnem__any a);
bool mnem__any_equal(mnem_template *t, mnem__any a, mnem__any b);
/* Below 0, 0 or above 0; fails for values without an order in Python. */
int mnem__any_compare(mnem_template *t, mnem__any a, mnem__any b);
bool mnem__any_contains(mnem_template *t, mnem__any all, mnem__any one);
/* -1: no length. */
int64_t mnem__any_length(mnem__any a);
bool mnem__any_iterable(mnem__any a);
/* Its items, which must not be changed; fails for other types. Consumes an iterator. */
mnem__any_list *mnem__any_items(mnem_template *t, mnem__any a);
/* a[i] of a text, list, tuple or range, from the end if i < 0; MISSING: out of range. */
mnem__any mnem__any_at(mnem_template *t, mnem__any a, int64_t i);
/* a[start:stop:step], each of which may be NONE. */
mnem__any mnem__any_slice(mnem_template *t, mnem__any a, const mnem__any bounds[3]);

#endif
