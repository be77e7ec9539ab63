/* template_run.h: the execution of nodes: scopes, expressions, statements, loops.
 *
 * A scope holds the variables that were set in it, and refers to the enclosing scope (lexical
 * scoping): a variable set in a loop's body is dropped after the iteration, one set in an if
 * stays. Around the outermost scope are the variables of the call, and Jinja's global functions. */
#ifndef MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_RUN_H
#define MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_RUN_H

#include "text/template/template_call.h"
#include "text/template/template_node.h"

typedef struct mnem__binding {
    const char *name; /* interned */
    mnem__any value;  /* MISSING: not in this iteration */
    struct mnem__binding *next;
} mnem__binding;
typedef struct mnem__scope {
    struct mnem__scope *parent;
    mnem__binding *first;
} mnem__scope;

typedef enum mnem__flow { MNEM__FLOW_ON, MNEM__FLOW_BREAK, MNEM__FLOW_CONTINUE } mnem__flow;

/* A running loop. Items are taken one by one, so that a filter sees variables that the body has
 * set. */
typedef struct mnem__any_loop {
    const mnem__node *node;
    mnem__scope *around;
    mnem__any_list *items;
    uint32_t next;   /* of items */
    bool unfiltered; /* the remaining items passed the filter */
    bool has_ahead;  /* ahead was already taken, to know whether this iteration is the last */
    int64_t index0, depth0;
    mnem__any previous, current, ahead;
    mnem__any changed; /* the last arguments of changed() */
} mnem__any_loop;

mnem__any mnem__template_eval(mnem_template *t, const mnem__node *node);
/* Applies a filter's node to a value. */
mnem__any mnem__template_eval_filters(mnem_template *t, const mnem__node *node, mnem__any in);
/* Calls with caller as an additional named argument, unless MISSING. */
mnem__any mnem__template_eval_call(mnem_template *t, const mnem__node *node, mnem__any caller);

mnem__scope *mnem__scope_make(mnem_template *t, mnem__scope *parent);
void mnem__scope_set(mnem_template *t, mnem__scope *scope, const char *name, mnem__any value);
/* Assigns value to a target: a name, a tuple of names, a namespace's field. */
void mnem__template_assign(mnem_template *t, const mnem__node *target, mnem__any value);

mnem__flow mnem__template_run(mnem_template *t, const mnem__node *body);
/* Runs a body in the scope, and returns its output as a text. */
mnem__any mnem__template_capture(mnem_template *t, const mnem__node *body, mnem__scope *scope);
void mnem__template_run_for(mnem_template *t, const mnem__node *node, mnem__scope *around,
                            mnem__any items, int64_t depth0);
mnem__any mnem__template_make_macro(mnem_template *t, const mnem__macro_code *code);

/* In a rendering for tokens: marks the texts of t->tokenizer's control tokens in a value; in a
 * rendering for text: returns a. */
mnem__any mnem__template_mark(mnem_template *t, mnem__any a);

#endif
