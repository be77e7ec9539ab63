/* prompt.c: from the command line, a file or standard input to tokens, and to a plan with room for
 * them.
 *
 * The tokens are known before the plan: their count and -n are the context that is wanted, the
 * prompt and one token what is needed. What a plan makes of that is the library's rule
 * (engine_plan.c); here it is only said where the text may be cut off. */
#include "verbs/run/prompt.h"

#include <string.h>
#include <unistd.h>

#include "verbs/chat/chat_verb.h"

enum { TOOL_PROMPT_TRIED = 256 }; /* what tool_rendering_try says */

/* As the command line has it: -p's or the operand. */
static const char *prompt_word(const run_options *asked) {
    return asked->prompt.count ? asked->prompt.text[0] : asked->args.operand[1];
}

/* "-p -" reads standard input, as "-f -" does. */
static const char *prompt_text(const run_options *asked) {
    const char *word = prompt_word(asked);
    return word && strcmp(word, "-") != 0 ? word : NULL;
}

const char *tool_prompt_source(const run_options *asked) {
    if (prompt_text(asked)) return "-p";
    if (prompt_word(asked)) return prompt_word(asked);
    if (asked->file) return asked->file;
    return isatty(STDIN_FILENO) ? NULL : "-";
}

/* The line's end that editors and echo put after a prompt isn't part of it. */
static void strip_newline(tool_stage *stage) {
    size_t *n = &stage->prompt.bytes;
    if (*n && stage->prompt.text[*n - 1] == '\n') --*n;
    if (*n && stage->prompt.text[*n - 1] == '\r') --*n;
}

static int read_prompt(tool_stage *stage, const run_options *asked, mnem_text *text) {
    const char *word = prompt_text(asked);
    if (word) {
        *text = (mnem_text){word, strlen(word)};
        return TOOL_OK;
    }
    const int code = tool_stage_read(stage, tool_prompt_source(asked));
    if (code != TOOL_OK) return code;
    strip_newline(stage);
    *text = (mnem_text){stage->prompt.text, stage->prompt.bytes};
    return TOOL_OK;
}

/* ---- what is asked for ---- */

static bool is_object(const char *text) {
    json_t *value = json_loads(text, 0, NULL);
    const bool is = json_is_object(value);
    json_decref(value);
    return is;
}

int tool_prompt_check(const char *verb, const run_options *asked) {
    if (asked->tokens == 0 && tool_given(&asked->args, "tokens"))
        return tool_usage(verb, "--tokens is 0; it must be at least 1, or -1 for no limit");
    if (asked->file && (asked->prompt.count || asked->prompts))
        return tool_usage(verb,
                          "--%s and --file both give a prompt; leave one out, or give several "
                          "prompts with --prompts FILE, one per line",
                          asked->prompt.count ? "prompt" : "prompts");
    if (asked->raw && (asked->template.file || asked->template.arguments))
        return tool_usage(
            verb, "--raw uses no chat template, so --%s has no effect: leave out one of the two",
            asked->template.file ? "template" : "template-args");
    if (asked->template.arguments && !is_object(asked->template.arguments))
        return tool_usage(
            verb,
            "--template-args takes a valid JSON object, such as '{\"enable_thinking\": false}'");
    if (asked->system && strlen(asked->system) >= TOOL_CHAT_BYTES)
        return tool_usage(verb, "the --system text is too long; it may have at most %d bytes",
                          TOOL_CHAT_BYTES - 1);
    for (int i = 0; i < asked->stop.count; i++)
        if (strlen(asked->stop.text[i]) > TOOL_STOP_BYTES)
            return tool_usage(verb, "the --stop text is too long; it may have at most %d bytes",
                              TOOL_STOP_BYTES);
    return TOOL_OK;
}

/* ---- as text ---- */

