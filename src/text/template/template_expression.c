/* template_expression.c: expressions, from the loosest operator to the tightest:
 *
 *     a if b else c    or    and    not    < > == in ...
 *     + -    ~    * / // %    **    -a    a.b a[b] a(b)    a|f a is t
 *
 * Each has a function that reads the next tighter one first; Jinja's own grammar, with its oddities
 * (~ binds tighter than +, ** to the left). Depth is bounded where it can grow: in brackets, behind
 * signs and in choices. */
#include <string.h>

#include "text/template/template_call.h"
#include "text/template/template_node.h"

/* ---- the tokens ---- */

void mnem__parse_fail(mnem__parser *p, const char *why) {
    static const char *const names[] = {
        "the end of the template", "text", "'{{'", "'}}'", "'{%'", "'%}'"};
    const mnem__lexeme *token = &p->token;
    const char *link = strncmp(why, "expected", 8) == 0 ? ", found" : ", at";
    p->t->line = token->line;
    if (token->kind == MNEM__LEX_NAME)
        mnem__template_fail(p->t, MNEM_BAD_FILE, "%s%s '%.*s'", why, link,
                            (int)(token->value.length < 40 ? token->value.length : 40),
                            token->value.text);
    if (token->kind == MNEM__LEX_SIGN && token->sign < 128)
        mnem__template_fail(p->t, MNEM_BAD_FILE, "%s%s '%c'", why, link, token->sign);
    mnem__template_fail(p->t, MNEM_BAD_FILE, "%s%s %s", why, link,
                        token->kind <= MNEM__LEX_BLOCK_END ? names[token->kind] : "a value");
}

void mnem__parse_next(mnem__parser *p) {
    p->token = p->has_ahead ? p->ahead : mnem__lex_next(&p->lexer);
    p->has_ahead = false;
    mnem__template_step(p->t, 1);
}

static const mnem__lexeme *look(mnem__parser *p) {
    if (!p->has_ahead) p->ahead = mnem__lex_next(&p->lexer);
    p->has_ahead = true;
    return &p->ahead;
}

static bool is_sign(const mnem__lexeme *token, int sign) {
    return token->kind == MNEM__LEX_SIGN && token->sign == sign;
}

static bool is_name(const mnem__lexeme *token, const char *name) {
    return token->kind == MNEM__LEX_NAME && mnem__any_says(token->value, name);
}

bool mnem__parse_at_sign(const mnem__parser *p, int sign) {
    return is_sign(&p->token, sign);
}

bool mnem__parse_at_name(const mnem__parser *p, const char *name) {
    return is_name(&p->token, name);
}

bool mnem__parse_skip_sign(mnem__parser *p, int sign) {
    const bool is = mnem__parse_at_sign(p, sign);
    if (is) mnem__parse_next(p);
    return is;
}

bool mnem__parse_skip_name(mnem__parser *p, const char *name) {
    const bool is = mnem__parse_at_name(p, name);
    if (is) mnem__parse_next(p);
    return is;
}

void mnem__parse_expect_sign(mnem__parser *p, int sign) {
    char why[] = "expected '?'";
    why[10] = (char)sign;
    if (!mnem__parse_skip_sign(p, sign)) mnem__parse_fail(p, why);
}

mnem__any mnem__parse_expect_name(mnem__parser *p) {
    const mnem__any name = p->token.value;
    if (p->token.kind != MNEM__LEX_NAME) mnem__parse_fail(p, "expected a name");
    mnem__parse_next(p);
    return name;
}

mnem__node *mnem__parse_node(mnem__parser *p, mnem__node_kind kind) {
    mnem__node *node = mnem__template_take(p->t, sizeof *node);
    *node = (mnem__node){.kind = (uint8_t)kind, .line = p->token.line};
    return node;
}

void mnem__parse_link(mnem__node ***end, mnem__node *node) {
    **end = node;
    *end = &node->next;
}

