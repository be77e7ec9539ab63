/* history_plan.h: what this machine did with a model, and what is expected of the next run. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_HISTORY_PLAN_H
#define MNEM_TOOLS_MNEM_SIGHT_HISTORY_PLAN_H

#include "stage.h"

/* Lines of a plan: "did" and "expect"; nothing where the history has no such run. */
void tool_history_tell(FILE *file, const tool_stage *stage);
/* An object with both; null. */
json_t *tool_history_json(const tool_stage *stage);

#endif
