/* history_plan.h: earlier runs of a model on this machine, and the prediction for the next one. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_HISTORY_PLAN_H
#define MNEM_TOOLS_MNEM_SIGHT_HISTORY_PLAN_H

#include "stage.h"

/* Prints a plan's lines "did" and "expect"; nothing if the history has no such run. */
void tool_history_tell(FILE *file, const tool_stage *stage);
/* An object with both, or null. */
json_t *tool_history_json(const tool_stage *stage);

#endif