static int add_raw(tool_stage *stage, mnem_text text, tool_encoding *p) {
    mnem_status status =
        mnem_tokenizer_encode(stage->tokenizer, text.bytes, text.length, 0, &p->ids, &p->count);
    if (status != MNEM_OK) return tool_fail(status);
    static int32_t begin;
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    /* A file may ask for an end token after every text; a prompt goes on. */
    if (info.add_eos && p->count && p->ids[p->count - 1] == info.eos) --p->count;
    if (p->count) return TOOL_OK;
    if (info.bos < 0)
        return tool_usage("run", "the prompt is empty, and the model has no BOS token to start "
                                 "from: give a prompt of at least one character");
    begin = info.bos;
    p->ids = &begin;
    p->count = 1;
    return TOOL_OK;
}

/* ---- as a user's turn ---- */

static int add_turn(mnem_text text, const char *system, tool_encoding *p) {
    tool_conversation *c = &p->said;
    int code = tool_rendering_try(&p->rendering, c, system, &p->end);
    if (code != TOOL_OK) return code;
    /* There is room for both. */
    if (system) tool_conversation_system(c, system);
    tool_conversation_user(c, text.bytes, text.length);
    const mnem_status status = tool_rendering_encode(&p->rendering, c, &p->ids, &p->count);
    if (status != MNEM_OK) return tool_rendering_fail(&p->rendering, status);
    return p->count ? TOOL_OK
                    : tool_failed("the chat template turns the prompt into an empty text: use "
                                  "another --template, or --raw for none");
}

int tool_encoding_open(tool_stage *stage, const run_options *asked, tool_encoding *p) {
    *p = (tool_encoding){.end = -1};
    return tool_rendering_open(stage, asked, false, &p->rendering);
}

int tool_encoding_make(tool_encoding *p, mnem_text text, const char *system) {
    tool_stage *stage = p->rendering.stage;
    if (!p->rendering.template) {
        if (system)
            return tool_usage(
                "run",
                "the system text needs a chat template, but the model has none, or "
                "--raw turns it off: write the text into the prompt, or give --template FILE");
        return add_raw(stage, text, p);
    }
    const size_t room = tool_conversation_bytes(text.bytes, text.length) + 2 * TOOL_PROMPT_TRIED +
                        (system ? tool_conversation_bytes(system, strlen(system)) : 0);
    tool_conversation_close(&p->said);
    const int code = tool_conversation_open(stage->ledger, room, false, &p->said);
    return code == TOOL_OK ? add_turn(text, system, p) : code;
}

void tool_encoding_close(tool_encoding *p) {
    tool_conversation_close(&p->said);
    tool_rendering_close(&p->rendering);
}

static bool is_blank(mnem_text text) {
    for (size_t i = 0; i < text.length; i++)
        if (!strchr(" \t\r\n", text.bytes[i])) return false;
    return true;
}

/* A variable of a script that isn't set, or a file that is empty: the model makes something of it,
 * which isn't an answer to anybody. */
static void note_empty(const run_options *asked, const tool_encoding *p) {
    const char *source = tool_prompt_source(asked);
    const bool input = strcmp(source, "-") == 0, file = !input && strcmp(source, "-p") != 0;
    if (asked->args.quiet) return;
    tool_message(p->rendering.template
                     ? "note: the prompt%s%s%s is empty, so the model answers an empty message: "
                       "give a text, or leave out the prompt on a terminal for a chat"
                     : "note: the prompt%s%s%s is empty, so the model writes a text without a "
                       "beginning: give a text to continue",
                 file ? " in " : "", file ? source : "", input ? " on standard input" : "");
}

static int encode_prompt(tool_stage *stage, const run_options *asked, tool_encoding *p) {
    mnem_text text;
    int code = tool_encoding_open(stage, asked, p);
    if (code == TOOL_OK) code = read_prompt(stage, asked, &text);
    if (code == TOOL_OK && is_blank(text)) note_empty(asked, p);
    return code == TOOL_OK ? tool_encoding_make(p, text, asked->system) : code;
}

/* ---- the plan ---- */

