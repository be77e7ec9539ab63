/* constraint.h: answers that follow a grammar: --grammar and --json-schema. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_CONSTRAINT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_CONSTRAINT_H

#include "stage.h"

/* What is asked for; NULL: not given. */
typedef struct tool_constraint_asked {
    const char *grammar, *schema;
} tool_constraint_asked;
extern const tool_option tool_constraint_options[];

/* All NULL where no grammar was asked for. */
typedef struct tool_constraint {
    mnem_token_set *tokens;
    mnem_grammar *grammar;
    mnem_match *match;
    mnem_status status; /* of the last choice; the last error says why */
} tool_constraint;

/* Usage error where both are given, or standard input is wanted twice. */
int tool_constraint_check(const tool_constraint_asked *asked, const char *prompt_source);
/* Reads and compiles what is asked for. end: a token that ends answers beside the tokenizer's; -1:
 * none. Before the plan, so that its bytes are in it. Exit code, with the message printed. */
int tool_constraint_open(tool_stage *stage, const tool_constraint_asked *asked, int32_t end,
                         tool_constraint *constraint);
void tool_constraint_close(tool_constraint *constraint);

/* An answer begins. */
void tool_constraint_begin(tool_constraint *constraint);
/* The next token; -1: the answer ends, or status isn't MNEM_OK. */
int32_t tool_constraint_choose(tool_constraint *constraint, mnem_sampler *sampler,
                               const float *logits);
/* Goes on by a token that isn't an end; whether the answer is whole and nothing can follow. */
bool tool_constraint_ends(tool_constraint *constraint, int32_t id);
/* A message where an answer was cut (by what) before it was whole. */
void tool_constraint_say_cut(const tool_constraint *constraint, const char *by);

#endif
