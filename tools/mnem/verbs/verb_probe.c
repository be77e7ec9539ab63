/* verb_probe.c: `mnem probe`: this machine's hierarchy, measured.
 *
 * The budget is of the whole process: what is left of it beside the program is what blocks may
 * take. */
#include "options.h"
#include "sight/probe_file.h"
#include "sight/probe_tool.h"

typedef struct probe_options {
    tool_args args;
    uint64_t memory;
    int32_t threads;
    double seconds;
} probe_options;

static volatile int stopped;

static void stop(void *context) {
    (void)context;
    stopped = 1;
}

/* What the budget leaves, less what the heap may still take. */
static uint64_t room(const mnem_ledger *ledger) {
    enum { HEAP = 512 << 10 };
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    const uint64_t used = info.bytes_live + HEAP;
    return info.budget_bytes > used ? info.budget_bytes - used : 1;
}

static int measure(const probe_options *o, mnem_ledger *ledger, const char *file,
                   mnem_probe *probe) {
    tool_progress progress;
    tool_progress_begin(&progress, "measuring");
    tool_interrupt_watch(NULL);
    tool_interrupt_call(stop, NULL);
    const mnem_probe_options options = {.ledger = ledger,
                                        .memory_bytes = room(ledger),
                                        .seconds = o->seconds,
                                        .threads = o->threads,
                                        .file = file,
                                        .cancel = &stopped,
                                        .progress = {tool_progress_tell, &progress}};
    const mnem_status status = mnem_probe_run(&options, probe);
    tool_progress_end(&progress);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* Of fewer threads or in less time it is shown, and not kept. */
static bool is_whole(const probe_options *o) {
    return !o->threads && o->seconds >= 3;
}

static int tell(const probe_options *o, const mnem_probe *probe, const char *file) {
    if (is_whole(o) && tool_probe_memory_rate(probe) > 0) tool_probe_save(probe);
    if (!o->args.quiet) probe_doubts(probe);
    if (!o->args.json) {
        probe_print(probe, file);
        return tool_out_end();
    }
    json_t *object = tool_probe_json(probe);
    if (object) json_object_set_new(object, "vmhwm", json_integer((json_int_t)tool_peak_bytes()));
    tool_out_json("probe", object);
    return tool_out_end();
}

static int verb_probe(const tool_args *args) {
    static mnem_probe probe;
    const probe_options *o = (const probe_options *)args;
    tool_progress_quiet(args->quiet || args->json);
    const char *file = tool_model_default();
    mnem_ledger *ledger = NULL;
    const mnem_ledger_options options = {.budget_bytes = o->memory};
    const mnem_status status = mnem_ledger_create_process(&options, &ledger);
    if (status != MNEM_OK) return tool_fail(status);
    int code = measure(o, ledger, file, &probe);
    if (code == TOOL_OK) code = tell(o, &probe, file);
    mnem_ledger_destroy(ledger);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(probe_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_memory_options, AT(memory)),
    TOOL_GROUP(tool_threads_options, AT(threads)),
    {"seconds", 0, "S", TOOL_VALUE_REAL, AT(seconds), .least = 0.2, .most = 60,
     .help = "how long to measure (default: 6); what took less than 3 isn't kept"},
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_json_options, 0),
    {0},
};

static probe_options asked = {.seconds = 6};
TOOL_VERB(
    probe, "", 0, 0, "what this machine's memory and processors give, measured",
    "Measures each level of the memory hierarchy (capacity, latency through pages of 2 MiB\n"
    "and of 4 KiB, bandwidth of 1 to all threads), the peaks of arithmetic by type, the\n"
    "clock, and the disk that the model is on. Every figure is the best of passes of about\n"
    "a millisecond that take turns, so that a quiet moment is enough; figures whose passes\n"
    "differ by more than 3 % have a ~. Capacities are what the system says, and where the\n"
    "latency of a random cycle says that a level ends.\n"
    "\n"
    "The result is kept in $XDG_STATE_HOME/mnem (~/.local/state/mnem) under a fingerprint of\n"
    "the machine, where other verbs find it.\n",
    "mnem probe  # all of it, in about six seconds\n"
    "mnem probe --memory 512M  # inside a budget\n"
    "mnem probe --json | jq '.levels[-1].latency_ns.best'  # for a script\n");
