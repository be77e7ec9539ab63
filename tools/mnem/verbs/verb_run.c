/* verb_run.c: `mnem run`: one text from a prompt, or a chat.
 *
 * Standard output has the text only (with --json an object for each token, and one at the end);
 * plan, ledger and speed are messages. The order of the stage is kept by both ways: what a prompt
 * or a chat takes is charged before the plan. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/run/chat.h"
#include "verbs/run/generate.h"
#include "verbs/run/line_editor.h"
#include "verbs/run/prompt.h"

/* ---- the end ---- */

static json_t *stats_json(const tool_generator *g, tool_end end) {
    const tool_stage *stage = g->stage;
    mnem_engine_stats s;
    mnem_session_stats_get(stage->session, &s);
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:I, s:I}",
                     "end", tool_end_text(end), "seed", (json_int_t)g->seed, "prompt_tokens",
                     (json_int_t)g->prompt_tokens, "tokens", (json_int_t)g->tokens, "tokens_per_s",
                     tool_generator_rate(g), "prompt_tokens_per_s", tool_generator_prompt_rate(g),
                     "seconds_load", stage->seconds_load, "bytes_streamed",
                     (json_int_t)s.bytes_streamed, "expert_hits", (json_int_t)s.expert_hits,
                     "expert_misses", (json_int_t)s.expert_misses, "expert_guesses",
                     (json_int_t)s.expert_guesses, "seconds_waiting", s.seconds_waiting, "vmhwm",
                     (json_int_t)tool_peak_bytes(), "predicted_peak",
                     (json_int_t)stage->plan.peak_bytes);
}

/* With the context that the prompt and -n want, and what it would take where there isn't room. */
static json_t *plan_json(const tool_generator *g) {
    json_t *plan = tool_report_plan_json(&g->stage->plan, g->stage);
    json_object_set_new(plan, "context_wanted", json_integer(g->stage->options.context_wanted));
    const uint64_t bytes = g->stage->plan.wanted_bytes;
    json_object_set_new(plan, "context_needed_bytes", tool_json_count(bytes > 0, bytes));
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
static void echo_prompt(const tool_args *args, const char *prompt) {
    enum { TAIL = 400 };
    if (args->json || args->quiet) return;
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) return;
    size_t n = strlen(prompt);
    const char *tail = prompt;
    if (n > TAIL) {
        for (tail += n - TAIL; (*tail & 0xc0) == 0x80;) tail++; /* not inside a character */
        fputs("...", stderr);
    }
    fputs(tail, stderr);
    fflush(stderr);
}

static int run_text(tool_generator *g) {
    const run_options *asked = g->asked;
    int32_t limit = asked->tokens;
    if (!limit) limit = g->answers ? INT32_MAX : TOOL_DEFAULT_TOKENS;
    if (!g->answers && strcmp(tool_prompt_source(asked), "-p") == 0)
        echo_prompt(&asked->args, asked->prompt);
    tool_end end = tool_generate(g, limit);
    if ((!g->newline || end == TOOL_END_INTERRUPTED) && isatty(STDOUT_FILENO) &&
        isatty(STDERR_FILENO))
        fputc('\n', stderr);
    tool_generator_say_empty(g, end, 0);
    int code = end_code(g, end);
    report_end(g, end);
    int out = tool_out_end();
    return code != TOOL_OK ? code : out;
}

static int run_prompt(tool_stage *stage, const run_options *asked, tool_generator *g) {
    int code = tool_prompt_plan(stage, asked, g);
    if (code != TOOL_OK) return code;
    tool_report_start(stage);
    if (!stage->args->quiet && !stage->args->json) fputc('\n', stderr);
    if ((code = tool_stage_create(stage)) != TOOL_OK) return code;
    return run_text(g);
}

static bool is_object(const char *text) {
    json_t *value = json_loads(text, 0, NULL);
    const bool is = json_is_object(value);
    json_decref(value);
    return is;
}

static int check(const run_options *asked) {
    const char *model = asked->args.operand[0];
    if (model && !strstr(model, ".gguf") && access(model, F_OK) != 0)
        return tool_usage("run", "no file \"%s\"; if it is a prompt, put -p before it", model);
    if (asked->prompt && asked->file)
        return tool_usage("run", "--prompt and --file are two prompts; give one of them");
    if (asked->args.json && !tool_prompt_source(asked))
        return tool_usage("run", "--json needs a prompt: --prompt, --file or standard input");
    if (asked->raw && (asked->template.file || asked->template.arguments))
        return tool_usage("run", "--raw takes no template; leave out --%s",
                          asked->template.file ? "template" : "template-args");
    if (asked->raw && asked->system && tool_prompt_source(asked))
        return tool_usage("run", "--raw continues the prompt alone; write --system's text into it");
    if (asked->template.arguments && !is_object(asked->template.arguments))
        return tool_usage("run", "--template-args takes a JSON object, such as '{\"name\": 1}'");
    if (asked->system && strlen(asked->system) >= TOOL_CHAT_BYTES)
        return tool_usage("run", "--system takes at most %d bytes", TOOL_CHAT_BYTES - 1);
    for (int i = 0; i < asked->stop.count; i++)
        if (strlen(asked->stop.text[i]) > TOOL_STOP_BYTES)
            return tool_usage("run", "--stop takes at most %d bytes", TOOL_STOP_BYTES);
    return TOOL_OK;
}

