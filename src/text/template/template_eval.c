/* template_eval.c: expressions to values: names, attributes, items, calls, operators.
 *
 * A missing value is a value, too: undefined. It can be tested, printed (as nothing) and iterated
 * (as empty); any other use ends the rendering with an error. */
#include <string.h>

#include "text/template/template_run.h"

static mnem__any undefined(mnem__any name, int flag) {
    name.kind = MNEM__ANY_UNDEFINED;
    name.flag = (uint8_t)flag;
    return name;
}

/* ---- names ---- */

static mnem__any look_up(mnem_template *t, mnem__any name) {
    uint64_t seen = 0;
    for (const mnem__scope *scope = t->scope; scope; scope = scope->parent)
        for (const mnem__binding *b = scope->first; b; b = b->next, seen++)
            if (b->name == name.text && mnem__is_given(b->value)) {
                mnem__template_step(t, seen / 16);
                return b->value;
            }
    mnem__template_step(t, seen / 16);
    const mnem__any *variable = mnem__any_dict_find(t, t->variables, name);
    if (variable) return *variable;
    const mnem__any global = mnem__template_global(name);
    return mnem__is_given(global) ? global : undefined(name, MNEM__UNDEFINED_VARIABLE);
}

mnem__scope *mnem__scope_make(mnem_template *t, mnem__scope *parent) {
    mnem__scope *scope = mnem__template_take(t, sizeof *scope);
    *scope = (mnem__scope){.parent = parent};
    return scope;
}

void mnem__scope_set(mnem_template *t, mnem__scope *scope, const char *name, mnem__any value) {
    mnem__binding *b = scope->first;
    uint64_t seen = 0;
    for (; b && b->name != name; b = b->next) seen++;
    mnem__template_step(t, seen / 16);
    if (!b) {
        b = mnem__template_take(t, sizeof *b);
        *b = (mnem__binding){.name = name, .next = scope->first};
        scope->first = b;
    }
    b->value = value;
}

static void assign_field(mnem_template *t, const mnem__node *target, mnem__any value) {
    const mnem__any space = look_up(t, target->value), name = target->b->value;
    if (!mnem__any_is(space, MNEM__ANY_NAMESPACE))
        mnem__template_refuse(t, "can't set an attribute of a value of type %s; use a namespace()",
                              mnem__any_type(space));
    if (name.text[0] == '_')
        mnem__template_refuse(t, "namespace: the name '%.*s' begins with '_'; choose another name",
                              (int)(name.length < 40 ? name.length : 40), name.text);
    mnem__any_dict_set(t, space.dict, name, value);
}

void mnem__template_assign(mnem_template *t, const mnem__node *target, mnem__any value) {
    if (target->kind == MNEM__NODE_NAME) {
        mnem__scope_set(t, t->scope, target->value.text, value);
        return;
    }
    if (target->kind == MNEM__NODE_FIELD) {
        assign_field(t, target, value);
        return;
    }
    const mnem__any_list *items = mnem__any_items(t, value);
    uint32_t count = 0;
    for (const mnem__node *n = target->a; n; n = n->next) count++;
    if (items->count != count)
        mnem__template_refuse(
            t, "the value has %u items, but %u names are to be set; use as many names as items",
            items->count, count);
    const mnem__any *item = items->items;
    for (const mnem__node *n = target->a; n; n = n->next) mnem__template_assign(t, n, *item++);
}

/* ---- attributes and items ---- */

static mnem__any macro_field(mnem_template *t, const mnem__macro_code *code, mnem__any name) {
    if (mnem__any_says(name, "name") && mnem__is_given(code->name)) return code->name;
    if (mnem__any_says(name, "catch_kwargs")) return mnem__any_bool(code->kwargs);
    if (mnem__any_says(name, "catch_varargs")) return mnem__any_bool(code->varargs);
    if (mnem__any_says(name, "caller")) return mnem__any_bool(code->caller);
    if (!mnem__any_says(name, "arguments")) return mnem__any_of(MNEM__ANY_MISSING);
    const mnem__any names = mnem__any_list_make(t, MNEM__ANY_TUPLE, 0);
    for (const mnem__node *n = code->parameters; n; n = n->next)
        mnem__any_list_add(t, names.list, n->value);
    return names;
}

