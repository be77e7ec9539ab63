/* template_parse.c: statements: text, {{ }} and {% %} as nodes.
 *
 * A body ends at a tag whose first word is one of those that its statement names; the words are one
 * text with spaces between them ("elif else endif"). */
#include "text/template/template_node.h"

#include <stdio.h>
#include <string.h>

/* Is name one of the words? */
static bool is_one_of(mnem__any name, const char *words) {
    for (const char *word = words; *word; word += strspn(word, " ")) {
        const size_t n = strcspn(word, " ");
        if (n == name.length && memcmp(word, name.text, n) == 0) return true;
        word += n;
    }
    return false;
}

static mnem__node *parse_statement(mnem__parser *p);

static void expect_block_end(mnem__parser *p) {
    if (p->token.kind != MNEM__LEX_BLOCK_END) mnem__parse_fail(p, "expected '%}'");
    mnem__parse_next(p);
}

static mnem__node *parse_output(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_OUTPUT);
    mnem__parse_next(p);
    node->a = mnem__parse_tuple(p, true, NULL, false);
    if (p->token.kind != MNEM__LEX_VARIABLE_END) mnem__parse_fail(p, "expected '}}'");
    mnem__parse_next(p);
    return node;
}

/* Up to a tag of ends (NULL: the template's end), behind whose first word the parser stands; *end
 * is that word. */
static mnem__node *parse_body(mnem__parser *p, const char *ends, mnem__any *end) {
    mnem__node *first = NULL, **link = &first;
    mnem__template_enter(p->t);
    while (p->token.kind != MNEM__LEX_END) {
        if (p->token.kind == MNEM__LEX_DATA) {
            mnem__node *node = mnem__parse_node(p, MNEM__NODE_TEXT);
            node->value = p->token.value;
            if (node->value.length > 0) mnem__parse_link(&link, node);
            mnem__parse_next(p);
        } else if (p->token.kind == MNEM__LEX_VARIABLE_BEGIN) {
            mnem__parse_link(&link, parse_output(p));
        } else {
            mnem__parse_next(p);
            if (ends && p->token.kind == MNEM__LEX_NAME && is_one_of(p->token.value, ends)) break;
            mnem__node *node = parse_statement(p);
            if (node) mnem__parse_link(&link, node);
            expect_block_end(p);
        }
    }
    mnem__template_leave(p->t);
    if (!ends) return first;
    if (p->token.kind == MNEM__LEX_END) {
        char why[64];
        const char *last = strrchr(ends, ' ');
        snprintf(why, sizeof why, "a block is not closed: {%% %s %%} is missing",
                 last ? last + 1 : ends);
        mnem__parse_fail(p, why);
    }
    *end = p->token.value;
    mnem__parse_next(p);
    return first;
}

/* The rest of the tag, and the body behind it. */
static mnem__node *parse_block(mnem__parser *p, const char *ends, mnem__any *end) {
    mnem__parse_skip_sign(p, ':');
    expect_block_end(p);
    return parse_body(p, ends, end);
}

/* ---- statements ---- */

/* At the condition; also behind elif. */
static mnem__node *parse_if(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_IF);
    mnem__any end;
    mnem__template_enter(p->t);
    node->a = mnem__parse_tuple(p, false, NULL, false);
    node->b = parse_block(p, "elif else endif", &end);
    if (mnem__any_says(end, "elif"))
        node->c = parse_if(p);
    else if (mnem__any_says(end, "else"))
        node->c = parse_block(p, "endif", &end);
    mnem__template_leave(p->t);
    return node;
}

static mnem__node *parse_for(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_FOR);
    mnem__any end;
    node->a = mnem__parse_target(p, false, "in");
    if (!mnem__parse_skip_name(p, "in")) mnem__parse_fail(p, "expected 'in'");
    node->b = mnem__parse_tuple(p, false, "recursive", false);
    if (mnem__parse_skip_name(p, "if")) node->d = mnem__parse_expression(p, true);
    node->sign = mnem__parse_skip_name(p, "recursive");
    p->loops++;
    node->c = parse_block(p, "else endfor", &end);
    p->loops--;
    if (mnem__any_says(end, "else")) node->e = parse_block(p, "endfor", &end);
    return node;
}