static int verb_run(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    const run_options *o = (const run_options *)args;
    int code = check(o);
    if (code != TOOL_OK) return code;
    bool chat = !tool_prompt_source(o);
    tool_interrupt_watch(NULL);
    if (chat) tool_editor_open();
    code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK) code = chat ? tool_chat(&stage, o, &g) : run_prompt(&stage, o, &g);
    int traced = tool_stage_write_trace(&stage);
    if (code == TOOL_OK) code = traced;
    if (g.stage) tool_generator_close(&g);
    tool_stage_close(&stage);
    if (chat) tool_editor_close();
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(run_options, field)
const tool_option tool_run_options[] = {
    {"prompt", 'p', "TEXT", TOOL_VALUE_TEXT, AT(prompt),
     .help = "what to answer (a user's turn, where the model has a chat template), or continue (- "
             "is standard input)"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .help = "read the prompt from a file (- is standard input)"},
    {"system", 0, "TEXT", TOOL_VALUE_TEXT, AT(system),
     .help = "instructions before the first turn, which stay when old turns are dropped"},
    {"raw", 0, NULL, TOOL_VALUE_FLAG, AT(raw), .help = "continue text: run no chat template"},
    TOOL_GROUP(tool_template_options, AT(template)),
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    {"tokens", 'n', "N", TOOL_VALUE_COUNT, AT(tokens), .least = 1, .most = INT32_MAX,
     .help = "generate at most N tokens (default: 256; answers end by themselves)"},
    TOOL_GROUP(tool_shape_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_GROUP(tool_sampling_options, AT(sampling)),
    {"stop", 0, "TEXT", TOOL_VALUE_LIST, AT(stop), .most = TOOL_STOPS_MAX,
     .help = "stop before this text; may be given up to 8 times"},
    TOOL_GROUP(tool_lora_options, AT(session)),
    TOOL_GROUP(tool_page_cache_options, AT(session)),
    {"trace", 0, "FILE", TOOL_VALUE_TEXT, AT(session.trace),
     .path = TOOL_PATH_WRITE | TOOL_PATH_PLAIN,
     .help =
         "write what was charged when, and the steps of the run, for Perfetto or chrome://tracing"},
    {0},
};

static const tool_option options[] = {
    TOOL_GROUP(tool_run_options, 0),
    TOOL_GROUP(tool_json_options, 0),
    TOOL_GROUP(tool_quiet_options, 0),
    {0},
};

static void defaults(tool_args *args) {
    ((run_options *)args)->sampling = mnem_sampler_usual();
}

static run_options asked;
TOOL_VERB_WITH(
    run, defaults, "[MODEL]", 0, 1, "generate text, or chat, inside a memory budget",
    "Generates text from a GGUF model inside a hard memory budget. The plan is shown before\n"
    "the first weight is read and the ledger (every byte, by kind and tag) at the end. "
    "Standard\n"
    "output carries the generated text only; all else goes to standard error.\n"
    "\n"
    "The prompt comes from --prompt, --file or standard input; without any of them, on a\n"
    "terminal, a chat begins (/help there lists its commands). Where the file has a chat\n"
    "template a prompt is a user's turn, and an answer follows that ends by itself; --raw\n"
    "continues the prompt as text, up to 256 tokens without -n. Without MODEL the one that\n"
    "ships with mnem runs. Weights that don't fit the budget are streamed from disk, layer\n"
    "by layer, for every token: the same text, more slowly. Without --ctx the context holds\n"
    "the prompt and -n tokens; where the budget has no room for them, a warning says what\n"
    "would.\n"
    "\n"
    "Ctrl-C ends the text and still prints the ledger (exit code 130); a second one exits\n"
    "at once.\n",
    "mnem run -p 'In the beginning'  # the model that ships\n"
    "mnem run model.gguf --memory 512M  # chat inside 512 MiB\n"
    "mnem run model.gguf -p 'What is a ledger?' --system 'Be brief.'  # one answer\n"
    "mnem run model.gguf --raw -f essay.txt -n 100 --temp 0  # go on, likeliest tokens only\n"
    "mnem run model.gguf --lora adapter.gguf:0.5  # a model with half of what it learned\n"
    "echo 'Once upon a time' | mnem run model.gguf -q  # the text, nothing else\n");
