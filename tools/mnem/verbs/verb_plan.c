/* verb_plan.c: `mnem plan`: what a run would take; reads the header only.
 *
 * With a prompt (-p, -f) it is the very plan of that run, to the byte. */
#include "screen/pager.h"
#include "sight/history_plan.h"
#include "sight/roofline.h"
#include "verbs/layout/plan_ranks.h"
#include "verbs/layout/plan_tool.h"
#include "verbs/run/draft/drafting.h"
#include "verbs/run/several.h"

/* What this machine allows, as far as a probe of it is kept; false of another device. */
static bool find_most(const tool_stage *stage, roofline_most *most) {
    return !stage->device && roofline_most_get(stage, most);
}

static void print_most(const roofline_most *most) {
    char text[240], rate[TOOL_TEXT] = "";
    if (most->generate > 0) snprintf(rate, sizeof rate, "%.0f tokens/s, ", most->generate);
    snprintf(text, sizeof text,
             "at most %sprompt %.0f tokens/s, by %.1f GB/s from %s and %.0f GOP/s of int8 (%s)",
             rate, most->prompt, most->level_rate / 1e9, most->level, most->int8_rate / 1e9,
             most->when);
    tool_wrap(stdout, "  machine  ", text);
}

/* Of speeds only the plan's own is shown without -v: those of earlier runs and of a probe are of
 * other conditions. */
#define MORE "  details  -v: every part in bytes, earlier runs; --explain: all budgets\n"

/* frontier NULL: not asked for. */
static int print_plan(const tool_stage *stage, const tool_frontier *frontier) {
    roofline_most most;
    const bool known = find_most(stage, &most);
    if ((stage->args->verbose || frontier) && !stage->args->json) tool_page_begin();
    if (stage->args->json) {
        json_t *plan = tool_report_plan_json(&stage->plan, stage);
        if (plan) json_object_set_new(plan, "history", tool_history_json(stage));
        if (plan && known) json_object_set_new(plan, "machine", roofline_most_json(&most));
        if (plan && frontier) json_object_set_new(plan, "frontier", tool_frontier_json(frontier));
        tool_out_json("plan", plan);
    } else if (stage->args->verbose) {
        tool_report_model(stdout, stage);
        tool_report_plan(stdout, &stage->plan, stage);
        if (known) print_most(&most);
        tool_history_tell(stdout, stage);
    } else {
        tool_report_model(stdout, stage);
        tool_report_plan_short(stdout, &stage->plan, stage);
        if (!frontier) fputs(MORE, stdout);
    }
    if (frontier && !stage->args->json) tool_frontier_print(stdout, stage, frontier);
    return tool_page_end(TOOL_OK);
}

static int explain_plan(const tool_stage *stage, const char *svg) {
    tool_frontier frontier;
    int code = tool_frontier_make(stage, &frontier);
    if (code == TOOL_OK && svg) code = tool_frontier_draw(stage, &frontier, svg);
    if (code == TOOL_OK) code = print_plan(stage, &frontier);
    tool_frontier_free(&frontier);
    return code;
}

static int plan_devices(const tool_args *args, const plan_options *o) {
    static tool_stage stage;
    if (tool_given(args, "memory") || tool_given(args, "capacity"))
        return tool_usage("plan",
                          "--devices already sets the capacity of each device: leave out --%s",
                          tool_given(args, "memory") ? "memory" : "capacity");
    if (o->explain || o->svg)
        return tool_usage("plan",
                          "--explain and --svg support one device only: leave out --devices");
    int code = tool_stage_open(args, &o->run.session, &stage);
    if (code == TOOL_OK) code = tool_plan_devices(&stage, o->devices);
    tool_stage_close(&stage);
    return code;
}