static mnem__node *join(mnem__parser *p, mnem__node_kind kind, int sign, mnem__node *a,
                        mnem__node *b) {
    mnem__node *node = mnem__parse_node(p, kind);
    node->sign = (uint8_t)sign;
    node->line = a->line;
    node->a = a;
    node->b = b;
    return node;
}

/* ---- values ---- */

static mnem__node *parse_items(mnem__parser *p, mnem__node_kind kind, char close) {
    mnem__node *node = mnem__parse_node(p, kind), **end = &node->a;
    mnem__parse_next(p);
    while (!mnem__parse_at_sign(p, close)) {
        if (node->a) mnem__parse_expect_sign(p, ',');
        if (mnem__parse_at_sign(p, close)) break;
        mnem__node *item = mnem__parse_expression(p, true);
        if (kind == MNEM__NODE_DICT) {
            mnem__parse_expect_sign(p, ':');
            item = join(p, MNEM__NODE_PAIR, 0, item, mnem__parse_expression(p, true));
        }
        mnem__parse_link(&end, item);
    }
    mnem__parse_next(p);
    return node;
}

static mnem__node *parse_constant(mnem__parser *p) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_CONSTANT);
    node->value = p->token.value;
    mnem__parse_next(p);
    while (node->value.kind == MNEM__ANY_TEXT && p->token.kind == MNEM__LEX_CONSTANT &&
           p->token.value.kind == MNEM__ANY_TEXT) {
        node->value = mnem__template_join(p->t, node->value, p->token.value);
        mnem__parse_next(p);
    }
    return node;
}

/* true, none: constants. */
static bool read_word(mnem__any name, mnem__any *value) {
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    for (int i = 0; i < 6; i++) {
        if (!mnem__any_says(name, words[i])) continue;
        *value = i < 4 ? mnem__any_bool(i < 2) : mnem__any_of(MNEM__ANY_NONE);
        return true;
    }
    return false;
}

static mnem__node *parse_name(mnem__parser *p, bool fields) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_NAME);
    const mnem__any name = node->value = mnem__parse_expect_name(p);
    if (read_word(name, &node->value)) {
        node->kind = MNEM__NODE_CONSTANT;
    } else if (fields && mnem__parse_at_sign(p, '.')) {
        node->kind = MNEM__NODE_FIELD;
        mnem__parse_next(p);
        node->b = mnem__parse_node(p, MNEM__NODE_CONSTANT);
        node->b->value = mnem__parse_expect_name(p);
    }
    p->varargs |= mnem__any_says(name, "varargs");
    p->kwargs |= mnem__any_says(name, "kwargs");
    p->caller |= mnem__any_says(name, "caller");
    return node;
}

static mnem__node *parse_primary(mnem__parser *p, bool fields) {
    if (p->token.kind == MNEM__LEX_NAME) return parse_name(p, fields);
    if (p->token.kind == MNEM__LEX_CONSTANT) return parse_constant(p);
    if (mnem__parse_at_sign(p, '[')) return parse_items(p, MNEM__NODE_LIST, ']');
    if (mnem__parse_at_sign(p, '{')) return parse_items(p, MNEM__NODE_DICT, '}');
    if (!mnem__parse_skip_sign(p, '(')) mnem__parse_fail(p, "expected a value");
    mnem__node *node = mnem__parse_tuple(p, true, NULL, true);
    mnem__parse_expect_sign(p, ')');
    return node;
}

static bool is_tuple_end(const mnem__parser *p, const char *end) {
    return p->token.kind == MNEM__LEX_VARIABLE_END || p->token.kind == MNEM__LEX_BLOCK_END ||
           mnem__parse_at_sign(p, ')') || (end && mnem__parse_at_name(p, end));
}

