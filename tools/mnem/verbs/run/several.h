/* several.h: several prompts as sequences of one engine.
 *
 * Each text is the one that its prompt gives alone; prompt i (from 0) is sampled with the seed plus
 * i. As many run at once as the budget has pages for, and when one ends the next takes its place;
 * texts come in the order of the prompts. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_H

#include "verbs/run/prompt_list.h"

enum {
    TOOL_TOGETHER = 16, /* sequences at the most: more gain little on processors */
    TOOL_WAITING = 4,   /* times as many texts may wait for their turn to be printed */
};

typedef struct tool_several tool_several;

/* Reads the prompts and plans for as many at once as pays. Exit code, with the message printed. */
int tool_several_plan(tool_stage *stage, const run_options *asked, tool_several **several);
/* Loads, and runs them all. Exit code. */
int tool_several_run(tool_several *several);
/* NULL is fine. Before the stage. */
void tool_several_close(tool_several *several);

#endif
