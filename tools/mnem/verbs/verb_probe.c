/* verb_probe.c: `mnem probe`: this machine's hierarchy, measured, and a model's operators under it.
 *
 * The budget is of the whole process: what is left of it beside the program is what blocks may
 * take. With a MODEL the probe that is kept is enough; its operators are those of a run with the
 * same options. */
#include "sight/probe_file.h"
#include "sight/probe_tool.h"
#include "sight/roofline.h"

typedef struct probe_options {
    tool_args args;
    tool_session_asked session;
    double seconds; /* 0: not given */
    bool refresh;
    const char *svg;
} probe_options;

enum { SECONDS = 6, LEAST_KEPT = 3, PHASES = 2 };
enum { HEAP = 512 << 10 }; /* what the heap may still take beside the blocks */

/* Called by a signal: passes end at once, not only between two of them. */
static void stop(void *stopped) {
    *(volatile int *)stopped = 1;
}

/* ---- measuring ---- */

static uint64_t room(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    const uint64_t used = info.bytes_live + HEAP;
    return info.budget_bytes > used ? info.budget_bytes - used : 1;
}

/* The least budget to measure in. */
static uint64_t measuring_bytes(const probe_options *o, const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    const uint64_t needed = info.bytes_live + HEAP + mnem_probe_bytes(o->session.threads);
    return needed > info.bytes_peak ? needed : info.bytes_peak;
}

/* Of fewer threads or in less time it is shown, and not kept. */
static bool is_kept(const probe_options *o, const mnem_probe *probe) {
    return !o->session.threads && (o->seconds <= 0 || o->seconds >= LEAST_KEPT) &&
           tool_probe_memory_rate(probe) > 0;
}

static int measure(const probe_options *o, mnem_ledger *ledger, const char *file,
                   mnem_probe *probe) {
    static volatile int stopped;
    tool_progress progress;
    tool_progress_begin(&progress, "measuring");
    tool_interrupt_call(stop, (void *)&stopped);
    const mnem_probe_options options = {.ledger = ledger,
                                        .memory_bytes = room(ledger),
                                        .seconds = o->seconds > 0 ? o->seconds : SECONDS,
                                        .threads = o->session.threads,
                                        .file = file,
                                        .cancel = &stopped,
                                        .progress = {tool_progress_tell, &progress}};
    const mnem_status status = mnem_probe_run(&options, probe);
    tool_interrupt_watch(NULL);
    tool_progress_end(&progress);
    if (status != MNEM_OK) return tool_fail(status);
    if (is_kept(o, probe)) tool_probe_save(probe);
    if (!o->args.quiet) probe_doubts(probe);
    return TOOL_OK;
}

/* ---- telling ---- */

static json_t *rooflines_json(const roofline *list, int count) {
    json_t *all = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(all, roofline_json(&list[i]));
    return all;
}

static int tell(const probe_options *o, const mnem_probe *probe, const char *file,
                const roofline *list, int count) {
    const char *title = count ? tool_file_name(file) : "roofline";
    int code = o->svg ? roofline_draw(probe, list, count, title, o->svg) : TOOL_OK;
    if (code != TOOL_OK) return code;
    if (!o->args.json) {
        probe_print(probe, file);
        for (int i = 0; i < count; i++) roofline_print(&list[i]);
        return tool_out_end();
    }
    json_t *object = tool_probe_json(probe);
    if (object) json_object_set_new(object, "vmhwm", json_integer((json_int_t)tool_peak_bytes()));
    if (object && count) json_object_set_new(object, "rooflines", rooflines_json(list, count));
    tool_out_json("probe", object);
    return tool_out_end();
}

