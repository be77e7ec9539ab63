/* constraint.h: answers that follow a grammar: --grammar and --json-schema. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_CONSTRAINT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_CONSTRAINT_H

#include "stage.h"

/* Options; NULL: not given. */
typedef struct tool_constraint_asked {
    const char *grammar, *schema;
} tool_constraint_asked;
extern const tool_option tool_constraint_options[];

/* All NULL: no grammar was requested. */
typedef struct tool_constraint {
    mnem_token_set *tokens;
    mnem_grammar *grammar;
    mnem_match *match;
    mnem_status status; /* of the last choice; mnem_last_error has the reason */
} tool_constraint;

/* Wrong usage if both are given, or two options read standard input. */
int tool_constraint_check(const tool_constraint_asked *asked, const char *prompt_source);
/* Reads and compiles the grammar or schema. end: a further token that ends answers, beside the
 * tokenizer's; -1: none. Call it before the plan, which includes its bytes. Returns an exit code;
 * prints the error. */
int tool_constraint_open(tool_stage *stage, const tool_constraint_asked *asked, int32_t end,
                         tool_constraint *constraint);
void tool_constraint_close(tool_constraint *constraint);

/* Begins an answer. */
void tool_constraint_begin(tool_constraint *constraint);
/* Chooses the next token; -1: the answer ends, or status isn't MNEM_OK. */
int32_t tool_constraint_choose(tool_constraint *constraint, mnem_sampler *sampler,
                               const float *logits);
/* Advances by a token that isn't an end; whether the answer is complete and nothing can follow. */
bool tool_constraint_ends(tool_constraint *constraint, int32_t id);
/* Prints a message if an answer was cut before it was complete; by: what cut it. */
void tool_constraint_say_cut(const tool_constraint *constraint, const char *by);

#endif
