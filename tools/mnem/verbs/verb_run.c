/* verb_run.c: `mnem run`: one text from a prompt, or a chat.
 *
 * Standard output has the text only (with --json an object for each token, and one at the end);
 * plan, ledger and speed are messages. The order of the stage is kept by both ways: what a prompt
 * or a chat takes is charged before the plan. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "verbs/chat/chat_verb.h"
#include "verbs/chat/line_editor.h"
#include "verbs/run/draft/drafting.h"
#include "verbs/run/generate.h"
#include "verbs/run/prompt.h"
#include "verbs/run/several.h"
#include "verbs/run/slowness.h"
#include "verbs/run/terminal_text.h"
#include "verbs/run/wider.h"

/* ---- the end ---- */

static json_t *stats_json(const tool_generator *g, tool_end end, const char *slow) {
    const tool_stage *stage = g->stage;
    mnem_engine_stats s;
    mnem_session_stats_get(stage->session, &s);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:I, "
                     "s:I, s:o, s:o, s:o}",
                     "end", tool_end_text(end), "seed", (json_int_t)g->sampling.seed,
                     "prompt_tokens", (json_int_t)g->prompt_tokens, "prompt_cached",
                     (json_int_t)g->cache.tokens, "tokens", (json_int_t)g->tokens, "tokens_per_s",
                     tool_generator_rate(g), "prompt_tokens_per_s", tool_generator_prompt_rate(g),
                     "seconds_load", stage->seconds_load, "bytes_streamed",
                     (json_int_t)s.bytes_streamed, "expert_hits", (json_int_t)s.expert_hits,
                     "expert_misses", (json_int_t)s.expert_misses, "expert_guesses",
                     (json_int_t)s.expert_guesses, "expert_guessed", (json_int_t)s.expert_guessed,
                     "seconds_waiting", s.seconds_waiting, "vmhwm", (json_int_t)tool_peak_bytes(),
                     "predicted_peak", (json_int_t)stage->plan.peak_bytes, "predicted_tokens_per_s",
                     tool_json_known(stage->plan.predicted_generate), "slow",
                     *slow ? json_string(slow) : json_null(), "draft", tool_draft_json(g));
}

/* With the context that the prompt and -n want, and what it would take where there isn't room. */
static json_t *plan_json(const tool_generator *g) {
    json_t *plan = tool_report_plan_json(&g->stage->plan, g->stage);
    json_object_set_new(plan, "context_wanted", json_integer(g->stage->options.context_wanted));
    const uint64_t bytes = g->stage->plan.wanted_bytes;
    json_object_set_new(plan, "context_needed_bytes", tool_json_count(bytes > 0, bytes));
    return plan;
}

/* The last line: plan, ledger and stats, and the whole text, which is made again from its tokens
 * and written as it is made: it waits nowhere in memory. first: where it begins among them. */
static void print_end(tool_generator *g, tool_end end, const char *slow, int32_t first) {
    json_t *object = json_pack("{s:o, s:o, s:o, s:s}", "plan", plan_json(g), "ledger",
                               tool_ledger_json(g->stage->ledger), "stats",
                               stats_json(g, end, slow), "type", "end");
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    const bool beside = end == TOOL_END_STOP || end == TOOL_END_CONTEXT || end == TOOL_END_GRAMMAR;
    json_decref(object);
    if (!line) {
        tool_out_json("end", NULL);
        return;
    }
    tool_out(line, strlen(line) - 1);
    free(line);
    tool_outf(",\"text\":\"");
    g->mute = true;
    g->on_text = tool_out_escaped;
    tool_generator_say(g, first, beside ? g->next : -1);
    tool_generator_flush(g, end);
    tool_outf("\"}\n");
    tool_out_flush();
}

static void report_end(tool_generator *g, tool_end end, const tool_pace *pace, int32_t first) {
    const tool_args *args = g->stage->args;
    char slow[400];
    tool_slowness(g, pace, slow, sizeof slow);
    if (args->json) {
        print_end(g, end, slow, first);
        return;
    }
    tool_generator_end(stderr, g);
    if (*slow && !args->quiet) tool_message("%s", slow);
}

static int end_code(const tool_generator *g, tool_end end) {
    switch (end) {
    case TOOL_END_INTERRUPTED: return TOOL_INTERRUPTED;
    case TOOL_END_FAILED: return tool_fail(g->status);
    case TOOL_END_CLOSED: return tool_out_end();
    default: return TOOL_OK;
    }
}

