/* call_grammar.h: an answer that may call tools, as a grammar: text without marks of calls, then
 * calls whose arguments fit their tools' schemas. So arguments always parse, and a call is always
 * whole, unless the answer was cut.
 *
 *     root ::= text calls        auto            root ::= calls        required
 *     text: whatever doesn't have the mark that a call begins with, or what a format asks for; a
 *     thought may come before. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_GRAMMAR_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_GRAMMAR_H

#include "mnem/grammar.h"
#include "verbs/serve/api/ask/ask.h"
#include "verbs/serve/api/calls/call_format.h"

typedef struct call_grammar {
    api_memory *memory;
    api_text text; /* GBNF */
    api_text json; /* schemas, one behind another */
    mnem_grammar_part part[ASK_TOOLS + 1];
    char name[ASK_TOOLS + 1][16];
    uint32_t parts;
} call_grammar;

/* The grammar of what is asked for. thinks: an answer may begin with a thought; in_thought: it
 * does. schemas: arguments have to fit them; otherwise any object will do. false: no memory. */
bool call_grammar_make(const ask_request *ask, const call_format *format, bool thinks,
                       bool in_thought, bool schemas, call_grammar *grammar);
void call_grammar_fini(call_grammar *grammar);

#endif