static mnem__node *parse_set(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_SET);
    mnem__any end;
    node->a = mnem__parse_target(p, true, NULL);
    if (mnem__parse_skip_sign(p, '=')) {
        node->b = mnem__parse_tuple(p, true, NULL, false);
        return node;
    }
    node->kind = MNEM__NODE_SET_BLOCK;
    node->b = mnem__parse_filters(p, NULL, false);
    node->c = parse_block(p, "endset", &end);
    return node;
}

/* "(a, b=1)" */
static void parse_parameters(mnem__parser *p, mnem__macro_code *code) {
    mnem__node **end = &code->parameters;
    bool defaults = false;
    mnem__parse_expect_sign(p, '(');
    while (!mnem__parse_at_sign(p, ')')) {
        if (code->parameters) mnem__parse_expect_sign(p, ',');
        mnem__node *name = mnem__parse_node(p, MNEM__NODE_NAME);
        name->value = mnem__parse_expect_name(p);
        if (mnem__parse_skip_sign(p, '='))
            name->a = mnem__parse_expression(p, true);
        else if (defaults)
            mnem__parse_fail(p, "a parameter without a default follows one with a default");
        defaults |= name->a != NULL;
        mnem__parse_link(&end, name);
        code->parameter_count++;
    }
    mnem__parse_next(p);
}

static mnem__macro_code *make_code(mnem__parser *p) {
    mnem__macro_code *code = mnem__template_take(p->t, sizeof *code);
    *code = (mnem__macro_code){0};
    return code;
}

/* The body of a macro or a call block; finds which of its three own names it uses. */
static void parse_macro_body(mnem__parser *p, mnem__macro_code *code, const char *ends) {
    const mnem__parser outer = *p;
    mnem__any end;
    p->varargs = p->kwargs = p->caller = false;
    p->loops = 0;
    code->body = parse_block(p, ends, &end);
    code->varargs = p->varargs;
    code->kwargs = p->kwargs;
    code->caller = p->caller;
    p->varargs |= outer.varargs;
    p->kwargs |= outer.kwargs;
    p->caller |= outer.caller;
    p->loops = outer.loops;
}

static mnem__node *parse_macro(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_MACRO);
    node->macro = make_code(p);
    node->macro->name = mnem__parse_expect_name(p);
    parse_parameters(p, node->macro);
    parse_macro_body(p, node->macro, "endmacro");
    return node;
}

static mnem__node *parse_call_block(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_CALL_BLOCK);
    node->macro = make_code(p);
    if (mnem__parse_at_sign(p, '(')) parse_parameters(p, node->macro);
    node->a = mnem__parse_expression(p, true);
    if (node->a->kind != MNEM__NODE_CALL)
        mnem__parse_fail(p, "expected a call of a macro, as in {% call name() %}");
    parse_macro_body(p, node->macro, "endcall");
    return node;
}

static mnem__node *parse_filter_block(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_FILTER_BLOCK);
    mnem__any end;
    node->b = mnem__parse_filters(p, NULL, true);
    node->c = parse_block(p, "endfilter", &end);
    return node;
}

static mnem__node *parse_with(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_WITH), **link = &node->a;
    mnem__any end;
    while (p->token.kind != MNEM__LEX_BLOCK_END) {
        if (node->a) mnem__parse_expect_sign(p, ',');
        mnem__node *pair = mnem__parse_node(p, MNEM__NODE_PAIR);
        pair->a = mnem__parse_target(p, false, NULL);
        mnem__parse_expect_sign(p, '=');
        pair->b = mnem__parse_expression(p, true);
        mnem__parse_link(&link, pair);
    }
    node->c = parse_block(p, "endwith", &end);
    return node;
}

static mnem__node *parse_generation(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_SCOPE);
    mnem__any end;
    const int loops = p->loops;
    p->loops = 0; /* it is a call block: no break leaves it */
    node->c = parse_block(p, "endgeneration", &end);
    p->loops = loops;
    return node;
}