/* The last thing: what would hold more is planned in the place of the session. */
static void say_full(tool_stage *stage) {
    char help[TOOL_WIDER_TEXT];
    if (stage->options.comm) {
        tool_message("the text stopped, because the context of %d tokens is full; a larger --ctx "
                     "holds more",
                     stage->plan.context);
        return;
    }
    tool_interrupt_watch(NULL);
    mnem_session_destroy(stage->session);
    stage->session = NULL;
    const tool_wider wider = tool_wider_find(stage, 0, 1);
    tool_message("the text stopped, because the context of %d tokens is full%s",
                 stage->plan.context, tool_wider_text(stage, &wider, "; ", help));
}

/* Messages go where the text goes: to a terminal, or to the pipe or file of 2>&1. */
static bool is_one_place(void) {
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* Where the cursor is behind a text from this column on; wide characters count as one column. */
static int column_behind(int column, const char *text) {
    const int columns = tool_columns(stdout);
    for (; *text; text++) column = *text == '\n' ? 0 : column + ((*text & 0xc0) != 0x80);
    return columns > 0 ? column % columns : 0;
}

/* On a terminal the text follows its prompt, which is a message, not output. Returns the column
 * where it begins. */
static int echo_prompt(const tool_args *args, const char *prompt) {
    enum { TAIL = 400 };
    if (args->json || args->quiet) return 0;
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) return 0;
    size_t n = strlen(prompt);
    const char *tail = prompt;
    if (n > TAIL) {
        for (tail += n - TAIL; (*tail & 0xc0) == 0x80;) tail++; /* not inside a character */
        fputs("...", stderr);
    }
    fputs(tail, stderr);
    fflush(stderr);
    return column_behind(tail > prompt ? 3 : 0, tail);
}

