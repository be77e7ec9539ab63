/* plan_tool.h: the parts of `mnem plan` beside the plan itself. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_TOOL_H

#include "verbs/run/generate.h"

typedef struct plan_options {
    run_options run; /* all options of `mnem run`, so that its command line can be planned */
    const char *devices, *svg;
    bool explain;
    int32_t sequences; /* 0: one */
    int32_t ranks;     /* 0: a single process */
} plan_options;

/* --devices: divides the layers over imaginary devices of these sizes. Returns an exit code. */
int tool_plan_devices(tool_stage *stage, const char *sizes);

/* --explain and --svg: the fastest way of each budget, with the model, the plan and its context. */
typedef struct tool_frontier {
    mnem_engine_way *ways;
    int count, room;
    bool failed;
} tool_frontier;
/* Returns an exit code; call tool_frontier_free in any case. */
int tool_frontier_make(const tool_stage *stage, tool_frontier *frontier);
void tool_frontier_free(tool_frontier *frontier);
void tool_frontier_print(FILE *file, const tool_stage *stage, const tool_frontier *frontier);
json_t *tool_frontier_json(const tool_frontier *frontier);
int tool_frontier_draw(const tool_stage *stage, const tool_frontier *frontier, const char *path);

#endif
