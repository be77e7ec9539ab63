/* template_node.h: the nodes of a parsed template, and the state of the parser.
 *
 * All kinds of nodes have the same struct; the comment of a kind describes its fields. Nodes of
 * a list are linked by next. */
#ifndef MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_NODE_H
#define MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_NODE_H

#include "text/template/template_lex.h"

typedef enum mnem__node_kind {
    /* expressions */
    MNEM__NODE_CONSTANT,  /* value */
    MNEM__NODE_NAME,      /* value */
    MNEM__NODE_LIST,      /* a: items */
    MNEM__NODE_TUPLE,     /* a: items; as a target: names */
    MNEM__NODE_DICT,      /* a: keys, each with its value in its b */
    MNEM__NODE_PAIR,      /* a, b */
    MNEM__NODE_NOT,       /* a */
    MNEM__NODE_MINUS,     /* a */
    MNEM__NODE_PLUS,      /* a */
    MNEM__NODE_AND,       /* a, b */
    MNEM__NODE_OR,        /* a, b */
    MNEM__NODE_COMPARE,   /* a; b: operands, each with sign and its value in its a */
    MNEM__NODE_BINARY,    /* a sign b */
    MNEM__NODE_CONCAT,    /* a ~ b */
    MNEM__NODE_CHOICE,    /* b if a else c (NULL: undefined) */
    MNEM__NODE_ATTRIBUTE, /* a.value */
    MNEM__NODE_ITEM,      /* a[b] */
    MNEM__NODE_SLICE,     /* as b of ITEM: a:b:c, each may be NULL */
    MNEM__NODE_CALL,      /* a(b: arguments) */
    MNEM__NODE_ARGUMENT,  /* a; sign '=': by the name value; '*', MNEM__SIGN_POWER: spread */
    MNEM__NODE_FILTER,    /* a (NULL: the block's text) | value(b: arguments); what */
    MNEM__NODE_TEST,      /* a is value(b: arguments); what */
    MNEM__NODE_FIELD,     /* a target: value is the namespace, b's value the attribute */
    /* statements */
    MNEM__NODE_TEXT,         /* value */
    MNEM__NODE_OUTPUT,       /* a: an expression */
    MNEM__NODE_IF,           /* if a: b else c */
    MNEM__NODE_FOR,          /* for a in b if d: c else e; sign: recursive */
    MNEM__NODE_SET,          /* a = b */
    MNEM__NODE_SET_BLOCK,    /* a = text of c through filters b (may be NULL) */
    MNEM__NODE_MACRO,        /* macro */
    MNEM__NODE_CALL_BLOCK,   /* a: the call; macro: what caller() runs */
    MNEM__NODE_FILTER_BLOCK, /* text of c through filters b */
    MNEM__NODE_WITH,         /* a: targets, each with its value in its b; c: body */
    MNEM__NODE_SCOPE,        /* c, in a scope of its own (generation) */
    MNEM__NODE_TEMPLATE, /* a: another template's name, which fails; value: include, import ... */
    MNEM__NODE_BREAK,
    MNEM__NODE_CONTINUE,
} mnem__node_kind;

/* Comparisons beyond the signs. */
enum { MNEM__SIGN_IN = 200, MNEM__SIGN_NOT_IN };

typedef struct mnem__node mnem__node;
struct mnem__node {
    uint8_t kind; /* mnem__node_kind */
    uint8_t sign;
    uint32_t line;
    mnem__any value;
    mnem__node *a, *b, *c, *next;
    union {
        struct { /* FOR */
            mnem__node *d, *e;
        };
        const struct mnem__function *what; /* FILTER, TEST; NULL: unknown name */
        struct mnem__macro_code *macro;    /* MACRO, CALL_BLOCK */
    };
};

typedef struct mnem__macro_code {
    mnem__any name;         /* MISSING: a call block */
    mnem__node *parameters; /* NAMEs, each with its default (or NULL) in a */
    uint32_t parameter_count;
    bool varargs, kwargs, caller; /* whether the body uses them */
    mnem__node *body;
} mnem__macro_code;

/* A macro with the scope of its definition, where it looks up variables. */
typedef struct mnem__any_macro {
    const mnem__macro_code *code;
    struct mnem__scope *scope;
} mnem__any_macro;

typedef struct mnem__parser {
    mnem_template *t;
    mnem__lexer lexer;
    mnem__lexeme token, ahead; /* the current one; the next one */
    bool has_ahead;
    int loops;                    /* loops around the current position */
    bool varargs, kwargs, caller; /* used since the macro began */
} mnem__parser;

/* ---- the parser's parts ---- */

_Noreturn void mnem__parse_fail(mnem__parser *p, const char *why);
void mnem__parse_next(mnem__parser *p);
bool mnem__parse_at_sign(const mnem__parser *p, int sign);
bool mnem__parse_at_name(const mnem__parser *p, const char *name);
bool mnem__parse_skip_sign(mnem__parser *p, int sign);
bool mnem__parse_skip_name(mnem__parser *p, const char *name);
void mnem__parse_expect_sign(mnem__parser *p, int sign);
/* The next token, which must be a name. */
mnem__any mnem__parse_expect_name(mnem__parser *p);
mnem__node *mnem__parse_node(mnem__parser *p, mnem__node_kind kind);
/* Appends to the list with end *end. */
void mnem__parse_link(mnem__node ***end, mnem__node *node);

mnem__node *mnem__parse_expression(mnem__parser *p, bool with_choice);
/* An expression, or a tuple of expressions separated by commas. end: a name that ends it, or NULL;
 * parentheses: it may be empty. */
mnem__node *mnem__parse_tuple(mnem__parser *p, bool with_choice, const char *end, bool parentheses);
/* A name, a field of a namespace (fields: allowed), or several. */
mnem__node *mnem__parse_target(mnem__parser *p, bool fields, const char *end);
/* Filters on node, which may be NULL; first: the first one has no | before its name. */
mnem__node *mnem__parse_filters(mnem__parser *p, mnem__node *node, bool first);
/* Parses the whole template. */
void mnem__template_parse(mnem_template *t);

#endif
