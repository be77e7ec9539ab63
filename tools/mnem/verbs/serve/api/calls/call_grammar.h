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

enum { CALL_PART_NAME = 16 };

typedef struct call_grammar {
    api_memory *memory;
    api_text text; /* GBNF */
    api_text json; /* schemas, one behind another */
    mnem_grammar_part part[MNEM_GRAMMAR_PARTS_MAX];
    char name[MNEM_GRAMMAR_PARTS_MAX][CALL_PART_NAME];
    uint32_t parts;
} call_grammar;

/* The grammar of what is asked for. thinks: an answer may begin with a thought; in_thought: it
 * does. schemas: arguments have to fit them; otherwise any object will do. false: no memory. */
bool call_grammar_make(const ask_request *ask, const call_format *format, bool thinks,
                       bool in_thought, bool schemas, call_grammar *grammar);
void call_grammar_fini(call_grammar *grammar);

/* ---- what its files share ---- */

/* A rule of any text without the mark, whose first byte comes once in it. */
void call_grammar_text(api_text *out, const char *name, const char *mark);
/* One more schema (NULL: of any object), as a part of this name; false: there are too many. */
bool call_grammar_schema(call_grammar *grammar, const json_t *schema, char name[CALL_PART_NAME]);
/* One call of CALL_KEYED, without the marks around it (call_grammar_keyed.c). */
void call_grammar_keyed(call_grammar *grammar, const call_format *format, const json_t *function,
                        bool schemas);

#endif
