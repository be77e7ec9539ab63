/* plan_ranks.h: computes the plan of several ranks in one process. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H

#include "stage.h"

typedef struct tool_ranks_asked {
    const char *memory; /* budgets; the last one of a list is that of all further ranks */
    int32_t count;
    const char *link; /* link between ranks; NULL: as measured by mnem bench */
    bool cut_given;   /* false: the better cut is chosen */
    mnem_cut cut;
} tool_ranks_asked;

/* Prints the memory and the time that so many ranks would need. Returns an exit code. */
int tool_plan_ranks(tool_stage *stage, const tool_ranks_asked *asked);

#endif
