/* verb_run.c: `mnem run`: one text from a prompt, or a chat. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/run/chat.h"
#include "verbs/run/generate.h"
#include "verbs/run/prompt.h"

/* ---- the end ---- */

static json_t *stats_json(const tool_generator *g, tool_end end) {
    const tool_stage *stage = g->stage;
    mnem_process_usage usage = {0};
    mnem_process_usage_get(&usage);
    mnem_engine_stats s;
    mnem_session_stats_get(stage->session, &s);
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:I, s:I}", "end", tool_end_text(end),
        "seed", (json_int_t)g->seed, "prompt_tokens", (json_int_t)g->prompt_tokens, "tokens",
        (json_int_t)g->tokens, "tokens_per_s", tool_generator_rate(g), "prompt_tokens_per_s",
        tool_generator_prompt_rate(g), "seconds_load", stage->seconds_load, "bytes_streamed",
        (json_int_t)s.bytes_streamed, "seconds_waiting", s.seconds_waiting, "vmhwm",
        (json_int_t)usage.bytes_peak, "predicted_peak", (json_int_t)stage->plan.peak_bytes);
}

/* With the context that the prompt and -n want, and what it would take where there isn't room. */
static json_t *plan_json(const tool_generator *g) {
    json_t *plan = tool_report_plan_json(&g->stage->plan, g->stage);
    json_object_set_new(plan, "context_wanted", json_integer(g->room));
    json_object_set_new(plan, "context_needed_bytes",
                        g->needed_bytes ? json_integer((json_int_t)g->needed_bytes) : json_null());
    return plan;
}

static void report_end(const tool_generator *g, tool_end end) {
    const tool_args *args = g->stage->args;
    if (args->json) {
        tool_out_json(json_pack("{s:o, s:o, s:o}", "plan", plan_json(g), "ledger",
                                tool_report_ledger_json(g->stage), "stats", stats_json(g, end)));
        return;
    }
    if (args->quiet) return;
    fputc('\n', stderr);
    tool_report_ledger(stderr, g->stage);
    tool_generator_report(stderr, g);
}

static int end_code(const tool_generator *g, tool_end end) {
    switch (end) {
    case TOOL_END_INTERRUPTED: return TOOL_INTERRUPTED;
    case TOOL_END_FAILED: return tool_fail(g->status);
    case TOOL_END_CLOSED: return tool_out_end();
    case TOOL_END_CONTEXT:
        if (!g->stage->args->quiet)
            tool_message("stopped: the context of %d tokens is full%s", g->stage->plan.context,
                         g->stage->plan.context < g->stage->transformer.context
                             ? "; --ctx makes it larger"
                             : "");
        return TOOL_OK;
    default: return TOOL_OK;
    }
}

/* On a terminal the text follows its prompt, which is a message, not output. */
static void echo_prompt(const tool_args *args) {
    enum { TAIL = 400 };
    if (args->json || args->quiet || !args->prompt) return;
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) return;
    size_t n = strlen(args->prompt);
    const char *tail = args->prompt;
    if (n > TAIL) {
        for (tail += n - TAIL; (*tail & 0xc0) == 0x80;) tail++; /* not inside a character */
        fputs("...", stderr);
    }
    fputs(tail, stderr);
    fflush(stderr);
}

static int run_text(tool_generator *g) {
    const tool_args *args = g->stage->args;
    echo_prompt(args);
    tool_end end = tool_generate(g, args->tokens ? args->tokens : TOOL_DEFAULT_TOKENS);
    if ((!g->newline || end == TOOL_END_INTERRUPTED) && isatty(STDOUT_FILENO) &&
        isatty(STDERR_FILENO))
        fputc('\n', stderr);
    int code = end_code(g, end);
    report_end(g, end);
    int out = tool_out_end();
    return code != TOOL_OK ? code : out;
}

static int run_prompt(tool_stage *stage, tool_generator *g) {
    int code = tool_prompt_plan(stage, g);
    if (code != TOOL_OK) return code;
    if (!stage->args->quiet && !stage->args->json) {
        tool_report_model(stderr, stage);
        tool_report_plan(stderr, &stage->plan, stage);
        fputc('\n', stderr);
    }
    if ((code = tool_stage_create(stage)) != TOOL_OK) return code;
    return run_text(g);
}

static int check(const tool_args *args) {
    const char *model = args->operand[0];
    if (model && !strstr(model, ".gguf") && access(model, F_OK) != 0)
        return tool_usage("run", "no file \"%s\"; if it is a prompt, put -p before it", model);
    if (args->prompt && args->file)
        return tool_usage("run", "--prompt and --file are two prompts; give one of them");
    if (args->json && !tool_prompt_source(args))
        return tool_usage("run", "--json needs a prompt: --prompt, --file or standard input");
    if (args->system && tool_prompt_source(args))
        return tool_usage("run", "--system is of a chat; with a prompt, write it into the prompt");
    if (args->system && strlen(args->system) >= TOOL_CHAT_BYTES)
        return tool_usage("run", "--system takes at most %d bytes", TOOL_CHAT_BYTES - 1);
    for (int i = 0; i < args->stops; i++)
        if (strlen(args->stop[i]) > TOOL_STOP_BYTES)
            return tool_usage("run", "--stop takes at most %d bytes", TOOL_STOP_BYTES);
    return TOOL_OK;
}

int verb_run(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    int code = check(args);
    if (code != TOOL_OK) return code;
    bool chat = !tool_prompt_source(args);
    tool_interrupt_watch(NULL);
    if (chat) tool_chat_prepare();
    code = tool_stage_open(args, &stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK) code = chat ? tool_chat(&stage, &g) : run_prompt(&stage, &g);
    int traced = tool_stage_write_trace(&stage);
    if (code == TOOL_OK) code = traced;
    if (g.stage) tool_generator_close(&g);
    tool_stage_close(&stage);
    if (chat) tool_chat_finish();
    return code;
}
