/* verb_plan.c: `mnem plan`: what a run would take; reads the header only.
 *
 * With a prompt (-p, -f) it is the very plan of that run, to the byte. */
#include "prompt.h"

static int print_plan(const tool_stage *stage) {
    if (stage->args->json)
        tool_out_json(tool_report_plan_json(&stage->plan, stage));
    else {
        tool_report_model(stdout, stage);
        tool_report_plan(stdout, &stage->plan, stage);
    }
    return tool_out_end();
}

int verb_plan(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    int code = tool_stage_open(args, &stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK)
        code = args->prompt || args->file ? tool_prompt_plan(&stage, &g) : tool_stage_plan(&stage);
    if (code == TOOL_OK) code = print_plan(&stage);
    if (g.stage) tool_generator_close(&g);
    tool_stage_close(&stage);
    return code;
}
