/* call_grammar.h: an answer that may call tools, as a grammar: text without marks of calls, then
 * calls whose arguments fit their tools' schemas, as far as these can be enforced (call_keep.h). So
 * arguments always parse, and a call is always complete, unless the answer was cut.
 *
 *     root ::= text calls        auto            root ::= calls        required
 *     text: any text without the mark that begins a call, or as the requested format demands; a
 *     thought may precede it. */
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
    api_text json; /* schemas, concatenated */
    mnem_grammar_part part[MNEM_GRAMMAR_PARTS_MAX];
    size_t begin[MNEM_GRAMMAR_PARTS_MAX]; /* of each in json */
    char name[MNEM_GRAMMAR_PARTS_MAX][CALL_PART_NAME];
    api_text labels;                      /* "tool \"a\": #/properties/b"; "": the answer's */
    size_t label[MNEM_GRAMMAR_PARTS_MAX]; /* of each in labels */
    const char *tool;                     /* the current tool; NULL: the answer */
    uint32_t parts;
    bool full;         /* there were too many parts */
    call_keeper *keep; /* NULL: schemas are enforced completely */
} call_grammar;

/* How much of the schemas is enforced. */
typedef enum call_strictness {
    CALL_WHOLE, /* all; if one can't be compiled, the grammar can't be compiled */
    CALL_KEPT,  /* what can be compiled; keep lists what was left out */
    CALL_ANY    /* nothing: any object is allowed */
} call_strictness;

/* Makes the grammar of a request. thinks: an answer may begin with a thought; in_thought: it
 * does. keeper: collects what CALL_KEPT and CALL_ANY don't enforce; its tool and root are set
 * here. false: out of memory. */
bool call_grammar_make(const ask_request *ask, const call_format *format, bool thinks,
                       bool in_thought, call_strictness strictness, call_keeper *keeper,
                       call_grammar *grammar);
void call_grammar_fini(call_grammar *grammar);
/* The label of the schema that an error of compiling the grammar is about; such a message begins
 * with a part's name, and *rest follows it. NULL: it is about no schema. */
const char *call_grammar_label(const call_grammar *grammar, const char *message, const char **rest);

/* ---- shared by its files ---- */

/* Writes a rule of any text without the mark; the mark has its first byte only once. */
void call_grammar_text(api_text *out, const char *name, const char *mark);
/* Writes the bytes of a text as they appear between quotes. */
void call_grammar_literal(api_text *out, const char *text, size_t n);
/* A part with this schema (NULL: of any object), by its name; place: where it stands in its tool.
 * raw_end: as in mnem_grammar_part. false: nothing is held to there. */
bool call_grammar_schema(call_grammar *grammar, const json_t *schema, const char *place,
                         const char *raw_end, char name[CALL_PART_NAME]);
/* One call of CALL_KEYED, without the marks around it (call_grammar_keyed.c). */
void call_grammar_keyed(call_grammar *grammar, const call_format *format, const json_t *function,
                        call_strictness strictness);

#endif