/* Is there text in the pipe or the file that standard input is? */
static bool input_has_text(void) {
    struct stat about;
    int bytes = 0;
    if (fstat(STDIN_FILENO, &about) != 0) return false;
    if (S_ISREG(about.st_mode)) return lseek(STDIN_FILENO, 0, SEEK_CUR) < about.st_size;
    return S_ISFIFO(about.st_mode) && ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* A text beside a prompt: other tools put the two together. Looked at behind the answer, when who
 * writes to a pipe has had time to. */
static void note_unread(const run_options *asked) {
    if (asked->args.quiet || asked->args.json) return;
    if (strcmp(tool_prompt_source(asked), "-p") != 0 || !input_has_text()) return;
    tool_message("note: the text on standard input was not read, because a prompt is given: to use "
                 "both, write (echo 'PROMPT'; cat FILE) | mnem run MODEL");
}

static int run_text(tool_generator *g) {
    const run_options *asked = g->asked;
    int32_t limit = asked->tokens < 0 ? INT32_MAX : asked->tokens;
    if (!limit) limit = g->answers ? INT32_MAX : TOOL_DEFAULT_TOKENS;
    int column = 0;
    if (!g->answers && strcmp(tool_prompt_source(asked), "-p") == 0)
        column = echo_prompt(&asked->args,
                             asked->prompt.count ? asked->prompt.text[0] : asked->args.operand[1]);
    tool_out_shown_begin(asked->plain, column);
    const int32_t first = g->count;
    tool_pace pace;
    tool_pace_begin(&pace);
    tool_end end = tool_generate(g, limit);
    if ((!g->newline || end == TOOL_END_INTERRUPTED) && !asked->args.json && is_one_place())
        fputc('\n', stderr);
    tool_generator_say_empty(g, end, 0);
    int code = end_code(g, end);
    report_end(g, end, &pace, first);
    if (code == TOOL_OK) note_unread(asked);
    if (end != TOOL_END_FAILED) tool_generator_keep(g);
    if (end == TOOL_END_CONTEXT && !asked->args.quiet) say_full(g->stage);
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

static int run_several(tool_stage *stage, const run_options *asked) {
    tool_several *several = NULL;
    int code = tool_several_plan(stage, asked, &several);
    if (code == TOOL_OK) tool_report_start(stage);
    if (code == TOOL_OK && !stage->args->quiet && !stage->args->json) fputc('\n', stderr);
    if (code == TOOL_OK) code = tool_several_run(several);
    tool_several_close(several);
    return code;
}

static int check(const run_options *asked) {
    const char *also = asked->args.operand[1];
    if (also && !asked->args.model && strstr(also, ".gguf"))
        return tool_usage("run",
                          "\"%s\" stands where the prompt is expected, but mnem run takes one "
                          "model: leave one out",
                          also);
    if (also && (asked->prompt.count || asked->prompts || asked->file))
        return tool_usage(
            "run",
            "--%s and \"%s\" both give a prompt; give several prompts with -p, once for each",
            asked->prompt.count ? "prompt"
            : asked->file       ? "file"
                                : "prompts",
            also);
    if (asked->args.json && !tool_prompts_asked(asked) && !tool_prompt_source(asked))
        return tool_usage("run", "--json needs a prompt: --prompt, --file or standard input");
    if (asked->raw && asked->system && (asked->prompts || tool_prompt_source(asked)))
        return tool_usage("run", "--raw uses no chat template, so it can't be combined with "
                                 "--system: put the text of --system into the prompt");
    if (asked->prompt_cache && tool_prompts_asked(asked))
        return tool_usage("run", "--prompt-cache works with one prompt, but several are given: "
                                 "leave it out, or give one prompt");
    if (asked->prompt_cache_ro && !asked->prompt_cache)
        return tool_usage("run", "--prompt-cache-ro needs --prompt-cache FILE, which it reads");
    if (asked->ignore_end && !tool_prompts_asked(asked) && !tool_prompt_source(asked))
        return tool_usage("run", "--ignore-eos needs a prompt (-p or --file); a chat needs the end "
                                 "token, which ends a turn");
    const uint32_t kept = MNEM_FEATURE_SAVED | MNEM_FEATURE_RANKS_LAYERS;
    if (asked->prompt_cache && tool_ranks() && mnem_transformer_supports(NULL, kept) != MNEM_OK)
        return tool_usage("run", "--prompt-cache can't be used: %s", mnem_last_error());
    int code = tool_prompt_check("run", asked);
    if (code == TOOL_OK) code = tool_draft_check("run", asked);
    if (code == TOOL_OK) code = tool_biases_read("run", asked);
    if (code != TOOL_OK) return code;
    return tool_constraint_check(&asked->constraint, tool_prompt_source(asked));
}

static int verb_run(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    const run_options *o = (const run_options *)args;
    int code = check(o);
    if (code != TOOL_OK) return code;
    const bool several = tool_prompts_asked(o), chat = !several && !tool_prompt_source(o);
    tool_interrupt_watch(NULL);
    const tool_editor_options editor = tool_chat_editor(o);
    if (chat && !tool_ranks_follows()) tool_editor_open(&editor);
    code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK && tool_ranks_follows()) return tool_stage_follow(&stage);
    if (o->prompt_cache) stage.options.snapshots = MNEM_SNAPSHOTS_FILL;
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK) code = tool_draft_plan(&stage, o);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK) code = tool_stage_breakers(&stage, &o->breakers);
    if (code == TOOL_OK)
        code = several ? run_several(&stage, o)
               : chat  ? tool_chat(&stage, o, &g)
                       : run_prompt(&stage, o, &g);
    if (g.stage) tool_generator_close(&g);
    code = tool_stage_end_trace(&stage, code);
    tool_stage_close(&stage);
    if (chat) tool_editor_close();
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(run_options, field)
const tool_option tool_run_options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"prompt", 'p', "TEXT", TOOL_VALUE_LIST, AT(prompt), .most = TOOL_SPACES_MAX, .empty = true,
     .help = "prompt to answer (a user's turn, if the model has a chat template) or to continue (- "
             "is standard input); several prompts run together, each with the seed of the previous "
             "one plus 1"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(file), .path = TOOL_PATH_READ,
     .help = "read the prompt from a file (- is standard input)"},
    {"prompts", 0, "FILE", TOOL_VALUE_TEXT, AT(prompts), .path = TOOL_PATH_READ,
     .help = "file of prompts: one per line, or JSON lines: \"text\" or {\"prompt\": \"text\", "
             "\"system\": \"text\"} (- is standard input)"},
    {"system", 0, "TEXT", TOOL_VALUE_TEXT, AT(system), .also = "system-prompt sys",
     .help = "system prompt before the first turn; kept when old turns are dropped"},
    {"raw", 0, NULL, TOOL_VALUE_FLAG, AT(raw), .also = "no-cnv no-conversation",
     .help = "continue the prompt as text, without the chat template"},
    TOOL_GROUP(tool_template_options, AT(template)),
    TOOL_GROUP(tool_memory_options, AT(session.memory)),
    {"tokens", 'n', "N", TOOL_VALUE_COUNT, AT(tokens), .least = -1, .most = INT32_MAX,
     .also = "n-predict predict num-predict max-tokens max-new-tokens",
     .help = "generate at most N tokens; -1: until the text ends or the context is full (default: "
             "answers: until they end or the context is full; continued text: 256)"},
    TOOL_GROUP(tool_shape_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    TOOL_GROUP(tool_sampling_options, AT(sampling)),
    TOOL_GROUP(tool_breaker_options, AT(breakers)),
    {"logit-bias", 0, "ID+BIAS", TOOL_VALUE_LIST, AT(biases), .most = TOOL_SPACES_MAX,
     .help = "add BIAS to the logit of token ID, or subtract it (ID-BIAS); may be repeated (mnem "
             "tokenize shows ids)"},
    {"ignore-eos", 0, NULL, TOOL_VALUE_FLAG, AT(ignore_end),
     .help = "with a prompt: do not end the text at the model's end-of-text token"},
    {"stop", 0, "TEXT", TOOL_VALUE_LIST, AT(stop), .most = TOOL_STOPS_MAX,
     .also = "reverse-prompt stop-sequence",
     .help = "stop before this text; may be repeated up to 8 times"},
    {"prompt-cache", 0, "FILE", TOOL_VALUE_TEXT, AT(prompt_cache),
     .path = TOOL_PATH_WRITE | TOOL_PATH_PLAIN,
     .help = "save the KV cache of the prompt in FILE, and reuse what FILE has for a common "
             "prefix: the same text, sooner"},
    {"prompt-cache-ro", 0, NULL, TOOL_VALUE_FLAG, AT(prompt_cache_ro),
     .help = "read the file of --prompt-cache, but don't write it"},
    {"no-history", 0, NULL, TOOL_VALUE_FLAG, AT(no_history),
     .help =
         "neither read nor save the input history of chats, and don't add this run to the history"},
    {"plain", 0, NULL, TOOL_VALUE_FLAG, AT(plain), .also = "nowordwrap no-wordwrap",
     .help = "print texts on a terminal as the model wrote them: without wrapping lines at words, "
             "and in a chat without rendering Markdown"},
    TOOL_GROUP(tool_lora_options, AT(session)),
    TOOL_GROUP(tool_page_cache_options, AT(session)),
    TOOL_GROUP(tool_trace_options, AT(session.trace)),
    TOOL_GROUP(tool_constraint_options, AT(constraint)),
    {"draft", 0, "HOW", TOOL_VALUE_TEXT, AT(draft), .choices = "ngram off",
     .help = "ngram: look up in the text what may follow, and verify several tokens in one pass: "
             "the same text, sooner where it repeats itself or its prompt (default: off)"},
    {"draft-max", 0, "N", TOOL_VALUE_COUNT, AT(draft_most), .least = 1, .most = MNEM_DRAFT_MOST,
     .also = "draft-n draft-n-max",
     .help = "plan for drafts of N tokens (default: up to 16, as many as cost no speed)"},
    {0},
};