static mnem__node *parse_print(mnem__parser *p) {
    mnem__node *first = NULL, **link = &first;
    while (p->token.kind != MNEM__LEX_BLOCK_END) {
        if (first) mnem__parse_expect_sign(p, ',');
        mnem__node *node = mnem__parse_node(p, MNEM__NODE_OUTPUT);
        node->a = mnem__parse_expression(p, true);
        mnem__parse_link(&link, node);
    }
    mnem__node *scope = mnem__parse_node(p, MNEM__NODE_SCOPE);
    scope->c = first;
    return scope;
}

static mnem__node *parse_break(mnem__parser *p) {
    if (p->loops == 0) mnem__parse_fail(p, "break or continue outside of a loop");
    return mnem__parse_node(p, MNEM__NODE_BREAK);
}

static mnem__node *parse_continue(mnem__parser *p) {
    mnem__node *node = parse_break(p);
    node->kind = MNEM__NODE_CONTINUE;
    return node;
}

/* ---- other templates: there are none, which is an error where a rendering comes there ---- */

/* `as name`, of which also the name is there only. */
static void skip_alias(mnem__parser *p) {
    if (mnem__parse_skip_name(p, "as")) mnem__parse_expect_name(p);
}

static void skip_context(mnem__parser *p) {
    if ((mnem__parse_skip_name(p, "with") || mnem__parse_skip_name(p, "without")) &&
        !mnem__parse_skip_name(p, "context"))
        mnem__parse_fail(p, "expected 'context'");
}

/* Behind the word `import` of `from "x" import a, b as c`. */
static void skip_imported(mnem__parser *p) {
    do {
        mnem__parse_expect_name(p);
        skip_alias(p);
    } while (mnem__parse_skip_sign(p, ','));
}

/* Behind the word that makes the statement, which is name. */
static mnem__node *parse_template(mnem__parser *p, mnem__any name) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_TEMPLATE);
    node->value = name;
    node->a = mnem__parse_expression(p, true);
    if (mnem__any_says(name, "include") && mnem__parse_skip_name(p, "ignore") &&
        !mnem__parse_skip_name(p, "missing"))
        mnem__parse_fail(p, "expected 'missing'");
    if (mnem__any_says(name, "import")) {
        if (!mnem__parse_at_name(p, "as")) mnem__parse_fail(p, "expected 'as'");
        skip_alias(p);
    }
    if (mnem__any_says(name, "from")) {
        if (!mnem__parse_skip_name(p, "import")) mnem__parse_fail(p, "expected 'import'");
        skip_imported(p);
    }
    if (!mnem__any_says(name, "extends")) skip_context(p);
    return node;
}

static mnem__node *parse_statement(mnem__parser *p) {
    static const struct {
        const char *name;
        mnem__node *(*parse)(mnem__parser *p);
    } statements[] = {{"if", parse_if},
                      {"for", parse_for},
                      {"set", parse_set},
                      {"macro", parse_macro},
                      {"call", parse_call_block},
                      {"filter", parse_filter_block},
                      {"with", parse_with},
                      {"generation", parse_generation},
                      {"print", parse_print},
                      {"break", parse_break},
                      {"continue", parse_continue}};
    const mnem__any name = p->token.value;
    const uint32_t line = p->token.line;
    if (p->token.kind != MNEM__LEX_NAME) mnem__parse_fail(p, "expected a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (mnem__any_says(name, statements[i].name)) {
            mnem__parse_next(p);
            return statements[i].parse(p);
        }
    if (is_one_of(name, "include import from extends")) {
        mnem__parse_next(p);
        return parse_template(p, name);
    }
    if (is_one_of(name, "block autoescape do trans debug")) {
        p->t->line = line;
        mnem__template_fail(p->t, MNEM_UNSUPPORTED,
                            "the statement '%.*s' is not supported; remove it from the template",
                            (int)name.length, name.text);
    }
    mnem__parse_fail(p, "unknown statement");
}

void mnem__template_parse(mnem_template *t) {
    mnem__parser p = {.t = t};
    p.lexer = (mnem__lexer){
        .t = t, .text = t->text, .length = t->length, .line = 1, .inside = MNEM__LEX_DATA};
    mnem__parse_next(&p);
    t->body = parse_body(&p, NULL, NULL);
}
