/* verb_advise.c: `mnem advise`: what to do about a model in a budget, a finished run, or a trace.
 *
 * What is meant is found by the operand: a number of the history (none: the newest), the folder of
 * a training run, a file of recorded allocations, or a model. A budget that is too small is advised
 * about like all else, and is no failure. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sight/history_file.h"
#include "sight/probe_file.h"
#include "verbs/train/train_advise.h"

typedef struct advise_options {
    tool_args args;
    tool_session_asked session;
    const char *policy;
    uint64_t align, segment;
} advise_options;

static tool_stage stage;

/* ---- what it says ---- */

static json_t *gain_json(const mnem_gain *g) {
    if (!g->unit) return json_null();
    return json_pack("{s:f, s:f, s:s, s:s}", "before", g->before, "after", g->after, "unit",
                     g->unit, "by", g->by);
}

static json_t *advice_json(const mnem_advice *a) {
    return json_pack("{s:s, s:s, s:b, s:o?, s:o?, s:o, s:s}", "check", a->check, "condition",
                     a->condition, "severe", a->severe, "evidence", json_string(a->evidence),
                     "command", json_string(a->command), "gain", gain_json(&a->gain), "sure",
                     mnem_sure_text(a->sure));
}

static int checks_of(const mnem_facts *facts, int *whole) {
    mnem_check check;
    int n = 0;
    *whole = 0;
    for (; mnem_check_get(n, &check); n++) {
        bool known = true;
        for (int i = 0; i < check.need_count; i++) known &= facts->known[check.needs[i]];
        *whole += known;
    }
    return n;
}

static void print_json(const char *of, const mnem_facts *facts, const mnem_advice *all, int n) {
    json_t *list = json_array(), *known = json_object();
    int whole;
    const int checks = checks_of(facts, &whole);
    for (int i = 0; i < n; i++) json_array_append_new(list, advice_json(&all[i]));
    for (int i = 0; i < MNEM_FACT_COUNT; i++)
        if (facts->known[i])
            json_object_set_new(known, mnem_fact_text((mnem_fact)i), json_real(facts->value[i]));
    tool_out_json("advice",
                  json_pack("{s:o?, s:i, s:i, s:o, s:o}", "of", json_string(of), "checks", checks,
                            "checks_known", whole, "facts", known, "advice", list));
}

/* "12 MiB", "3.2 s", "1,204 calls". */
static char *amount(double x, const char *unit, char text[TOOL_TEXT]) {
    char number[TOOL_TEXT];
    if (strcmp(unit, "bytes") == 0 || strcmp(unit, "room") == 0)
        return tool_size(x > 0 ? (uint64_t)x : 0, text);
    if (strcmp(unit, "seconds") == 0 && x < 1)
        snprintf(text, TOOL_TEXT, "%.3g ms", 1e3 * x);
    else if (strcmp(unit, "seconds") == 0)
        return tool_seconds(x, text);
    else if (x < 10)
        snprintf(text, TOOL_TEXT, "%.2g %s", x, unit);
    else
        snprintf(text, TOOL_TEXT, "%.30s %.8s", tool_exact((uint64_t)x, number), unit);
    return text;
}

static void print_one(const mnem_advice *a) {
    char before[TOOL_TEXT], after[TOOL_TEXT], text[240];
    tool_out_flush();
    snprintf(text, sizeof text, "%s: %s", a->check, a->condition);
    tool_wrap(stdout, a->severe ? "! " : "  ", text);
    tool_wrap(stdout, "    ", a->evidence);
    tool_wrap(stdout, "    do    ", a->command);
    if (!a->gain.unit) return;
    snprintf(text, sizeof text, "%s instead of %s (%s, by %s)",
             amount(a->gain.after, a->gain.unit, after),
             amount(a->gain.before, a->gain.unit, before), mnem_sure_text(a->sure), a->gain.by);
    tool_wrap(stdout, "    gain  ", text);
}