/* Several of what parse_one reads. */
static mnem__node *parse_several(mnem__parser *p, bool target, bool option, const char *end,
                                 bool parentheses) {
    mnem__node *tuple = mnem__parse_node(p, MNEM__NODE_TUPLE), **link = &tuple->a;
    bool comma = false;
    while (!is_tuple_end(p, end)) {
        mnem__parse_link(&link,
                         target ? parse_primary(p, option) : mnem__parse_expression(p, option));
        if (!mnem__parse_at_sign(p, ',')) break;
        comma = true;
        mnem__parse_next(p);
    }
    if (!comma && tuple->a) return tuple->a;
    if (!comma && !parentheses) mnem__parse_fail(p, "expected an expression");
    return tuple;
}

mnem__node *mnem__parse_tuple(mnem__parser *p, bool with_choice, const char *end,
                              bool parentheses) {
    return parse_several(p, false, with_choice, end, parentheses);
}

static void check_target(mnem__parser *p, const mnem__node *node) {
    if (node->kind == MNEM__NODE_TUPLE) {
        mnem__template_enter(p->t);
        for (const mnem__node *item = node->a; item; item = item->next) check_target(p, item);
        mnem__template_leave(p->t);
    } else if (node->kind != MNEM__NODE_NAME && node->kind != MNEM__NODE_FIELD) {
        mnem__parse_fail(p, "only a name can be set here, but another expression is given");
    }
}

mnem__node *mnem__parse_target(mnem__parser *p, bool fields, const char *end) {
    mnem__node *node = parse_several(p, true, fields, end, false);
    check_target(p, node);
    return node;
}

/* ---- behind a value ---- */

static mnem__node *parse_argument(mnem__parser *p, bool *named) {
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_ARGUMENT);
    const bool by_name = p->token.kind == MNEM__LEX_NAME && is_sign(look(p), '=');
    if (by_name) {
        node->sign = '=';
        node->value = mnem__parse_expect_name(p);
        mnem__parse_next(p);
    } else if (mnem__parse_skip_sign(p, '*')) {
        node->sign = '*';
    } else if (mnem__parse_skip_sign(p, MNEM__SIGN_POWER)) {
        node->sign = MNEM__SIGN_POWER;
    }
    if (*named && !node->sign)
        mnem__parse_fail(p, "an argument without a name follows one with a name; put it first");
    *named |= node->sign != 0;
    node->a = mnem__parse_expression(p, true);
    return node;
}

/* From '(' to ')'. */
static mnem__node *parse_arguments(mnem__parser *p) {
    mnem__node *first = NULL, **end = &first;
    bool named = false;
    mnem__parse_next(p);
    while (!mnem__parse_at_sign(p, ')')) {
        if (first) mnem__parse_expect_sign(p, ',');
        if (mnem__parse_at_sign(p, ')')) break;
        mnem__parse_link(&end, parse_argument(p, &named));
    }
    mnem__parse_next(p);
    return first;
}

static mnem__node *parse_call(mnem__parser *p, mnem__node *a) {
    mnem__node *node = join(p, MNEM__NODE_CALL, 0, a, NULL);
    node->b = parse_arguments(p);
    return node;
}

/* a or a:b:c. */
static mnem__node *parse_subscript(mnem__parser *p) {
    mnem__node *start = NULL;
    if (!mnem__parse_at_sign(p, ':')) {
        start = mnem__parse_expression(p, true);
        if (!mnem__parse_at_sign(p, ':')) return start;
    }
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_SLICE);
    node->a = start;
    mnem__node **parts[] = {&node->b, &node->c};
    for (int i = 0; i < 2 && mnem__parse_skip_sign(p, ':'); i++)
        if (!mnem__parse_at_sign(p, ':') && !mnem__parse_at_sign(p, ']'))
            *parts[i] = mnem__parse_expression(p, true);
    return node;
}

static mnem__node *parse_dot(mnem__parser *p, mnem__node *a) {
    mnem__node *node = join(p, MNEM__NODE_ATTRIBUTE, 0, a, NULL);
    node->value = p->token.value;
    if (p->token.kind == MNEM__LEX_CONSTANT && p->token.value.kind == MNEM__ANY_INT) {
        node->kind = MNEM__NODE_ITEM;
        node->b = parse_constant(p);
    } else {
        node->value = mnem__parse_expect_name(p);
    }
    return node;
}

