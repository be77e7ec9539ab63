/* prompt.c: from the command line, a file or standard input to tokens, and to a plan with room for
 * them. */
#include "verbs/run/prompt.h"

#include <string.h>
#include <unistd.h>

/* What a plan has room for first, when it may choose, and at the least. A longer text says itself
 * what it needs. */
enum { MODEST_CONTEXT = 1024, LEAST_CONTEXT = 16 };

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

/* The context that a plan has when asked for this one (0: what it likes); 0: nothing fits. */
static int32_t try_context(tool_stage *stage, int32_t context) {
    stage->options.context = context;
    const mnem_status status = mnem_engine_plan_make(stage->model, &stage->options, &stage->plan);
    return status == MNEM_OK ? stage->plan.context : 0;
}

/* Sets the context to plan for: the plan's own choice where it holds the whole text, else just as
 * much as the text needs; where that doesn't fit, a smaller one does for a shorter text, down to
 * the prompt and a token. *needed: what the whole text would take; 0: it fits. */
static void choose_context(tool_stage *stage, size_t prompt, int32_t room, uint64_t *needed) {
    int32_t own = room > MODEST_CONTEXT ? 0 : try_context(stage, 0);
    *needed = 0;
    if (own >= room || try_context(stage, room)) return;
    *needed = stage->plan.needed_bytes;
    if (room > MODEST_CONTEXT) own = try_context(stage, 0);
    const bool short_prompt = prompt < LEAST_CONTEXT || prompt < (size_t)own;
    stage->options.context = short_prompt ? 0 : (int32_t)prompt + 1;
}

/* Said also with --quiet: the text may be cut off, and nobody asked for that. */
static void say_short(const tool_stage *stage, size_t prompt, int32_t room, uint64_t needed) {
    char least[TOOL_TEXT];
    tool_message("the budget has room for a context of %d tokens; the prompt is %zu, and %d more "
                 "may follow: --memory %s would hold them",
                 stage->plan.context, prompt, room - (int32_t)prompt,
                 mnem_size_budget(needed, least, sizeof least));
}

static int plan(tool_stage *stage, size_t prompt, tool_generator *g) {
    if (stage->asked->context) return tool_stage_plan(stage);
    choose_context(stage, prompt, g->room, &g->needed_bytes);
    const int code = tool_stage_plan(stage);
    if (code == TOOL_OVER_BUDGET && stage->options.context)
        tool_message("the prompt alone is %zu token%s: a smaller --ctx doesn't hold it", prompt,
                     tool_s(prompt));
    if (code == TOOL_OK && g->needed_bytes) say_short(stage, prompt, g->room, g->needed_bytes);
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
    return plan(stage, count, g);
}