/* Its own ledger has no budget: each rank has one. */
static int plan_ranks(const tool_args *args, const plan_options *o) {
    static tool_stage stage;
    static tool_session_asked session;
    const char *list = tool_budget_list();
    char one[32];
    if (o->devices || o->explain || o->svg)
        return tool_usage(
            "plan",
            "--ranks plans for several machines and can't be combined with --%s: leave one out",
            o->devices   ? "devices"
            : o->explain ? "explain"
                         : "svg");
    if (o->run.prompt.count || o->run.file || o->run.prompts || args->operand[1])
        return tool_usage("plan", "--ranks plans without a prompt: leave out the prompt, and set "
                                  "the length of the context with --ctx N");
    if (tool_given(args, "device") || tool_given(args, "capacity"))
        return tool_usage("plan",
                          "--ranks plans for the memory of each rank's machine and can't be "
                          "combined with --%s: leave one out",
                          tool_given(args, "device") ? "device" : "capacity");
    if (!o->run.session.memory)
        return tool_usage("plan", "--ranks needs the budget of each rank: add --memory SIZE for "
                                  "all, or --memory SIZE,SIZE,... with one size for each rank");
    session = o->run.session;
    session.memory = 0;
    snprintf(one, sizeof one, "%llu", (unsigned long long)o->run.session.memory);
    int code = tool_stage_open(args, &session, &stage);
    if (o->sequences) stage.options.sequences = o->sequences;
    if (code == TOOL_OK)
        code = tool_plan_ranks(
            &stage, &(tool_ranks_asked){.memory = list ? list : one,
                                        .count = o->ranks,
                                        .link = o->run.session.link,
                                        .cut_given = tool_given(args, "cut"),
                                        .cut = session.cut ? MNEM_CUT_ROWS : MNEM_CUT_LAYERS});
    tool_stage_close(&stage);
    return code;
}

static bool has_prompt(const run_options *run) {
    return tool_prompts_asked(run) || run->prompt.count || run->file || run->args.operand[1];
}

/* Of a recurrent model's states, as mnem run has them: in a chat, and for a prompt cache. */
static void set_snapshots(tool_stage *stage, const plan_options *o) {
    const bool chat = !has_prompt(&o->run) && !o->sequences;
    if (chat || o->run.prompt_cache) stage->options.snapshots = MNEM_SNAPSHOTS_FILL;
}

/* With the prompts there are. */
static int plan_text(tool_stage *stage, const run_options *run, tool_generator *g,
                     tool_several **several) {
    if (tool_prompts_asked(run)) return tool_several_plan(stage, run, several);
    if (has_prompt(run)) return tool_prompt_plan(stage, run, g);
    return tool_stage_plan(stage);
}

