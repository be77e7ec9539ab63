/* call_parser.h: parses a call while it is generated: its name, then its arguments as JSON, in
 * pieces.
 *
 * Any bytes are allowed: if they aren't a call in its format, the parser is in the state `bad`
 * and stays there. The name comes first, as in the grammar of calls (call_grammar.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_PARSER_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_PARSER_H

#include "server/api/calls/call_texts.h"

enum { CALL_NAME_BYTES = 64, CALL_KEY_BYTES = CALL_TEXT_KEY, CALL_DEPTH = 1000, CALL_OUT = 2048 };

typedef enum call_state {
    CALL_OPEN,    /* at the beginning of the call */
    CALL_OUTSIDE, /* before '{' */
    CALL_MEMBER,  /* before a name or '}' */
    CALL_KEY,
    CALL_COLON,
    CALL_VALUE, /* before a value */
    CALL_IN_VALUE,
    CALL_NEXT,  /* behind a value */
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
    CALL_CLOSE, /* complete; the event of the end is due */
    CALL_DONE,
    CALL_BAD
} call_state;

/* Initialize with zeros, except format and texts. */
typedef struct call_parser {
    const call_format *format;
    const call_texts *texts; /* the arguments of CALL_KEYED that are texts; NULL: all */
    call_state state;
    char key[CALL_KEY_BYTES], name[CALL_NAME_BYTES + 1];
    size_t key_bytes, name_bytes;
    int depth; /* of brackets in the value */
    bool in_string, escaped;
    bool named, is_name, is_arguments;
    bool argued;        /* CALL_KEYED: an argument was written */
    char out[CALL_OUT]; /* the bytes of an event of CALL_KEYED */
} call_parser;

typedef enum call_event_kind {
    CALL_NOTHING, /* no event yet */
    CALL_BEGINS,  /* the parser's name is known */
    CALL_ARGUMENTS,
    CALL_ENDS,
} call_event_kind;

typedef struct call_event {
    call_event_kind kind;
    const char *bytes; /* of arguments, in the caller's bytes or in the parser's */
    size_t n;
} call_event;

/* Reads up to the next event; returns the number of bytes read. Bytes that may begin a mark
 * aren't read until more follow; with too few bytes for an event, none are read. A parser that
 * is done or bad reads nothing. */
size_t call_parser_read(call_parser *parser, const char *bytes, size_t n, call_event *event);

/* ---- call_value.c: bytes of a JSON value ---- */
void call_value_begin(call_parser *parser);
/* Reads a value's bytes; *end: it is complete. Returns the number of bytes read. */
size_t call_value_read(call_parser *parser, const char *bytes, size_t n, bool *end);

/* ---- call_keyed.c: call_parser_read of CALL_KEYED ---- */
size_t call_keyed_read(call_parser *parser, const char *bytes, size_t n, call_event *event);

#endif
