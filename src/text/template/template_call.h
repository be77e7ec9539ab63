/* template_call.h: calls of templates: arguments, and the tables of filters, tests, methods and
 * global functions.
 *
 * A function's row has the names of its parameters, so that common code binds arguments by
 * position or by name. An argument that isn't given is MISSING. */
#ifndef MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_CALL_H
#define MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_CALL_H

#include "text/values/template_private.h"

enum { MNEM__PARAMETERS_MAX = 6 };

/* The arguments of a call; list and dict may be NULL. */
typedef struct mnem__arguments {
    mnem__any_list *list;
    mnem__any_dict *named;
} mnem__arguments;

/* in: the filtered or tested value, or the method's self; a: an argument per parameter; more:
 * all arguments, for rows without parameters. */
typedef mnem__any mnem__function_run(mnem_template *t, mnem__any in, const mnem__any *a,
                                     const mnem__arguments *more);

typedef struct mnem__function {
    const char *name;
    const char *parameters; /* "old new count"; "*": any; NULL: known, but refused */
    uint8_t least;          /* required arguments */
    mnem__function_run *run;
} mnem__function;
/* A method of a kind of values. */
typedef struct mnem__method {
    mnem__any_kind kind;
    mnem__function f;
} mnem__method;

mnem__any mnem__template_apply(mnem_template *t, const mnem__function *f, mnem__any in,
                               const mnem__arguments *arguments);
/* Calls any callable value. */
mnem__any mnem__template_call(mnem_template *t, mnem__any f, const mnem__arguments *arguments);

/* NULL: none. */
const mnem__function *mnem__template_filter(const char *name);
const mnem__function *mnem__template_list_filter(const char *name);
const mnem__function *mnem__template_test(const char *name);
/* The global value of a name that isn't set; MISSING: none. */
mnem__any mnem__template_global(mnem__any name);
mnem__any mnem__template_call_global(mnem_template *t, mnem__any f, const mnem__arguments *more);
mnem__any mnem__template_call_macro(mnem_template *t, const struct mnem__any_macro *macro,
                                    const mnem__arguments *more);
/* loop(items), in a recursive loop. */
mnem__any mnem__template_call_loop(mnem_template *t, struct mnem__any_loop *loop,
                                   const mnem__arguments *more);
mnem__any mnem__loop_field(mnem_template *t, mnem__any loop, mnem__any name);
mnem__any mnem__cycler_field(mnem_template *t, mnem__any cycler, mnem__any name);
mnem__any mnem__template_method_make(mnem_template *t, mnem__any self, const mnem__method *what);

/* a sign b, for + - * / // % **. */
mnem__any mnem__template_binary(mnem_template *t, int sign, mnem__any a, mnem__any b);
/* a sign b, for == != < > <= >= in, not in. */
bool mnem__template_compare(mnem_template *t, int sign, mnem__any a, mnem__any b);

/* a.name for a method, or a field of a value other than a dict. MISSING: none. */
mnem__any mnem__template_field(mnem_template *t, mnem__any a, mnem__any name);
/* a.name and a[key] in templates: each falls back to the other. */
mnem__any mnem__template_attribute(mnem_template *t, mnem__any a, mnem__any name);
mnem__any mnem__template_item(mnem_template *t, mnem__any a, mnem__any key);
/* The method of that name; UNDEFINED: hidden by the sandbox; MISSING: none. */
mnem__any mnem__template_method(mnem_template *t, mnem__any a, mnem__any name);

/* ---- arguments ---- */

static inline bool mnem__is_given(mnem__any a) {
    return a.kind != MNEM__ANY_MISSING;
}
/* Each has a default for a missing argument, and fails for another type. what: for the error. */
int64_t mnem__argument_int(mnem_template *t, mnem__any a, int64_t otherwise, const char *what);
mnem__any mnem__argument_text(mnem_template *t, mnem__any a, const char *otherwise,
                              const char *what);
static inline bool mnem__argument_bool(mnem__any a, bool otherwise) {
    return mnem__is_given(a) ? mnem__any_truth(a) : otherwise;
}
_Noreturn void mnem__template_undefined(mnem_template *t, mnem__any a);

/* ---- texts, shared by methods and filters ---- */

mnem__any mnem__text_strip(mnem_template *t, mnem__any text, mnem__any chars, bool before,
                           bool behind);
/* count < 0: all of them. */
mnem__any mnem__text_replace(mnem_template *t, mnem__any text, mnem__any old, mnem__any new_text,
                             int64_t count);
mnem__any mnem__text_lines(mnem_template *t, mnem__any text, bool keep_ends);
mnem__any mnem__text_center(mnem_template *t, mnem__any text, int64_t width, mnem__any fill);
mnem__any mnem__text_expand_tabs(mnem_template *t, mnem__any text, int64_t width);
/* Splits at white space, at most `most` times (below 0: everywhere); right: from the end. */
mnem__any mnem__text_split_space(mnem_template *t, mnem__any text, int64_t most, bool right);
mnem__any mnem__text_split(mnem_template *t, mnem__any text, mnem__any by, int64_t most,
                           bool right);
/* The first or last occurrence of `one`; NULL: none. */
const char *mnem__text_search(mnem_template *t, mnem__any text, mnem__any one, bool last);
/* text % values, and text.format(...). */
mnem__any mnem__text_percent(mnem_template *t, mnem__any text, mnem__any values);
mnem__any mnem__text_format(mnem_template *t, mnem__any text, const mnem__arguments *arguments);
/* a rounded to digits behind the point, as Python's round(). */
double mnem__round(double f, int64_t digits);

/* ---- the clock ---- */
mnem__any mnem__template_clock(mnem_template *t, mnem__any format);

#endif
