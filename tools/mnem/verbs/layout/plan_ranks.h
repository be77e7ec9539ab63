/* plan_ranks.h: a plan of ranks without them. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_RANKS_H

#include "stage.h"

/* What count ranks with these budgets (a list, whose last one counts for all behind it) would hold
 * and take, with a link between them (NULL: as mnem bench measured it). An exit code. */
int tool_plan_ranks(tool_stage *stage, const char *memory, int32_t count, const char *link);

#endif
