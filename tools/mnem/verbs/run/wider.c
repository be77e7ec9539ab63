/* wider.c: see wider.h. */
#include "verbs/run/wider.h"

/* What is charged for a text would grow with it. */
static uint64_t growth(uint64_t text_bytes, int32_t room, int32_t context) {
    return context > room ? text_bytes / (uint64_t)room * (uint64_t)(context - room) : 0;
}

tool_wider tool_wider_find(const tool_stage *stage, uint64_t text_bytes, int32_t room) {
    const int32_t most = stage->transformer.context, context = stage->plan.context;
    tool_wider wider = {0};
    mnem_engine_options options = stage->options;
    mnem_engine_plan plan;
    if (context >= most || stage->options.comm) return wider;
    wider.context = context > most / 2 ? most : 2 * context;
    options.context = wider.context;
    options.context_wanted = options.context_needed = 0;
    const mnem_status status = mnem_engine_plan_make(stage->model, &options, &plan);
    if (status == MNEM_OVER_BUDGET && plan.needed_bytes)
        wider.bytes = plan.needed_bytes + growth(text_bytes, room, wider.context);
    else if (status != MNEM_OK)
        wider.context = 0;
    return wider;
}

char *tool_wider_text(const tool_stage *stage, const tool_wider *wider, const char *before,
                      char text[TOOL_WIDER_TEXT]) {
    char size[TOOL_TEXT];
    *text = 0;
    if (stage->plan.context >= stage->transformer.context)
        snprintf(text, TOOL_WIDER_TEXT, "%sit is all that this model has", before);
    if (!wider->context) return text;
    if (!wider->bytes)
        snprintf(text, TOOL_WIDER_TEXT, "%s--ctx %d allows more", before, wider->context);
    else if (stage->budget_chosen)
        snprintf(text, TOOL_WIDER_TEXT, "%s--ctx %d would take %s, more than there is", before,
                 wider->context, tool_size(wider->bytes, size));
    else
        snprintf(text, TOOL_WIDER_TEXT, "%s--ctx %d --memory %s would hold more", before,
                 wider->context, tool_budget_of_other(wider->bytes, size));
    return text;
}
