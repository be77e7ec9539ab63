/* prompt.c: from the command line, a file or standard input to tokens, and to a plan with room for
 * them.
 *
 * The tokens are known before the plan: their count and -n are the context that is wanted, the
 * prompt and one token what is needed. What a plan makes of that is the library's rule
 * (engine_plan.c); here it is only said where the text may be cut off. */
#include "verbs/run/prompt.h"

#include <string.h>
#include <unistd.h>

const char *tool_prompt_source(const run_options *asked) {
    if (asked->prompt) return "-p";
    if (asked->file) return asked->file;
    return isatty(STDIN_FILENO) ? NULL : "-";
}

/* The line's end that editors and echo put after a prompt isn't part of it. */
static void strip_newline(tool_stage *stage) {
    size_t *n = &stage->prompt.bytes;
    if (*n && stage->prompt.text[*n - 1] == '\n') --*n;
    if (*n && stage->prompt.text[*n - 1] == '\r') --*n;
}

static int encode_prompt(tool_stage *stage, const run_options *asked, const int32_t **ids,
                         size_t *count) {
    const char *text = asked->prompt;
    size_t length = text ? strlen(text) : 0;
    if (!text) {
        int code = tool_stage_read(stage, tool_prompt_source(asked));
        if (code != TOOL_OK) return code;
        strip_newline(stage);
        text = stage->prompt.text;
        length = stage->prompt.bytes;
    }
    mnem_status status = mnem_tokenizer_encode(stage->tokenizer, text, length, 0, ids, count);
    if (status != MNEM_OK) return tool_fail(status);
    static int32_t begin;
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    /* A file may ask for an end token after every text; a prompt goes on. */
    if (info.add_eos && *count && (*ids)[*count - 1] == info.eos) --*count;
    if (*count) return TOOL_OK;
    if (info.bos < 0)
        return tool_usage("run",
                          "the prompt is empty, and this model has no begin token to start from");
    begin = info.bos;
    *ids = &begin;
    *count = 1;
    return TOOL_OK;
}

/* *room: tokens of the whole text, the prompt and what may follow. */
static int find_room(const tool_stage *stage, const run_options *asked, size_t prompt,
                     int32_t *room) {
    const int32_t context = stage->asked->context;
    int32_t most = context ? context : stage->transformer.context;
    if (prompt >= (size_t)most) {
        tool_message("the prompt is %zu token%s, the context %d%s", prompt, tool_s(prompt), most,
                     context ? " (--ctx)" : ", which is all that the model has");
        return context && most < stage->transformer.context ? TOOL_USAGE : TOOL_FAILED;
    }
    int64_t wanted = (int64_t)prompt + (asked->tokens ? asked->tokens : TOOL_DEFAULT_TOKENS);
    *room = wanted < most ? (int32_t)wanted : most;
    return TOOL_OK;
}

/* Said also with --quiet: the text may be cut off, and nobody asked for that. */
static void say_short(const mnem_engine_plan *plan, size_t prompt, int32_t room) {
    char least[TOOL_TEXT];
    tool_message("the budget has room for a context of %d tokens; the prompt is %zu, and %d more "
                 "may follow: --memory %s would hold them",
                 plan->context, prompt, room - (int32_t)prompt,
                 mnem_size_budget(plan->wanted_bytes, least, sizeof least));
}

static int plan(tool_stage *stage, size_t prompt, int32_t room) {
    stage->options.context_wanted = room;
    stage->options.context_needed = (int32_t)prompt + 1;
    const int code = tool_stage_plan(stage);
    if (code == TOOL_OVER_BUDGET && !stage->asked->context && stage->plan.context_fixed)
        tool_message("the prompt alone is %zu token%s: a smaller --ctx doesn't hold it", prompt,
                     tool_s(prompt));
    if (code == TOOL_OK && stage->plan.wanted_bytes) say_short(&stage->plan, prompt, room);
    return code;
}

int tool_prompt_plan(tool_stage *stage, const run_options *asked, tool_generator *g) {
    const int32_t *ids;
    size_t count;
    int32_t room;
    int code = encode_prompt(stage, asked, &ids, &count);
    if (code == TOOL_OK) code = find_room(stage, asked, count, &room);
    if (code == TOOL_OK) code = tool_generator_open(stage, asked, room, g);
    if (code != TOOL_OK) return code;
    tool_generator_add(g, ids, count);
    return plan(stage, count, room);
}