int tool_prompt_room(const tool_stage *stage, const run_options *asked, size_t prompt,
                     int32_t *room) {
    const int32_t context = stage->asked->context;
    int32_t most = context ? context : stage->transformer.context;
    if (prompt >= (size_t)most) {
        tool_message(context ? "the prompt has %zu token%s, but --ctx sets a context of %d tokens: "
                               "use a larger --ctx, or shorten the prompt"
                             : "the prompt has %zu token%s, but this model supports a context of "
                               "at most %d tokens: shorten the prompt",
                     prompt, tool_s(prompt), most);
        return context && most < stage->transformer.context ? TOOL_USAGE : TOOL_FAILED;
    }
    int64_t wanted = (int64_t)prompt + (asked->tokens > 0 ? asked->tokens : TOOL_DEFAULT_TOKENS);
    if (asked->tokens < 0 && wanted < (context ? context : TOOL_USUAL_CONTEXT))
        wanted = context ? context : TOOL_USUAL_CONTEXT;
    *room = wanted < most ? (int32_t)wanted : most;
    return TOOL_OK;
}

/* Said also with --quiet: the text may be cut off, and nobody asked for that. */
static void say_short(const mnem_engine_plan *plan, size_t prompt, int32_t room) {
    char least[TOOL_TEXT];
    tool_message("the budget allows a context of %d tokens, but the prompt has %zu, and the answer "
                 "may have %d more: --memory %s has space for all of them",
                 plan->context, prompt, room - (int32_t)prompt,
                 tool_budget_of_other(plan->wanted_bytes, least));
}

/* A prompt of one token would be in the budget. */
static bool fits_short(const tool_stage *stage) {
    mnem_engine_options options = stage->options;
    mnem_engine_plan plan;
    options.context_wanted = options.context_needed = 2;
    return mnem_engine_plan_make(stage->model, &options, &plan) == MNEM_OK;
}

static int plan(tool_stage *stage, size_t prompt, int32_t room) {
    stage->options.context_wanted = room;
    stage->options.context_needed = (int32_t)prompt + 1;
    const int code = tool_stage_plan(stage);
    if (code == TOOL_OVER_BUDGET && !stage->asked->context && stage->plan.context_fixed &&
        fits_short(stage))
        tool_message("the prompt alone has %zu token%s, so a smaller --ctx can't help: shorten the "
                     "prompt, or use a larger --memory",
                     prompt, tool_s(prompt));
    if (code == TOOL_OK && stage->plan.wanted_bytes) say_short(&stage->plan, prompt, room);
    return code;
}

int32_t tool_prompt_sequence(const tool_stage *stage, const run_options *asked, bool answers,
                             int32_t wanted) {
    if (!answers) return wanted;
    int32_t most = stage->asked->context ? stage->asked->context : stage->transformer.context;
    if (!stage->asked->context && most > TOOL_USUAL_CONTEXT) most = TOOL_USUAL_CONTEXT;
    return asked->tokens || wanted > most ? wanted : most;
}

static int plan_prompt(tool_stage *stage, const run_options *asked, const tool_encoding *p,
                       tool_generator *g, int32_t *wanted) {
    int code = tool_prompt_room(stage, asked, p->count, wanted);
    if (code != TOOL_OK) return code;
    const bool answers = p->rendering.template != NULL;
    const int32_t room = tool_prompt_sequence(stage, asked, answers, *wanted);
    if ((code = tool_generator_open(stage, asked, room, g)) != TOOL_OK) return code;
    g->answers = answers;
    g->end = p->end;
    tool_generator_add(g, p->ids, p->count);
    return tool_constraint_open(stage, &asked->constraint, p->end, &g->constraint);
}

int tool_prompt_plan(tool_stage *stage, const run_options *asked, tool_generator *g) {
    tool_encoding p = {.end = -1};
    int32_t wanted = 0;
    int code = encode_prompt(stage, asked, &p);
    if (code == TOOL_OK) code = plan_prompt(stage, asked, &p, g, &wanted);
    const size_t count = p.count;
    tool_encoding_close(&p); /* the ids are in g */
    return code == TOOL_OK ? plan(stage, count, wanted) : code;
}