static mnem__node *parse_postfix(mnem__parser *p, mnem__node *node) {
    for (;;) {
        if (mnem__parse_skip_sign(p, '.')) {
            node = parse_dot(p, node);
        } else if (mnem__parse_skip_sign(p, '[')) {
            node = join(p, MNEM__NODE_ITEM, 0, node, NULL);
            node->b = parse_subscript(p);
            if (mnem__parse_at_sign(p, ','))
                mnem__parse_fail(p, "only one index is supported within [ ]");
            mnem__parse_expect_sign(p, ']');
        } else if (mnem__parse_at_sign(p, '(')) {
            node = parse_call(p, node);
        } else {
            return node;
        }
    }
}

/* A filter's or a test's name, which may have dots in it (none of ours has). */
static mnem__any parse_function_name(mnem__parser *p) {
    mnem__any name = mnem__parse_expect_name(p);
    while (mnem__parse_skip_sign(p, '.')) {
        name = mnem__template_join(p->t, name, mnem__any_word("."));
        name = mnem__template_join(p->t, name, mnem__parse_expect_name(p));
    }
    return name;
}

/* An unknown name is an error only where it is used: the template may never get there. */
static void find_function(mnem__node *node) {
    char name[32];
    const bool filter = node->kind == MNEM__NODE_FILTER;
    const size_t n = node->value.length < sizeof name - 1 ? node->value.length : sizeof name - 1;
    memcpy(name, node->value.text, n);
    name[n] = 0;
    node->what = filter ? mnem__template_filter(name) : mnem__template_test(name);
}

mnem__node *mnem__parse_filters(mnem__parser *p, mnem__node *a, bool first) {
    while (first || mnem__parse_skip_sign(p, '|')) {
        mnem__node *node = mnem__parse_node(p, MNEM__NODE_FILTER);
        node->a = a;
        node->value = parse_function_name(p);
        find_function(node);
        if (mnem__parse_at_sign(p, '(')) node->b = parse_arguments(p);
        a = node;
        first = false;
    }
    return a;
}

/* A test's argument without brackets: `x is divisibleby 3`. */
static bool is_bare_argument(const mnem__parser *p) {
    if (p->token.kind == MNEM__LEX_NAME)
        return !mnem__parse_at_name(p, "else") && !mnem__parse_at_name(p, "or") &&
               !mnem__parse_at_name(p, "and");
    return p->token.kind == MNEM__LEX_CONSTANT || mnem__parse_at_sign(p, '[') ||
           mnem__parse_at_sign(p, '{');
}

static mnem__node *parse_test(mnem__parser *p, mnem__node *a) {
    const bool negated = mnem__parse_skip_name(p, "not");
    mnem__node *node = join(p, MNEM__NODE_TEST, 0, a, NULL);
    node->value = parse_function_name(p);
    find_function(node);
    if (mnem__parse_at_sign(p, '(')) {
        node->b = parse_arguments(p);
    } else if (is_bare_argument(p)) {
        if (mnem__parse_at_name(p, "is"))
            mnem__parse_fail(p,
                             "an 'is' test is followed by another 'is'; join the tests with 'and'");
        node->b = mnem__parse_node(p, MNEM__NODE_ARGUMENT);
        node->b->a = parse_postfix(p, parse_primary(p, false));
    }
    return negated ? join(p, MNEM__NODE_NOT, 0, node, NULL) : node;
}