/* What the predicted speeds above are worth. */
static void print_note(void) {
    char note[TOOL_NOTE];
    if (!*tool_profile_note(&stage, note)) return;
    tool_out_flush();
    tool_wrap(stdout, "  speed    ", note);
}

static int print(const tool_args *args, const char *of, const mnem_facts *facts) {
    static mnem_advice all[MNEM_ADVICE_MOST];
    const int n = mnem_advice_make(facts, all, MNEM_ADVICE_MOST);
    int whole;
    const int checks = checks_of(facts, &whole);
    if (args->json) {
        print_json(of, facts, all, n);
        return tool_out_end();
    }
    char text[160];
    snprintf(text, sizeof text, "%d suggestion%s (%d of %d checks apply)", n, tool_s((uint64_t)n),
             whole, checks);
    tool_out_result(of, text);
    for (int i = 0; i < n; i++) print_one(&all[i]);
    print_note();
    return tool_out_end();
}

/* ---- what is known ---- */

static mnem_facts facts;

/* What `mnem bench` didn't measure is known where `mnem probe` did. */
static void set_probe(const mnem_machine_profile *profile) {
    static mnem_probe probe;
    double age;
    if (!tool_probe_load(&probe, &age)) return;
    const double f32 = mnem_probe_peak_of(&probe, "f32"), bf16 = mnem_probe_peak_of(&probe, "bf16");
    if (f32 > 0 && bf16 > 0) mnem_facts_set(&facts, MNEM_FACT_BF16_GAIN, bf16 / f32);
    for (int i = 0; i < probe.peaks; i++)
        if (probe.peak[i].used && strcmp(probe.peak[i].type, "int8") == 0 &&
            probe.peak[i].rate[0].best > 0)
            mnem_facts_set(&facts, MNEM_FACT_THREADS_GAIN,
                           probe.peak[i].rate[1].best / probe.peak[i].rate[0].best);
    if (profile->read_bytes_per_s <= 0 && tool_probe_memory_rate(&probe) > 0)
        mnem_facts_set(&facts, MNEM_FACT_READ_RATE, tool_probe_memory_rate(&probe));
    if (profile->disk_bytes_per_s <= 0 && probe.disk.passes)
        mnem_facts_set(&facts, MNEM_FACT_DISK_RATE, probe.disk.best);
}

static void set_machine(void) {
    mnem_machine_profile profile;
    tool_profile_load(&profile);
    mnem_facts_machine(&profile, &facts);
    set_probe(&profile);
}