mnem__any mnem__template_field(mnem_template *t, mnem__any a, mnem__any name) {
    mnem__any *value, field;
    switch (a.kind) {
    case MNEM__ANY_LOOP: return mnem__loop_field(t, a, name);
    case MNEM__ANY_CYCLER: return mnem__cycler_field(t, a, name);
    case MNEM__ANY_NAMESPACE:
        value = mnem__any_dict_find(t, a.dict, name);
        return value ? *value : mnem__any_of(MNEM__ANY_MISSING);
    case MNEM__ANY_MACRO:
        field = macro_field(t, a.macro->code, name);
        if (mnem__is_given(field)) return field;
        break;
    case MNEM__ANY_TUPLE:
        if (a.flag == MNEM__TUPLE_GROUP && mnem__any_says(name, "grouper")) return a.list->items[0];
        if (a.flag == MNEM__TUPLE_GROUP && mnem__any_says(name, "list")) return a.list->items[1];
        break;
    default: break;
    }
    return mnem__template_method(t, a, name);
}

mnem__any mnem__template_attribute(mnem_template *t, mnem__any a, mnem__any name) {
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    const mnem__any field = mnem__template_field(t, a, name);
    if (mnem__is_given(field)) return field;
    const mnem__any *value =
        mnem__any_is(a, MNEM__ANY_DICT) ? mnem__any_dict_find(t, a.dict, name) : NULL;
    return value ? *value : undefined(name, MNEM__UNDEFINED_ATTRIBUTE);
}

mnem__any mnem__template_item(mnem_template *t, mnem__any a, mnem__any key) {
    mnem__any item = mnem__any_of(MNEM__ANY_MISSING);
    const bool listed = a.kind == MNEM__ANY_TEXT || a.kind == MNEM__ANY_LIST ||
                        a.kind == MNEM__ANY_TUPLE || a.kind == MNEM__ANY_RANGE;
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    if (mnem__any_is(a, MNEM__ANY_DICT) && mnem__any_hashable(t, key)) {
        const mnem__any *value = mnem__any_dict_find(t, a.dict, key);
        if (value) return *value;
    }
    if (listed && mnem__any_whole(key)) item = mnem__any_at(t, a, key.i);
    if (!mnem__is_given(item) && mnem__any_is(key, MNEM__ANY_TEXT))
        item = mnem__template_field(t, a, key);
    if (mnem__is_given(item)) return item;
    return undefined(mnem__template_str(t, key), MNEM__UNDEFINED_ATTRIBUTE);
}

static mnem__any eval_item(mnem_template *t, const mnem__node *node) {
    const mnem__any a = mnem__template_eval(t, node->a);
    const mnem__node *by = node->b;
    if (by->kind != MNEM__NODE_SLICE) return mnem__template_item(t, a, mnem__template_eval(t, by));
    const mnem__node *const parts[3] = {by->a, by->b, by->c};
    mnem__any bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = parts[i] ? mnem__template_eval(t, parts[i]) : mnem__any_of(MNEM__ANY_NONE);
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    return mnem__any_slice(t, a, bounds);
}

/* ---- calls ---- */

static void add_named(mnem_template *t, mnem__arguments *arguments, mnem__any name,
                      mnem__any value) {
    if (!arguments->named) arguments->named = mnem__any_dict_make(t, MNEM__ANY_DICT).dict;
    if (!mnem__any_is(name, MNEM__ANY_TEXT))
        mnem__template_refuse(t, "the name of an argument must be text, found a value of type %s",
                              mnem__any_type(name));
    if (mnem__any_dict_find(t, arguments->named, name))
        mnem__template_refuse(t, "the argument '%.*s' is given twice; remove one",
                              (int)(name.length < 64 ? name.length : 64), name.text);
    mnem__any_dict_set(t, arguments->named, name, value);
}

