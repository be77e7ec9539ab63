/* call_parser.h: a call while it is written: its name, then its arguments as JSON, as they come.
 *
 * Any bytes are fine: what isn't a call in its format is bad, and stays so. The name comes first,
 * as the grammar of calls has it (call_grammar.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_PARSER_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_PARSER_H

#include "server/api/calls/call_texts.h"

enum { CALL_NAME_BYTES = 64, CALL_KEY_BYTES = CALL_TEXT_KEY, CALL_DEPTH = 1000, CALL_OUT = 2048 };

typedef enum call_state {
    CALL_OPEN,    /* where the call begins */
    CALL_OUTSIDE, /* before '{' */
    CALL_MEMBER,  /* before a name or '}' */
    CALL_KEY,
    CALL_COLON,
    CALL_VALUE, /* before one */
    CALL_IN_VALUE,
    CALL_NEXT,  /* behind one */
    CALL_COMMA, /* behind an object of a list */
    CALL_NAMING,
    CALL_MARK,    /* behind the name */
    CALL_BETWEEN, /* arguments of CALL_KEYED */
    CALL_KEYING,
    CALL_VALUE_MARK,
    CALL_EITHER, /* a text, or a literal of its argument */
    CALL_TEXT,
    CALL_TEXT_END,
    CALL_VALUE_END,
    CALL_CLOSE, /* all is read; the end is to be told */
    CALL_DONE,
    CALL_BAD
} call_state;

/* Zero to start, but for format and texts. */
typedef struct call_parser {
    const call_format *format;
    const call_texts *texts; /* which arguments of CALL_KEYED are texts; NULL: all */
    call_state state;
    char key[CALL_KEY_BYTES], name[CALL_NAME_BYTES + 1];
    size_t key_bytes, name_bytes;
    int depth; /* of brackets in the value */
    bool in_string, escaped;
    bool named, is_name, is_arguments;
    bool argued;        /* of CALL_KEYED: an argument was told */
    char out[CALL_OUT]; /* what an event of CALL_KEYED says */
} call_parser;

typedef enum call_event_kind {
    CALL_NOTHING, /* nothing that is to be told yet */
    CALL_BEGINS,  /* the parser's name is known */
    CALL_ARGUMENTS,
    CALL_ENDS,
} call_event_kind;

typedef struct call_event {
    call_event_kind kind;
    const char *bytes; /* of arguments, in the bytes that were given or in the parser's */
    size_t n;
} call_event;

/* Reads up to the next event; how many bytes that were. Bytes that may be the beginning of a mark
 * are left until more is there: so is all, with no event, where it needs more. Where it is done or
 * bad none are read any more. */
size_t call_parser_read(call_parser *parser, const char *bytes, size_t n, call_event *event);

/* ---- call_value.c: bytes of a JSON value ---- */
void call_value_begin(call_parser *parser);
/* Reads a value's bytes; *end: it is whole. How many were read. */
size_t call_value_read(call_parser *parser, const char *bytes, size_t n, bool *end);

/* ---- call_keyed.c: call_parser_read of CALL_KEYED ---- */
size_t call_keyed_read(call_parser *parser, const char *bytes, size_t n, call_event *event);

#endif