/* The plan, or its refusal, with its neighbours. */
static int add_plan(void) {
    const mnem_status planned = mnem_engine_plan_make(stage.model, &stage.options, &stage.plan);
    if (planned != MNEM_OK && planned != MNEM_OVER_BUDGET) return tool_fail_asked(planned);
    if (planned == MNEM_OVER_BUDGET) stage.plan.peak_bytes = 0;
    mnem_facts_set(&facts, MNEM_FACT_BUDGET_GIVEN, !stage.budget_chosen);
    const mnem_status status = mnem_facts_plan(stage.model, &stage.options, &stage.plan, &facts);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int open_model(const advise_options *o) {
    int code = tool_stage_open(&o->args, &o->session, &stage);
    if (code == TOOL_OK) code = tool_stage_needs_text(&stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(&stage);
    return code;
}

static int advise_model(const advise_options *o) {
    char of[96], size[TOOL_TEXT];
    set_machine();
    int code = open_model(o);
    if (code == TOOL_OK) snprintf(facts.model, sizeof facts.model, "%s", tool_model_path(&o->args));
    if (code == TOOL_OK) code = add_plan();
    if (code != TOOL_OK) return code;
    snprintf(of, sizeof of, "%.60s in %s", tool_file_name(facts.model),
             tool_size(tool_budget_bytes(stage.ledger), size));
    return print(&o->args, of, &facts);
}

/* The run's own options, planned again with the model that it used. */
static int plan_again(const advise_options *o, const mnem_history_run *run) {
    static advise_options again;
    again = *o;
    again.args.operand[0] = o->args.operand[1];
    again.session.memory = run->budget_chosen ? 0 : run->budget_bytes;
    again.session.context = run->context;
    again.session.threads = run->threads;
    again.session.chunk = run->chunk;
    again.session.page_cache = run->page_cache != 0;
    mnem_kv_choice kv = MNEM_KV_F16;
    if (*run->kv) (void)mnem_kv_parse(run->kv, &kv); /* else as above */
    again.session.kv = (int32_t)kv;
    const int code = open_model(&again);
    snprintf(facts.model, sizeof facts.model, "%s", again.args.operand[0]);
    return code == TOOL_OK ? add_plan() : code;
}

/* What was counted stands before what is planned, but the neighbours are of the plan's peak. */
static void set_run_over(const mnem_history_run *run, uint64_t peak) {
    mnem_facts_history(run, &facts);
    if (peak) mnem_facts_set(&facts, MNEM_FACT_PEAK, (double)peak);
}

static int advise_run(const advise_options *o, const mnem_history_run *run) {
    char of[64];
    uint64_t peak = 0;
    set_machine();
    mnem_facts_history(run, &facts);
    if (*run->folder && train_facts(&o->args, run, &facts, &peak)) set_run_over(run, peak);
    if (o->args.operand[1]) {
        const int code = plan_again(o, run);
        if (code != TOOL_OK) return code;
        set_run_over(run, stage.plan.peak_bytes);
    }
    snprintf(of, sizeof of, "run %llu (%.15s)", (unsigned long long)run->run, run->verb);
    return print(&o->args, of, &facts);
}

static int advise_number(const advise_options *o, uint64_t number) {
    char path[PATH_MAX];
    mnem_history_run run;
    if (!tool_history_path(path, sizeof path))
        return tool_failed(
            "there is no history of runs, because neither XDG_STATE_HOME nor HOME is set");
    const mnem_status status = mnem_history_get(path, number, &run);
    return status == MNEM_OK ? advise_run(o, &run) : tool_fail(status);
}

/* The newest run of a folder. */
typedef struct of_folder {
    const char *folder;
    mnem_history_run run;
} of_folder;

static bool on_run(void *context, const mnem_history_run *run) {
    of_folder *f = context;
    if (strcmp(run->folder, f->folder) == 0) f->run = *run;
    return true;
}

static int advise_folder(const advise_options *o, const char *folder) {
    char path[PATH_MAX];
    static of_folder f;
    f.folder = folder;
    if (tool_history_path(path, sizeof path)) {
        const mnem_status status = mnem_history_read(path, on_run, &f);
        if (status != MNEM_OK) return tool_fail(status);
    }
    if (f.run.run) return advise_run(o, &f.run);
    return tool_failed("the history has no run of the folder %s; mnem train adds one when it ends",
                       folder);
}

/* A trace of ours has what a program did; recorded allocations are replayed. */
static int advise_trace(const advise_options *o, const char *path) {
    mnem_workload *w;
    snprintf(facts.model, sizeof facts.model, "%s", path);
    mnem_status status = mnem_facts_trace(path, &facts);
    if (status == MNEM_OK) return print(&o->args, tool_file_name(path), &facts);
    if (status == MNEM_UNSUPPORTED) status = mnem_workload_open(path, NULL, &w);
    if (status != MNEM_OK) return tool_fail(status);
    const mnem_replay_settings settings = {.alignment = o->align, .segment_bytes = o->segment};
    set_machine();
    status = mnem_facts_workload(w, o->policy, &settings, &facts);
    mnem_workload_close(w);
    return status == MNEM_OK ? print(&o->args, tool_file_name(path), &facts) : tool_fail(status);
}

/* ---- which it is ---- */

static bool is_number(const char *text) {
    const char *at = text;
    while (isdigit((unsigned char)*at)) at++;
    return at > text && !*at && at - text < 19 && access(text, F_OK) != 0;
}

/* GGUF files begin so; a folder of Hugging Face's has its config. */
static bool is_model(const char *path) {
    char begin[4] = "", config[PATH_MAX];
    struct stat info;
    if (stat(path, &info) != 0) return true; /* opening it will say so */
    if (S_ISDIR(info.st_mode)) {
        snprintf(config, sizeof config, "%s/tokenizer.json", path);
        return access(config, F_OK) == 0;
    }
    FILE *file = fopen(path, "rb");
    const bool read = file && fread(begin, 1, sizeof begin, file) == sizeof begin;
    if (file) fclose(file);
    return read && memcmp(begin, "GGUF", sizeof begin) == 0;
}

static int verb_advise(const tool_args *args) {
    const advise_options *o = (const advise_options *)args;
    const char *what = args->operand[0];
    char whole[PATH_MAX];
    struct stat info;
    int code;
    const bool folder = what && stat(what, &info) == 0 && S_ISDIR(info.st_mode) && !is_model(what);
    if (args->operand[1] && !folder && !is_number(what))
        return tool_usage("advise",
                          "with MODEL as the second operand, the first must be the number of a run "
                          "from the history, not %s",
                          what);
    if (!what && !o->session.memory)
        code = advise_number(o, 0);
    else if (what && is_number(what))
        code = advise_number(o, strtoull(what, NULL, 10));
    else if (!what || is_model(what))
        code = advise_model(o);
    else if (folder && realpath(what, whole))
        code = advise_folder(o, whole);
    else
        code = advise_trace(o, what);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(advise_options, field)
static const tool_option options[] = {
    /* no --model: the operand may be a number, too */
    TOOL_GROUP(tool_session_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    {"policy", 0, "NAME", TOOL_VALUE_NAME, AT(policy),
     .choices = "mnem tlsf bucket buddy first-fit best-fit worst-fit",
     .help = "with a trace: the policy in use (default: mnem)"},
    {"align", 0, "SIZE", TOOL_VALUE_SIZE, AT(align),
     .help = "with a trace: the alignment in use (default: 256)"},
    {"segment", 0, "SIZE", TOOL_VALUE_SIZE, AT(segment),
     .help =
         "with a trace: size by which the pool grows (default: a 64th of the peak, at least 2M)"},
    TOOL_JSON_OPTION("one object"),
    TOOL_GROUP_TAKEN(tool_quiet_options, 0),
    TOOL_GROUP_TAKEN(tool_verbose_options, 0),
    {0},
};

static advise_options asked;
TOOL_VERB(
    advise, "[RUN|TRACE|MODEL]", 0, 2, "suggest what would make a run smaller, faster or safer",
    "Checks a plan, a finished run or recorded allocations, and shows for each finding the\n"
    "condition, the evidence, the command, the gain and how sure that is: computed (by the\n"
    "code that plans or replays), likely, or perhaps. Settings that are in use already aren't\n"
    "proposed, and a check without the numbers that it needs shows nothing.\n"
    "\n"
    "RUN is the number of a run in the history, as `mnem run --verbose` shows it, or the\n"
    "folder of a training run; without any operand it is the newest run. With a MODEL after\n"
    "the number the run is planned again, together with its neighbours. TRACE is a trace that\n"
    "`mnem replay` reads. MODEL is planned as by `mnem plan`; if the budget is too small, the\n"
    "advice shows what would be enough, which isn't a failure.\n",
    "mnem advise  # advice on the last run\n"
    "mnem advise 12 model.gguf  # run 12, planned again with its model\n"
    "mnem advise model.gguf --memory 512M  # advice on a plan, before the run\n"
    "mnem advise alloc.trace --policy first-fit --json  # advice on recorded allocations\n");