/* Refuses what the budget has no room for; else holds the ledger to it. */
static int hold(const probe_options *o, mnem_ledger *ledger) {
    const uint64_t needed = measuring_bytes(o, ledger), budget = tool_budget_bytes(ledger);
    if (needed > budget)
        return tool_fail_needs(needed, budget, (mnem_knob){.kind = MNEM_KNOB_NONE});
    const mnem_status status = mnem_ledger_hold(ledger);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int probe_machine(const probe_options *o, mnem_probe *probe) {
    const char *file = tool_model_default();
    mnem_ledger *ledger = NULL;
    const mnem_ledger_options options = {
        .budget_bytes = o->session.memory, .preparing = true, .own_process = true};
    const mnem_status status = mnem_ledger_create_process(&options, &ledger);
    if (status != MNEM_OK) return tool_fail(status);
    int code = hold(o, ledger);
    if (code == TOOL_OK) code = measure(o, ledger, file, probe);
    if (code == TOOL_OK) code = tell(o, probe, file, NULL, 0);
    mnem_ledger_destroy(ledger);
    return code;
}

/* ---- a model ---- */

/* The one that is kept, if it will do. */
static bool find_kept(const probe_options *o, mnem_probe *probe) {
    char when[TOOL_TEXT];
    double age;
    if (o->refresh || o->seconds > 0 || o->session.threads || !tool_probe_load(probe, &age))
        return false;
    if (!o->args.quiet)
        tool_message("the limits below follow from bandwidth and arithmetic of this machine as "
                     "measured by %s; --refresh measures them again",
                     tool_probe_when(age, when));
    return true;
}

/* Both must fit, the probe and the plan behind it: what is refused names the larger one. */
static int check_both(tool_stage *stage, const probe_options *o) {
    const uint64_t budget = tool_budget_bytes(stage->ledger);
    uint64_t needed = measuring_bytes(o, stage->ledger);
    mnem_knob knob = {.kind = MNEM_KNOB_NONE};
    const mnem_status status = tool_stage_try(stage);
    if (status != MNEM_OK && status != MNEM_OVER_BUDGET) return tool_fail_asked(status);
    if (status == MNEM_OVER_BUDGET && stage->plan.needed_bytes > needed) {
        needed = stage->plan.needed_bytes;
        knob = stage->plan.knob;
    }
    return needed > budget ? tool_fail_needs(needed, budget, knob) : TOOL_OK;
}

static int place_model(tool_stage *stage, const probe_options *o, mnem_probe *probe) {
    static roofline list[PHASES];
    const char *file = mnem_model_file_path(stage->model, 0);
    const bool kept = find_kept(o, probe);
    int code = kept ? TOOL_OK : check_both(stage, o);
    if (code == TOOL_OK && !kept) code = measure(o, stage->ledger, file, probe);
    if (code == TOOL_OK) code = tool_stage_plan(stage);
    if (code != TOOL_OK) return code;
    int count = 0;
    mnem_status status = MNEM_OK;
    if (!stage->transformer.encoder) status = roofline_make(stage, probe, false, &list[count++]);
    if (status == MNEM_OK) status = roofline_make(stage, probe, true, &list[count++]);
    return status == MNEM_OK ? tell(o, probe, file, list, count) : tool_fail(status);
}

static int verb_probe(const tool_args *args) {
    static mnem_probe probe;
    static tool_stage stage;
    const probe_options *o = (const probe_options *)args;
    tool_progress_quiet(args->quiet || args->json);
    if (!args->operand[0]) return probe_machine(o, &probe);
    int code = tool_stage_open(args, &o->session, &stage);
    if (code == TOOL_OK) code = place_model(&stage, o, &probe);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(probe_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    TOOL_GROUP(tool_session_options, AT(session)),
    {"seconds", 0, "S", TOOL_VALUE_REAL, AT(seconds), .least = 0.2, .most = 60,
     .help = "seconds to measure (default: 6); a result of less than 3 seconds isn't stored"},
    {"refresh", 0, NULL, TOOL_VALUE_FLAG, AT(refresh),
     .help = "with a MODEL: measure the machine again, even if a result is stored"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), .path = TOOL_PATH_WRITE,
     .help = "draw the roofline, with the operators of a MODEL, to FILE"},
    TOOL_GROUP(tool_quiet_progress_options, 0),
    TOOL_JSON_OPTION("one object"),
    {0},
};

static probe_options asked;
TOOL_VERB(
    probe, "[MODEL]", 0, 1, "measure this machine's memory hierarchy and processors",
    "Measures each level of the memory hierarchy (capacity, latency with pages of 2 MiB and of\n"
    "4 KiB, bandwidth of one thread up to all threads), the peak arithmetic rate of each type,\n"
    "the clock, and the disk that holds the model. Every figure is the best of many short\n"
    "passes (about 1 ms; 30 ms for latencies of caches). The passes of different figures\n"
    "alternate, so that a short moment without other load is enough; a ~ marks figures whose\n"
    "passes differ by more than 3 %. Two capacities are shown: the one that the system\n"
    "reports, and the measured one, where the latency of a random pointer chase rises.\n"
    "\n"
    "The result is stored in $XDG_STATE_HOME/mnem (~/.local/state/mnem) under a fingerprint of\n"
    "the machine; plan and bench read it for the highest speed that is possible. With a MODEL\n"
    "a stored result is used (--refresh measures anew), and\n"
    "the operators of a run with these options are placed on the roofline: their exact bytes\n"
    "and multiply-adds, what limits each, and the least time that each can take.\n",
    "mnem probe  # measure everything, in about six seconds\n"
    "mnem probe --memory 512M  # measure within a budget\n"
    "mnem probe model.gguf --svg roofline.svg  # show what limits each operator\n"
    "mnem probe --json | jq '.levels[-1].latency_ns.best'  # print the latency of memory\n");
