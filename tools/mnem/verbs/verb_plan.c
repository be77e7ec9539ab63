/* verb_plan.c: `mnem plan`: what a run would take; reads the header only.
 *
 * With a prompt (-p, -f) it is the very plan of that run, to the byte. */
#include "verbs/layout/plan_tool.h"
#include "verbs/run/prompt.h"

/* frontier NULL: not asked for. */
static int print_plan(const tool_stage *stage, const tool_frontier *frontier) {
    if (stage->args->json) {
        json_t *plan = tool_report_plan_json(&stage->plan, stage);
        if (plan && frontier) json_object_set_new(plan, "frontier", tool_frontier_json(frontier));
        tool_out_json(plan);
    } else {
        tool_report_model(stdout, stage);
        tool_report_plan(stdout, &stage->plan, stage);
        if (frontier) tool_frontier_print(stdout, stage, frontier);
    }
    return tool_out_end();
}

static int explain_plan(const tool_stage *stage) {
    const tool_args *args = stage->args;
    tool_frontier frontier;
    int code = tool_frontier_make(stage, &frontier);
    if (code == TOOL_OK && args->svg) code = tool_frontier_draw(stage, &frontier, args->svg);
    if (code == TOOL_OK) code = print_plan(stage, &frontier);
    tool_frontier_free(&frontier);
    return code;
}

static int plan_devices(const tool_args *args) {
    static tool_stage stage;
    if (tool_given(args, "memory") || tool_given(args, "capacity"))
        return tool_usage("plan", "--devices says what each device holds; leave out --%s",
                          tool_given(args, "memory") ? "memory" : "capacity");
    if (args->explain || args->svg)
        return tool_usage("plan", "--explain and --svg are of one machine; leave out --devices");
    int code = tool_stage_open(args, &stage);
    if (code == TOOL_OK) code = tool_plan_devices(&stage);
    tool_stage_close(&stage);
    return code;
}

int verb_plan(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    if (args->devices) return plan_devices(args);
    int code = tool_stage_open(args, &stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK)
        code = args->prompt || args->file ? tool_prompt_plan(&stage, &g) : tool_stage_plan(&stage);
    if (code == TOOL_OK)
        code = args->explain || args->svg ? explain_plan(&stage) : print_plan(&stage, NULL);
    if (g.stage) tool_generator_close(&g);
    tool_stage_close(&stage);
    return code;
}