static void spread(mnem_template *t, mnem__arguments *arguments, mnem__any value, bool named) {
    if (!named) {
        const mnem__any_list *items = mnem__any_items(t, value);
        for (uint32_t i = 0; i < items->count; i++)
            mnem__any_list_add(t, arguments->list, items->items[i]);
        return;
    }
    if (!mnem__any_is(value, MNEM__ANY_DICT))
        mnem__template_refuse(t, "'**' needs a dict, found a value of type %s",
                              mnem__any_type(value));
    for (uint32_t i = 0; i < value.dict->count; i++)
        add_named(t, arguments, value.dict->entries[i].key, value.dict->entries[i].value);
}

static mnem__arguments eval_arguments(mnem_template *t, const mnem__node *first) {
    mnem__arguments arguments = {0};
    if (first) arguments.list = mnem__any_list_make(t, MNEM__ANY_LIST, 0).list;
    for (const mnem__node *node = first; node; node = node->next) {
        const mnem__any value = mnem__template_eval(t, node->a);
        if (node->sign == '=')
            add_named(t, &arguments, node->value, value);
        else if (node->sign)
            spread(t, &arguments, value, node->sign == MNEM__SIGN_POWER);
        else
            mnem__any_list_add(t, arguments.list, value);
    }
    return arguments;
}

static mnem__any call_joiner(mnem_template *t, mnem__any_list *joiner) {
    mnem__template_step(t, 1);
    return joiner->at++ ? joiner->items[0] : mnem__any_text("", 0);
}

mnem__any mnem__template_call(mnem_template *t, mnem__any f, const mnem__arguments *arguments) {
    switch (f.kind) {
    case MNEM__ANY_FUNCTION: return mnem__template_call_global(t, f, arguments);
    case MNEM__ANY_METHOD:
        return mnem__template_apply(t, &f.method->what->f, f.method->self, arguments);
    case MNEM__ANY_MACRO: return mnem__template_call_macro(t, f.macro, arguments);
    case MNEM__ANY_LOOP: return mnem__template_call_loop(t, f.loop, arguments);
    case MNEM__ANY_JOINER: return call_joiner(t, f.list);
    case MNEM__ANY_UNDEFINED: mnem__template_undefined(t, f);
    default:
        mnem__template_refuse(t,
                              "a value of type %s can't be called; only functions and macros can",
                              mnem__any_type(f));
    }
}

mnem__any mnem__template_eval_call(mnem_template *t, const mnem__node *node, mnem__any caller) {
    const mnem__any f = mnem__template_eval(t, node->a);
    mnem__arguments arguments = eval_arguments(t, node->b);
    if (mnem__is_given(caller)) add_named(t, &arguments, mnem__any_word("caller"), caller);
    t->line = node->line;
    return mnem__template_call(t, f, &arguments);
}

static mnem__any apply(mnem_template *t, const mnem__node *node, mnem__any in) {
    const mnem__arguments arguments = eval_arguments(t, node->b);
    const char *kind = node->kind == MNEM__NODE_FILTER ? "filter" : "test";
    const int n = node->value.length < 64 ? (int)node->value.length : 64;
    t->line = node->line;
    if (!node->what)
        mnem__template_refuse(t, "%s '%.*s' does not exist; correct its name", kind, n,
                              node->value.text);
    if (!node->what->parameters)
        mnem__template_fail(t, MNEM_UNSUPPORTED,
                            "%s '%.*s' is not supported; remove it from the template", kind, n,
                            node->value.text);
    return mnem__template_apply(t, node->what, in, &arguments);
}

mnem__any mnem__template_eval_filters(mnem_template *t, const mnem__node *node, mnem__any in) {
    mnem__template_enter(t);
    if (node->a) in = mnem__template_eval_filters(t, node->a, in);
    mnem__template_leave(t);
    return apply(t, node, in);
}

/* ---- the rest ---- */

static mnem__any eval_items(mnem_template *t, const mnem__node *node) {
    const mnem__any_kind kind = node->kind == MNEM__NODE_LIST ? MNEM__ANY_LIST : MNEM__ANY_TUPLE;
    const mnem__any list = mnem__any_list_make(t, kind, 0);
    for (const mnem__node *n = node->a; n; n = n->next)
        mnem__any_list_add(t, list.list, mnem__template_eval(t, n));
    return list;
}

