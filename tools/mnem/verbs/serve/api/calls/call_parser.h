/* call_parser.h: a call's JSON object while it is written: its name, then its arguments as they
 * come.
 *
 * Any bytes are fine: what isn't an object with a name and arguments is bad, and stays so. The name
 * comes first, as the grammar of calls has it (call_grammar.h). */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_PARSER_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_PARSER_H

#include "verbs/serve/api/calls/call_format.h"

enum { CALL_NAME_BYTES = 64, CALL_KEY_BYTES = 16, CALL_DEPTH = 1000 };

typedef enum call_state {
    CALL_OUTSIDE, /* before '{' */
    CALL_MEMBER,  /* before a name or '}' */
    CALL_KEY,
    CALL_COLON,
    CALL_VALUE, /* before one */
    CALL_IN_VALUE,
    CALL_NEXT, /* behind one */
    CALL_DONE,
    CALL_BAD
} call_state;

/* Zero to start, but for format. */
typedef struct call_parser {
    const call_format *format;
    call_state state;
    char key[CALL_KEY_BYTES], name[CALL_NAME_BYTES + 1];
    size_t key_bytes, name_bytes;
    int depth; /* of brackets in the value */
    bool in_string, escaped;
    bool named, is_name, is_arguments;
} call_parser;

typedef enum call_event_kind {
    CALL_NOTHING, /* all bytes were read */
    CALL_BEGINS,  /* the parser's name is known */
    CALL_ARGUMENTS,
    CALL_ENDS,
} call_event_kind;

typedef struct call_event {
    call_event_kind kind;
    const char *bytes; /* of arguments, in the bytes that were given */
    size_t n;
} call_event;

/* Reads up to the next event; how many bytes that were. Behind CALL_ENDS, and where it is bad, none
 * are read any more. */
size_t call_parser_read(call_parser *parser, const char *bytes, size_t n, call_event *event);

#endif
