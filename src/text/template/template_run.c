/* template_run.c: statements to output, and macros. Cost: a step for each node. */
#include "text/template/template_run.h"

/* ---- bodies ---- */

mnem__any mnem__template_capture(mnem_template *t, const mnem__node *body, mnem__scope *scope) {
    const size_t mark = t->out_bytes;
    mnem__scope *before = t->scope;
    t->scope = scope;
    mnem__template_run(t, body);
    t->scope = before;
    return mnem__template_cut(t, mark);
}

static mnem__any capture_inner(mnem_template *t, const mnem__node *body) {
    return mnem__template_capture(t, body, mnem__scope_make(t, t->scope));
}

static void run_set_block(mnem_template *t, const mnem__node *node) {
    mnem__any text = capture_inner(t, node->c);
    if (node->b) text = mnem__template_eval_filters(t, node->b, text);
    mnem__template_assign(t, node->a, text);
}

static mnem__flow run_with(mnem_template *t, const mnem__node *node) {
    mnem__scope *before = t->scope, *inner = mnem__scope_make(t, before);
    for (const mnem__node *n = node->a; n; n = n->next) {
        const mnem__any value = mnem__template_eval(t, n->b);
        t->scope = inner;
        mnem__template_assign(t, n->a, value);
        t->scope = before;
    }
    t->scope = inner;
    const mnem__flow flow = mnem__template_run(t, node->c);
    t->scope = before;
    return flow;
}

/* ---- macros ---- */

mnem__any mnem__template_make_macro(mnem_template *t, const mnem__macro_code *code) {
    mnem__any_macro *macro = mnem__template_take(t, sizeof *macro);
    *macro = (mnem__any_macro){code, t->scope};
    return (mnem__any){.kind = MNEM__ANY_MACRO, .macro = macro};
}

static bool has_parameter(const mnem__macro_code *code, mnem__any name) {
    for (const mnem__node *n = code->parameters; n; n = n->next)
        if (n->value.length == name.length && mnem__any_says(name, n->value.text)) return true;
    return false;
}

/* Arguments by name that no parameter has: a dict for kwargs, or an error. */
static mnem__any rest_named(mnem_template *t, const mnem__macro_code *code,
                            const mnem__any_dict *named) {
    const mnem__any rest = mnem__any_dict_make(t, MNEM__ANY_DICT);
    for (uint32_t i = 0; named && i < named->count; i++) {
        const mnem__any name = named->entries[i].key;
        if (has_parameter(code, name) || (code->caller && mnem__any_says(name, "caller"))) continue;
        if (!code->kwargs)
            mnem__template_refuse(t, "the macro has no parameter named '%.*s'",
                                  (int)(name.length < 64 ? name.length : 64), name.text);
        mnem__any_dict_set(t, rest.dict, name, named->entries[i].value);
    }
    return rest;
}

static mnem__any rest_listed(mnem_template *t, const mnem__macro_code *code,
                             const mnem__any_list *list) {
    const mnem__any rest = mnem__any_list_make(t, MNEM__ANY_TUPLE, 0);
    for (uint32_t i = code->parameter_count; list && i < list->count; i++) {
        if (!code->varargs)
            mnem__template_refuse(t, "the macro takes at most %u argument%s, but %u are given",
                                  code->parameter_count, code->parameter_count == 1 ? "" : "s",
                                  list->count);
        mnem__any_list_add(t, rest.list, list->items[i]);
    }
    return rest;
}

/* What a call gives for the parameter with that number; MISSING: nothing. */
static mnem__any argument_of(mnem_template *t, const mnem__arguments *more, uint32_t number,
                             mnem__any name) {
    const mnem__any *named = more->named ? mnem__any_dict_find(t, more->named, name) : NULL;
    const bool listed = more->list && number < more->list->count;
    if (listed && named)
        mnem__template_refuse(
            t, "the macro's parameter '%.*s' is given both by position and by name; remove one",
            (int)name.length, name.text);
    if (listed) return more->list->items[number];
    return named ? *named : mnem__any_of(MNEM__ANY_MISSING);
}

static void set_own(mnem_template *t, const char *name, size_t n, mnem__any value) {
    mnem__scope_set(t, t->scope, mnem__template_intern(t, name, n), value);
}

