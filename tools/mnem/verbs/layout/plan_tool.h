/* plan_tool.h: the parts of `mnem plan` beside the plan itself. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_PLAN_TOOL_H

#include "verbs/run/generate.h"

typedef struct plan_options {
    run_options run; /* so that the command line of a run can be planned */
    const char *devices, *svg;
    bool explain;
    int32_t sequences; /* 0: one */
    int32_t ranks;     /* 0: this process alone */
} plan_options;

/* --devices: the layers over devices that are numbers. An exit code. */
int tool_plan_devices(tool_stage *stage, const char *sizes);

/* --explain and --svg: what every budget would buy, with the model, the plan and its context. */
typedef struct tool_frontier {
    mnem_engine_way *ways;
    int count, room;
    bool failed;
} tool_frontier;
/* An exit code; frees with tool_frontier_free in any case. */
int tool_frontier_make(const tool_stage *stage, tool_frontier *frontier);
void tool_frontier_free(tool_frontier *frontier);
void tool_frontier_print(FILE *file, const tool_stage *stage, const tool_frontier *frontier);
json_t *tool_frontier_json(const tool_frontier *frontier);
int tool_frontier_draw(const tool_stage *stage, const tool_frontier *frontier, const char *path);

#endif
