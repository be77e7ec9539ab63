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

/* The refusal is data too. */
static void print_refusal(const tool_stage *stage) {
    mnem_ledger_info info;
    mnem_ledger_info_get(stage->ledger, &info);
    tool_out_json(json_pack("{s:b, s:I, s:I, s:o?}", "refused", true, "needed_bytes",
                            (json_int_t)stage->plan.needed_bytes, "budget_bytes",
                            (json_int_t)info.budget_bytes, "error",
                            json_string(mnem_last_error())));
}

int verb_plan(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    int code = tool_stage_open(args, &stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK)
        code = args->prompt || args->file ? tool_prompt_plan(&stage, &g) : tool_stage_plan(&stage);
    if (code == TOOL_OK)
        code = print_plan(&stage);
    else if (code == TOOL_OVER_BUDGET && args->json)
        print_refusal(&stage);
    if (g.stage) tool_generator_close(&g);
    tool_stage_close(&stage);
    return code;
}