static int verb_plan(const tool_args *args) {
    static tool_stage stage;
    static tool_generator g;
    tool_several *several = NULL;
    const plan_options *o = (const plan_options *)args;
    int code = tool_prompt_check("plan", &o->run);
    if (code == TOOL_OK) code = tool_draft_check("plan", &o->run);
    if (code == TOOL_OK) code = tool_biases_read("plan", &o->run);
    if (code != TOOL_OK) return code;
    if (o->ranks) return plan_ranks(args, o);
    if (tool_budget_list() || o->run.session.link || tool_given(args, "cut"))
        return tool_usage("plan", "%s needs several ranks: add --ranks N",
                          o->run.session.link       ? "--link"
                          : tool_given(args, "cut") ? "--cut"
                                                    : "a list of sizes for --memory");
    if (o->devices) return plan_devices(args, o);
    code = tool_stage_open(args, &o->run.session, &stage);
    if (code == TOOL_OK) code = tool_draft_plan(&stage, &o->run);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    if (code == TOOL_OK) code = tool_stage_breakers(&stage, &o->run.breakers);
    if (o->sequences) stage.options.sequences = o->sequences;
    set_snapshots(&stage, o);
    if (code == TOOL_OK) code = plan_text(&stage, &o->run, &g, &several);
    if (code == TOOL_OK)
        code = o->explain || o->svg ? explain_plan(&stage, o->svg) : print_plan(&stage, NULL);
    if (g.stage) tool_generator_close(&g);
    tool_several_close(several);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(plan_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"prompt", 'p', "TEXT", TOOL_VALUE_LIST, AT(run.prompt), .most = TOOL_SPACES_MAX, .empty = true,
     .help = "plan for this prompt, as mnem run would answer it (- is standard input); may be "
             "repeated; same as the operand PROMPT"},
    {"file", 'f', "FILE", TOOL_VALUE_TEXT, AT(run.file), .path = TOOL_PATH_READ,
     .help = "plan for the prompt in a file (- is standard input)"},
    TOOL_GROUP_TAKEN(tool_run_options, AT(run)),
    TOOL_GROUP(tool_session_options, AT(run.session)),
    {"device", 0, "NAME", TOOL_VALUE_TEXT, AT(run.session.device), .choices = "host null",
     .help = "plan for another device: host, or null, which is only simulated (default: host)"},
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(run.session.capacity),
     .help = "memory of the null device (default: 80G)"},
    {"devices", 0, "SIZES", TOOL_VALUE_TEXT, AT(devices),
     .help = "distribute the layers over devices of these capacities, such as 24G,24G,16G"},
    {"sequences", 0, "N", TOOL_VALUE_COUNT, AT(sequences), .least = 1, .most = 1024,
     .help = "plan for N sequences at once, each with its own context (default: 1, or one for each "
             "prompt)"},
    {"ranks", 0, "N", TOOL_VALUE_COUNT, AT(ranks), .least = 2, .most = MNEM_COMM_RANKS_MAX,
     .help = "plan for N ranks (the processes that MPI's launcher mpirun starts, on one machine or "
             "several), with the budgets of --memory SIZE[,SIZE...], one for each: what each rank "
             "holds, sends and waits for"},
    {"cut", 0, "HOW", TOOL_VALUE_CHOICE, AT(run.session.cut), .choices = "layers rows",
     .help =
         "with --ranks: what each rank holds: layers (consecutive layers) or rows (rows of every "
         "matrix) (default: the faster of the two; the speed of the other is shown beside it. mnem "
         "run uses layers unless --cut rows is given)"},
    TOOL_GROUP(tool_link_options, AT(run.session)),
    {"explain", 0, NULL, TOOL_VALUE_FLAG, AT(explain),
     .help = "show every way to run that no other way beats in both bytes and speed (the Pareto "
             "front), and what each way gives up"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), .path = TOOL_PATH_WRITE,
     .help = "draw the ways of --explain to FILE: bytes against speed"},
    TOOL_JSON_OPTION("one object"),
    {"verbose", 'v', NULL, TOOL_VALUE_FLAG, AT(run.args.verbose),
     .help = "show every part in bytes, the speeds of earlier runs on this machine, a prediction "
             "for the next run, and the machine's upper bounds (mnem probe)"},
    TOOL_GROUP_TAKEN(tool_quiet_options, 0),
    {0},
};

static void defaults(tool_args *args) {
    ((plan_options *)args)->run.sampling = mnem_sampler_usual();
}

static plan_options asked;
TOOL_VERB_WITH(
    plan, defaults, "[MODEL [PROMPT]]", 0, 2,
    "show what a run would need, without loading the model",
    "Shows the plan that mnem run would make with the same options: the peak and the memory of\n"
    "each kind, the choices and their reasons, the predicted speed, and what the next smaller\n"
    "and larger budget would change; with -v every part in bytes. Only the file's header is\n"
    "read, so planning takes little time for a model of any size. The exit code is 3 when the\n"
    "budget is too small. All other options of mnem run are accepted too: to plan a run, replace "
    "\"run\" by\n"
    "\"plan\" in its command line. Its prompt (-p, -f) and -n can change the context length (see\n"
    "mnem help run), so with them the plan has the exact bytes of that run.\n"
    "\n"
    "--device null plans for a device that this machine doesn't have; --capacity sets its\n"
    "memory. --devices distributes the layers over several such devices, so that the fullest\n"
    "one has as much free memory as possible. --ranks plans for several processes or machines\n"
    "under mpirun, without using them. --explain shows the best ways to run for every budget,\n"
    "from the smallest one that works.\n",
    "mnem plan model.gguf --memory 2G  # does it run in 2 GiB, and how?\n"
    "mnem plan model.gguf --memory 2G --ctx 8192  # with a longer context?\n"
    "mnem plan model.gguf --device null --capacity 80G  # on a machine of 80 GiB?\n"
    "mnem plan model.gguf --devices 24G,24G,16G  # which layers go where?\n"
    "mnem plan model.gguf --ranks 3 --memory 2G,2G,1G --link 1Gbit/s,0.1ms  # plan for three "
    "machines\n"
    "mnem plan model.gguf --explain --svg ways.svg  # draw bytes against speed\n"
    "mnem plan model.gguf --memory 2G --json | jq .peak_bytes  # print the planned peak\n");
