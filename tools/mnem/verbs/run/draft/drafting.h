/* drafting.h: --draft: what may follow a text is looked up in it and verified in one pass. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_DRAFT_DRAFTING_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_DRAFT_DRAFTING_H

#include "verbs/run/generate.h"

enum { TOOL_DRAFT_TEXT = 96 };

/* Whether drafts are wanted; wrong usage if the options name others than there are, or don't go
 * with what else is given. */
bool tool_draft_asked(const run_options *asked);
int tool_draft_check(const char *verb, const run_options *asked);
/* Sets the options of the plan; refuses a model without drafts by name. Call it behind open. */
int tool_draft_plan(tool_stage *stage, const run_options *asked);

/* Creates the drafter that was planned, if it isn't there yet; says so where none was. */
mnem_status tool_draft_open(tool_generator *g);
/* Runs the last token of the sequence and a draft of up to `most` tokens behind it: the next token
 * is chosen, and those of the draft that are right are taken (round.taken, round.ended). */
mnem_status tool_draft_step(tool_generator *g, int32_t most);
/* "30 of 45 drafted tokens right, 20 passes"; "": there are no drafts. Returns text. */
const char *tool_draft_text(const tool_generator *g, char *text, size_t n);
json_t *tool_draft_json(const tool_generator *g);

#endif