static const tool_option options[] = {
    TOOL_GROUP(tool_run_options, 0),
    TOOL_JSON_OPTION("an object for each token, then one with the whole text, the plan and the "
                     "ledger; with --prompts an object for each answer, then one for the run"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static void defaults(tool_args *args) {
    ((run_options *)args)->sampling = mnem_sampler_usual();
}

static run_options asked;
TOOL_VERB_WITH(
    run, defaults, "[MODEL [PROMPT]]", 0, 2, "generate text, or chat, inside a memory budget",
    "Generates text from a GGUF model inside a hard memory budget. Before the weights are read,\n"
    "a line shows what the run will take, and at the end a line shows its speed and its peak; -v\n"
    "shows both as tables with every byte. Only the generated text goes to standard output;\n"
    "everything else goes to standard error.\n"
    "\n"
    "The prompt comes from PROMPT, --prompt, --file or standard input; without any of them, a\n"
    "chat starts on a terminal (/help there lists its commands). Several prompts (-p repeated,\n"
    "--prompts) run together, and each gives the same text as alone. If the model has a chat\n"
    "template, a prompt is a user's turn, and the answer ends by itself; --raw continues the\n"
    "prompt as text, up to 256 tokens without -n. Without MODEL the bundled model runs.\n"
    "Weights that don't fit in the budget are streamed from disk, layer by layer, for every\n"
    "token: the same text, more slowly. Without --ctx the context is the largest that fits\n"
    "without slowing the run down, up to 4096 tokens; if the prompt and -n (256 without it,\n"
    "4096 in all with -1) are more than that, or more than 1024, it has exactly so many. If the\n"
    "budget is too small for them, a warning says what would be enough.\n"
    "\n"
    "Ctrl-C stops generation and still prints the last line, or with -v the ledger (exit code\n"
    "130); a second one exits at once.\n",
    "mnem run -p 'In the beginning'  # continue a text with the bundled model\n"
    "mnem run model.gguf --memory 512M  # chat inside 512 MiB\n"
    "mnem run model.gguf -p 'What is a ledger?' --system 'Be brief.'  # print one answer\n"
    "mnem run model.gguf --prompts questions.txt --json  # print one answer per line\n"
    "mnem run model.gguf --raw -f essay.txt -n 100 --temp 0  # continue, most likely tokens only\n"
    "mnem run model.gguf -p 'A person.' --json-schema person.json  # answer in JSON only\n"
    "mnem run model.gguf --lora adapter.gguf:0.5  # use an adapter at half its strength\n"
    "echo 'Once upon a time' | mnem run model.gguf -q  # print the text only\n");
