/* call_grammar.h: an answer that may call tools, as a grammar: text without marks of calls, then
 * calls whose arguments fit their tools' schemas, as far as these can be held to (call_keep.h). So
 * arguments always parse, and a call is always whole, unless the answer was cut.
 *
 *     root ::= text calls        auto            root ::= calls        required
 *     text: whatever doesn't have the mark that a call begins with, or what a format asks for; a
 *     thought may come before. */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_GRAMMAR_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_GRAMMAR_H

#include "mnem/grammar.h"
#include "server/api/ask/ask.h"
#include "server/api/calls/call_format.h"
#include "server/api/calls/call_keep.h"

enum { CALL_PART_NAME = 16 };

typedef struct call_grammar {
    api_memory *memory;
    api_text text; /* GBNF */
    api_text json; /* schemas, one behind another */
    mnem_grammar_part part[MNEM_GRAMMAR_PARTS_MAX];
    size_t begin[MNEM_GRAMMAR_PARTS_MAX]; /* of each in json */
    char name[MNEM_GRAMMAR_PARTS_MAX][CALL_PART_NAME];
    api_text labels;                      /* "tool \"a\": #/properties/b"; "": the answer's */
    size_t label[MNEM_GRAMMAR_PARTS_MAX]; /* of each in labels */
    const char *tool;                     /* at hand; NULL: the answer */
    uint32_t parts;
    bool full;         /* there were too many */
    call_keeper *keep; /* NULL: schemas are taken whole */
} call_grammar;

/* How much of schemas is held to. */
typedef enum call_strictness {
    CALL_WHOLE, /* all of them; where one can't be compiled the grammar can't, either */
    CALL_KEPT,  /* what can be kept; keep says what was left out */
    CALL_ANY    /* nothing: any object */
} call_strictness;

/* The grammar of what is asked for. thinks: an answer may begin with a thought; in_thought: it
 * does. keeper: what CALL_KEPT and CALL_ANY name what isn't held to with; its tool and root are set
 * here. false: no memory. */
bool call_grammar_make(const ask_request *ask, const call_format *format, bool thinks,
                       bool in_thought, call_strictness strictness, call_keeper *keeper,
                       call_grammar *grammar);
void call_grammar_fini(call_grammar *grammar);
/* Whose schema a message of the grammar's compiling is about, which begins with a part's name:
 * *rest is what follows that name. NULL: it is about none. */
const char *call_grammar_label(const call_grammar *grammar, const char *message, const char **rest);

/* ---- what its files share ---- */

/* A rule of any text without the mark, whose first byte comes once in it. */
void call_grammar_text(api_text *out, const char *name, const char *mark);
/* The bytes of a text as what stands between quotes. */
void call_grammar_literal(api_text *out, const char *text, size_t n);
/* A part with this schema (NULL: of any object), by its name; place: where it stands in its tool.
 * raw_end: as in mnem_grammar_part. false: nothing is held to there. */
bool call_grammar_schema(call_grammar *grammar, const json_t *schema, const char *place,
                         const char *raw_end, char name[CALL_PART_NAME]);
/* One call of CALL_KEYED, without the marks around it (call_grammar_keyed.c). */
void call_grammar_keyed(call_grammar *grammar, const call_format *format, const json_t *function,
                        call_strictness strictness);

#endif