/* In the macro's scope: parameters in their order, so that a default sees those before it. */
static void bind_parameters(mnem_template *t, const mnem__macro_code *code,
                            const mnem__arguments *more) {
    uint32_t number = 0;
    const mnem__any named = rest_named(t, code, more->named);
    const mnem__any listed = rest_listed(t, code, more->list);
    for (const mnem__node *n = code->parameters; n; n = n->next) {
        mnem__any value = argument_of(t, more, number++, n->value);
        if (!mnem__is_given(value) && n->a) value = mnem__template_eval(t, n->a);
        if (!mnem__is_given(value))
            value =
                mnem__any_no("a parameter of the macro was not given; pass it, or set a default");
        mnem__scope_set(t, t->scope, n->value.text, value);
    }
    if (code->kwargs) set_own(t, "kwargs", 6, named);
    if (code->varargs) set_own(t, "varargs", 7, listed);
    const mnem__any caller = mnem__any_word("caller");
    if (!code->caller || has_parameter(code, caller)) return;
    const mnem__any *given = more->named ? mnem__any_dict_find(t, more->named, caller) : NULL;
    set_own(t, "caller", 6,
            given ? *given
                  : mnem__any_no("caller() is used, but no {% call %} block called the macro"));
}

mnem__any mnem__template_call_macro(mnem_template *t, const mnem__any_macro *macro,
                                    const mnem__arguments *more) {
    mnem__scope *before = t->scope;
    mnem__template_enter(t);
    t->scope = mnem__scope_make(t, macro->scope);
    bind_parameters(t, macro->code, more);
    const mnem__any text = mnem__template_capture(t, macro->code->body, t->scope);
    t->scope = before;
    mnem__template_leave(t);
    return text;
}

/* ---- statements ---- */

static mnem__flow run_if(mnem_template *t, const mnem__node *node) {
    const bool holds = mnem__any_truth(mnem__template_eval(t, node->a));
    return mnem__template_run(t, holds ? node->b : node->c);
}

/* What isn't a text is an error here, as it is where Jinja joins a block's parts. */
static void put_text(mnem_template *t, mnem__any text, const char *block) {
    if (!mnem__any_is(text, MNEM__ANY_TEXT))
        mnem__template_refuse(t, "the result of a {%% %s %%} block is of type %s, expected text",
                              block, mnem__any_type(text));
    mnem__template_put(t, text.text, text.length);
}

static void run_call_block(mnem_template *t, const mnem__node *node) {
    const mnem__any caller = mnem__template_make_macro(t, node->macro);
    put_text(t, mnem__template_eval_call(t, node->a, caller), "call");
}

/* Jinja evaluates the name before it looks for a loader, of which there is none. */
static _Noreturn void refuse_template(mnem_template *t, const mnem__node *node) {
    mnem__template_eval(t, node->a);
    t->line = node->line;
    mnem__template_fail(t, MNEM_UNSUPPORTED,
                        "the statement '%.*s' is not supported; remove it from the template",
                        (int)node->value.length, node->value.text);
}

static mnem__flow run_one(mnem_template *t, const mnem__node *node) {
    switch (node->kind) {
    case MNEM__NODE_TEXT: mnem__template_put(t, node->value.text, node->value.length); break;
    case MNEM__NODE_OUTPUT: mnem__template_put_str(t, mnem__template_eval(t, node->a)); break;
    case MNEM__NODE_IF: return run_if(t, node);
    case MNEM__NODE_FOR:
        mnem__template_run_for(t, node, t->scope, mnem__template_eval(t, node->b), 0);
        break;
    case MNEM__NODE_SET: mnem__template_assign(t, node->a, mnem__template_eval(t, node->b)); break;
    case MNEM__NODE_SET_BLOCK: run_set_block(t, node); break;
    case MNEM__NODE_MACRO:
        mnem__scope_set(t, t->scope, node->macro->name.text,
                        mnem__template_make_macro(t, node->macro));
        break;
    case MNEM__NODE_CALL_BLOCK: run_call_block(t, node); break;
    case MNEM__NODE_FILTER_BLOCK:
        put_text(t, mnem__template_eval_filters(t, node->b, capture_inner(t, node->c)), "filter");
        break;
    case MNEM__NODE_WITH:
    case MNEM__NODE_SCOPE: return run_with(t, node);
    case MNEM__NODE_TEMPLATE: refuse_template(t, node);
    case MNEM__NODE_BREAK: return MNEM__FLOW_BREAK;
    default: return MNEM__FLOW_CONTINUE;
    }
    return MNEM__FLOW_ON;
}

mnem__flow mnem__template_run(mnem_template *t, const mnem__node *body) {
    mnem__flow flow = MNEM__FLOW_ON;
    mnem__template_enter(t);
    for (const mnem__node *node = body; node && flow == MNEM__FLOW_ON; node = node->next) {
        mnem__template_step(t, 1);
        t->line = node->line;
        flow = run_one(t, node);
    }
    mnem__template_leave(t);
    return flow;
}
