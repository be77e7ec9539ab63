/* template_private.h: the parts of templates. Each file uses only those above it:
 *
 *   values/
 *     template_memory                        memory, steps, the output, errors
 *     template_chars                         characters: classes, upper and lower case
 *     template_any, _compare, _text, _cases  values; their order; their texts
 *     template_json, template_tojson         values from and to JSON
 *   template/
 *     template_lex, template_expression, template_parse       text -> nodes
 *     template_bind                          binds arguments to parameters
 *     template_spec, _percent, _format       formatting by '%5d' and '{:5}'
 *     template_strings, _methods, _date, _filters, _list_filters, _tests, _globals
 *                                            callable functions
 *     template_operators, _eval, _loop, _run                  nodes -> output
 *     template_encode                        control tokens in inputs; text -> tokens
 *     template                               the public calls
 *
 * All memory is in two arenas, one for the parsed template and one for a rendering, so that an
 * error anywhere is a jump back to the public call (setjmp). No function holds other resources. */
#ifndef MNEM_SRC_TEXT_VALUES_TEMPLATE_PRIVATE_H
#define MNEM_SRC_TEXT_VALUES_TEMPLATE_PRIVATE_H

#include <setjmp.h>

#include "text/values/template_any.h"

/* The most nesting of nodes, values and calls, about Python's limit. */
enum { MNEM__TEMPLATE_DEPTH_MAX = 600 };

typedef struct mnem__template_chunk mnem__template_chunk;
typedef struct mnem__template_arena {
    mnem__template_chunk *last;
} mnem__template_arena;

struct mnem_template {
    mnem_template_options options;
    uint64_t bytes, bytes_peak; /* of both arenas and the output */
    mnem__template_arena parsed, rendered;
    mnem__template_arena *arena; /* the current one */
    char *out;                   /* the output, and text being written behind it */
    size_t out_bytes, out_room;
    uint64_t steps;
    int depth;
    uint32_t line;

    jmp_buf *way_out;
    mnem_status status;
    bool raised;
    char message[240]; /* of an error other than a raised one, which is in out */

    const char *text; /* with Python's newlines */
    size_t length;
    struct mnem__node *body;
    struct mnem__template_name *names[128]; /* interned: equal names have equal pointers */
    struct mnem__scope *scope;
    mnem__any_dict *variables;

    const struct mnem_tokenizer *tokenizer; /* of a rendering for tokens; NULL: for text */
    int32_t *ids;
    size_t id_count;
};

/* ---- bytes ---- */

/* Aligned for any value; fails at the limit or if the ledger refuses. */
void *mnem__template_take(mnem_template *t, size_t bytes);
mnem__any mnem__template_copy(mnem_template *t, const char *bytes, size_t n);
/* Concatenates a and b. Repeated appending to a long text doesn't copy it each time. */
mnem__any mnem__template_join(mnem_template *t, mnem__any a, mnem__any b);
void mnem__template_arena_free(mnem_template *t, mnem__template_arena *arena);
/* Interns a name: equal names have equal pointers. A zero follows it. */
const char *mnem__template_intern(mnem_template *t, const char *bytes, size_t n);

/* ---- the output ---- */

void mnem__template_put(mnem_template *t, const char *bytes, size_t n);
void mnem__template_puts(mnem_template *t, const char *text);
/* Removes the output behind mark bytes, and returns it as a text. */
mnem__any mnem__template_cut(mnem_template *t, size_t mark);

/* ---- limits and ends ---- */

void mnem__template_step(mnem_template *t, uint64_t steps);
void mnem__template_enter(mnem_template *t); /* one level deeper; call leave afterwards */
static inline void mnem__template_leave(mnem_template *t) {
    t->depth--;
}
_Noreturn void mnem__template_fail(mnem_template *t, mnem_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with MNEM_INVALID. */
#define mnem__template_refuse(t, ...) mnem__template_fail(t, MNEM_INVALID, __VA_ARGS__)
/* raise_exception. */
_Noreturn void mnem__template_raise(mnem_template *t, mnem__any message);

/* ---- values as text ---- */

/* Write Python's str() and repr() to the output. */
void mnem__template_put_str(mnem_template *t, mnem__any a);
void mnem__template_put_repr(mnem_template *t, mnem__any a);
void mnem__template_put_char(mnem_template *t, uint32_t c);
void mnem__template_put_escaped(mnem_template *t, mnem__any a); /* for HTML */
void mnem__template_put_float(mnem_template *t, double f);
/* str(a) as a value; a itself if it is a text. */
mnem__any mnem__template_str(mnem_template *t, mnem__any a);
/* Python's float(text) and int(text, base); false: invalid. */
bool mnem__template_read_float(mnem_template *t, mnem__any text, double *f);
bool mnem__template_read_int(mnem_template *t, mnem__any text, int64_t base, int64_t *i);

/* ---- texts in another case ---- */

mnem__any mnem__text_lower(mnem_template *t, mnem__any text);
mnem__any mnem__text_upper(mnem_template *t, mnem__any text);
mnem__any mnem__text_capitalize(mnem_template *t, mnem__any text);
mnem__any mnem__text_title(mnem_template *t, mnem__any text);
mnem__any mnem__text_swapcase(mnem_template *t, mnem__any text);
mnem__any mnem__text_casefold(mnem_template *t, mnem__any text);
/* Title case of the filter; the method also capitalizes a letter after an apostrophe. */
mnem__any mnem__text_title_words(mnem_template *t, mnem__any text);

/* ---- JSON ---- */

/* what: "messages", for the error. */
mnem__any mnem__template_json_read(mnem_template *t, const char *text, const char *what);
typedef struct mnem__json_style {
    bool ascii, sorted;
    mnem__any indent; /* NONE: on one line; otherwise a text */
    mnem__any between, behind_key;
} mnem__json_style;
void mnem__template_json_put(mnem_template *t, mnem__any a, const mnem__json_style *style);

/* ---- sorting: stable; items[i] by keys[i] ---- */
void mnem__template_sort(mnem_template *t, mnem__any_list *items, const mnem__any *keys,
                         bool reverse);

#endif
