/* prompt.c: from the command line, a file or standard input to tokens, and to a plan with room for
 * them. */
#include "verbs/run/prompt.h"

#include <string.h>
#include <unistd.h>

/* What a plan has room for first, when it may choose, and at the least. */
enum { MODEST_CONTEXT = 1024, LEAST_CONTEXT = 16 };

const char *tool_prompt_source(const tool_args *args) {
    if (args->prompt) return "-p";
    if (args->file) return args->file;
    return isatty(STDIN_FILENO) ? NULL : "-";
}

/* The line's end that editors and echo put after a prompt isn't part of it. */
static void strip_newline(tool_stage *stage) {
    size_t *n = &stage->prompt.bytes;
    if (*n && stage->prompt.text[*n - 1] == '\n') --*n;
    if (*n && stage->prompt.text[*n - 1] == '\r') --*n;
}

static int encode_prompt(tool_stage *stage, const int32_t **ids, size_t *count) {
    const tool_args *args = stage->args;
    const char *text = args->prompt;
    size_t length = text ? strlen(text) : 0;
    if (!text) {
        int code = tool_stage_read(stage, tool_prompt_source(args));
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

/* The context to ask for where it isn't given: 0, which leaves it to the plan, unless the text
 * needs more than the plan would choose by itself on a small budget. *room: tokens of the sequence.
 */
static int choose_context(tool_stage *stage, size_t prompt, int32_t *room) {
    const tool_args *args = stage->args;
    int32_t most = args->context ? args->context : stage->transformer.context;
    if (prompt >= (size_t)most) {
        tool_message("the prompt is %zu token%s, the context %d%s", prompt, tool_s(prompt), most,
                     args->context ? " (--ctx)" : ", which is all that the model has");
        return args->context && most < stage->transformer.context ? TOOL_USAGE : TOOL_FAILED;
    }
    int64_t wanted = (int64_t)prompt + (args->tokens ? args->tokens : TOOL_DEFAULT_TOKENS);
    *room = wanted < most ? (int32_t)wanted : most;
    if (!args->context && *room > MODEST_CONTEXT) stage->options.context = *room;
    return TOOL_OK;
}

static bool would_fit(tool_stage *stage) {
    return mnem_session_plan_make(stage->model, &stage->options, &stage->plan) == MNEM_OK;
}

/* Plans; where the context that the whole text needs doesn't fit, a smaller one does for a shorter
 * text, down to the prompt and a token. */
static int plan(tool_stage *stage, size_t prompt) {
    if (stage->args->context) return tool_stage_plan(stage);
    if (stage->options.context && !would_fit(stage)) stage->options.context = 0;
    if (!stage->options.context && prompt >= LEAST_CONTEXT &&
        (!would_fit(stage) || prompt >= (size_t)stage->plan.context))
        stage->options.context = (int32_t)prompt + 1;
    const int code = tool_stage_plan(stage);
    if (code == TOOL_OVER_BUDGET && stage->options.context)
        tool_message("the prompt alone is %zu token%s: a smaller --ctx doesn't hold it", prompt,
                     tool_s(prompt));
    return code;
}

int tool_prompt_plan(tool_stage *stage, tool_generator *g) {
    const int32_t *ids;
    size_t count;
    int32_t room;
    int code = encode_prompt(stage, &ids, &count);
    if (code == TOOL_OK) code = choose_context(stage, count, &room);
    if (code == TOOL_OK) code = tool_generator_open(stage, room, g);
    if (code != TOOL_OK) return code;
    tool_generator_add(g, ids, count);
    return plan(stage, count);
}