static mnem__any eval_dict(mnem_template *t, const mnem__node *node) {
    const mnem__any dict = mnem__any_dict_make(t, MNEM__ANY_DICT);
    for (const mnem__node *n = node->a; n; n = n->next) {
        const mnem__any key = mnem__template_eval(t, n->a);
        mnem__any_dict_set(t, dict.dict, key, mnem__template_eval(t, n->b));
    }
    return dict;
}

/* a < b < c: all of them, each value once. */
static mnem__any eval_compare(mnem_template *t, const mnem__node *node) {
    mnem__any left = mnem__template_eval(t, node->a);
    for (const mnem__node *n = node->b; n; n = n->next) {
        const mnem__any right = mnem__template_eval(t, n->a);
        if (!mnem__template_compare(t, n->sign, left, right)) return mnem__any_bool(false);
        left = right;
    }
    return mnem__any_bool(true);
}

static mnem__any eval_sign(mnem_template *t, const mnem__node *node) {
    const mnem__any a = mnem__template_eval(t, node->a);
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    if (!mnem__any_number(a))
        mnem__template_refuse(t,
                              "the sign + or - needs a number behind it, found a value of type %s",
                              mnem__any_type(a));
    if (node->kind == MNEM__NODE_PLUS) return mnem__any_whole(a) ? mnem__any_int(a.i) : a;
    if (mnem__any_is(a, MNEM__ANY_FLOAT)) return mnem__any_float(-a.f);
    return mnem__template_binary(t, '-', mnem__any_int(0), a);
}

static mnem__any eval_binary(mnem_template *t, const mnem__node *node) {
    const mnem__any a = mnem__template_eval(t, node->a), b = mnem__template_eval(t, node->b);
    if (node->kind == MNEM__NODE_BINARY) return mnem__template_binary(t, node->sign, a, b);
    return mnem__template_join(t, mnem__template_str(t, a), mnem__template_str(t, b));
}

static mnem__any eval_choice(mnem_template *t, const mnem__node *node) {
    if (mnem__any_truth(mnem__template_eval(t, node->a))) return mnem__template_eval(t, node->b);
    return node->c
               ? mnem__template_eval(t, node->c)
               : mnem__any_no("an inline if has no else, and its condition is false; add an else");
}

static mnem__any eval_logic(mnem_template *t, const mnem__node *node) {
    const mnem__any a = mnem__template_eval(t, node->a);
    if (node->kind == MNEM__NODE_NOT) return mnem__any_bool(!mnem__any_truth(a));
    const bool decided = mnem__any_truth(a) == (node->kind == MNEM__NODE_OR);
    return decided ? a : mnem__template_eval(t, node->b);
}

static mnem__any eval(mnem_template *t, const mnem__node *node) {
    switch (node->kind) {
    case MNEM__NODE_CONSTANT: return node->value;
    case MNEM__NODE_NAME: return look_up(t, node->value);
    case MNEM__NODE_LIST:
    case MNEM__NODE_TUPLE: return eval_items(t, node);
    case MNEM__NODE_DICT: return eval_dict(t, node);
    case MNEM__NODE_NOT:
    case MNEM__NODE_AND:
    case MNEM__NODE_OR: return eval_logic(t, node);
    case MNEM__NODE_MINUS:
    case MNEM__NODE_PLUS: return eval_sign(t, node);
    case MNEM__NODE_COMPARE: return eval_compare(t, node);
    case MNEM__NODE_BINARY:
    case MNEM__NODE_CONCAT: return eval_binary(t, node);
    case MNEM__NODE_CHOICE: return eval_choice(t, node);
    case MNEM__NODE_ATTRIBUTE:
        return mnem__template_attribute(t, mnem__template_eval(t, node->a), node->value);
    case MNEM__NODE_ITEM: return eval_item(t, node);
    case MNEM__NODE_CALL: return mnem__template_eval_call(t, node, mnem__any_of(MNEM__ANY_MISSING));
    default: return apply(t, node, mnem__template_eval(t, node->a)); /* FILTER, TEST */
    }
}

mnem__any mnem__template_eval(mnem_template *t, const mnem__node *node) {
    mnem__template_enter(t);
    t->line = node->line;
    const mnem__any value = eval(t, node);
    mnem__template_leave(t);
    return value;
}
