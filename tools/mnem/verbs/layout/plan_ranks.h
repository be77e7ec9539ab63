/* plan_ranks.h: a plan of ranks without them. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H

#include "stage.h"

typedef struct tool_ranks_asked {
    const char *memory; /* budgets; the last one of a list counts for all behind it */
    int32_t count;
    const char *link; /* between them; NULL: as mnem bench measured it */
    bool cut_given;   /* else the better cut is chosen */
    mnem_cut cut;
} tool_ranks_asked;

/* What so many ranks would hold and take. An exit code. */
int tool_plan_ranks(tool_stage *stage, const tool_ranks_asked *asked);

#endif