static mnem__node *parse_unary(mnem__parser *p, bool with_filter) {
    mnem__node *node;
    mnem__template_enter(p->t);
    if (mnem__parse_at_sign(p, '-') || mnem__parse_at_sign(p, '+')) {
        node = mnem__parse_node(p, p->token.sign == '-' ? MNEM__NODE_MINUS : MNEM__NODE_PLUS);
        mnem__parse_next(p);
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    for (bool more = with_filter; more;) {
        if (mnem__parse_at_sign(p, '|'))
            node = mnem__parse_filters(p, node, false);
        else if (mnem__parse_skip_name(p, "is"))
            node = parse_test(p, node);
        else if (mnem__parse_at_sign(p, '('))
            node = parse_call(p, node);
        else
            more = false;
    }
    mnem__template_leave(p->t);
    return node;
}

/* ---- operators ---- */

/* Operators between two values, each row binding tighter than the one before; 0 ends a row. ~ is
 * among them: a ~ b ~ c is one node. */
static mnem__node *parse_binary(mnem__parser *p, int level) {
    static const int signs[][5] = {
        {'+', '-'}, {'~'}, {'*', '/', MNEM__SIGN_FLOOR, '%'}, {MNEM__SIGN_POWER}};
    if (level == 4) return parse_unary(p, true);
    mnem__node *node = parse_binary(p, level + 1);
    for (;;) {
        int sign = 0;
        for (const int *s = signs[level]; *s; s++)
            if (mnem__parse_skip_sign(p, *s)) {
                sign = *s;
                break;
            }
        if (!sign) return node;
        const mnem__node_kind kind = sign == '~' ? MNEM__NODE_CONCAT : MNEM__NODE_BINARY;
        node = join(p, kind, sign, node, parse_binary(p, level + 1));
    }
}

static int take_comparison(mnem__parser *p) {
    static const int signs[] = {
        '<', '>', MNEM__SIGN_EQUAL, MNEM__SIGN_UNEQUAL, MNEM__SIGN_AT_MOST, MNEM__SIGN_AT_LEAST};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (mnem__parse_skip_sign(p, signs[i])) return signs[i];
    if (mnem__parse_skip_name(p, "in")) return MNEM__SIGN_IN;
    if (!mnem__parse_at_name(p, "not") || !is_name(look(p), "in")) return 0;
    mnem__parse_next(p);
    mnem__parse_next(p);
    return MNEM__SIGN_NOT_IN;
}

static mnem__node *parse_compare(mnem__parser *p) {
    mnem__node *node = parse_binary(p, 0), **end = NULL;
    for (int sign; (sign = take_comparison(p)) != 0;) {
        if (!end) {
            node = join(p, MNEM__NODE_COMPARE, 0, node, NULL);
            end = &node->b;
        }
        mnem__node *operand = mnem__parse_node(p, MNEM__NODE_ARGUMENT);
        operand->sign = (uint8_t)sign;
        operand->a = parse_binary(p, 0);
        mnem__parse_link(&end, operand);
    }
    return node;
}

static mnem__node *parse_not(mnem__parser *p) {
    if (!mnem__parse_at_name(p, "not")) return parse_compare(p);
    mnem__node *node = mnem__parse_node(p, MNEM__NODE_NOT);
    mnem__template_enter(p->t);
    mnem__parse_next(p);
    node->a = parse_not(p);
    mnem__template_leave(p->t);
    return node;
}

static mnem__node *parse_and(mnem__parser *p) {
    mnem__node *node = parse_not(p);
    while (mnem__parse_skip_name(p, "and")) node = join(p, MNEM__NODE_AND, 0, node, parse_not(p));
    return node;
}

static mnem__node *parse_or(mnem__parser *p) {
    mnem__node *node = parse_and(p);
    while (mnem__parse_skip_name(p, "or")) node = join(p, MNEM__NODE_OR, 0, node, parse_and(p));
    return node;
}

mnem__node *mnem__parse_expression(mnem__parser *p, bool with_choice) {
    mnem__template_enter(p->t);
    mnem__node *node = parse_or(p);
    while (with_choice && mnem__parse_skip_name(p, "if")) {
        node = join(p, MNEM__NODE_CHOICE, 0, node, NULL);
        node->b = node->a;
        node->a = parse_or(p);
        if (mnem__parse_skip_name(p, "else")) node->c = mnem__parse_expression(p, true);
    }
    mnem__template_leave(p->t);
    return node;
}
