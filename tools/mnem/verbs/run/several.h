/* several.h: runs several prompts as sequences of one engine.
 *
 * Each text is the same as in a run of its prompt alone; prompt i (from 0) is sampled with the
 * seed plus i. As many run at once as the budget has pages for; when one ends, the next one
 * starts. Texts are printed in the order of the prompts. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SEVERAL_H

#include "verbs/run/prompt_list.h"

enum {
    TOOL_TOGETHER = 16, /* largest number of sequences: more gain little on CPUs */
    TOOL_WAITING = 4,   /* texts that may wait for printing, as a multiple of the sequences */
};

typedef struct tool_several tool_several;

/* Reads the prompts, and plans for the fastest number at once. Returns an exit code; prints the
 * error. */
int tool_several_plan(tool_stage *stage, const run_options *asked, tool_several **several);
/* Loads, and runs all prompts. Returns an exit code. */
int tool_several_run(tool_several *several);
/* Call it before the stage is closed; NULL is allowed. */
void tool_several_close(tool_several *several);

#endif
