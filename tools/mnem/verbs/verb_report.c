/* verb_report.c: `mnem report`: where every byte and every moment of a trace went.
 *
 * For each trace: mnem/report.h counts, report_text.c says it, report_condition.c decides about the
 * exit code. Two traces are compared. With --json all of it is one object on one line. */
#include <stdlib.h>

#include "verbs/report/report_tool.h"

typedef struct report_work {
    const report_options *asked;
    report_conditions conditions;
    mnem_report *report[TOOL_OPERANDS_MAX]; /* NULL: a run of the history */
    report_run *kept[TOOL_OPERANDS_MAX];
    const mnem_report_facts *facts[TOOL_OPERANDS_MAX];
    int count;
    mnem_report **rank; /* [ranks] of the only trace, where it has several and none was asked for */
    int ranks;
} report_work;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    tool_progress_step(context, done, total ? total : UINT64_MAX, NULL);
    return !tool_interrupted();
}

static int open_run(report_work *work, const char *operand) {
    report_run *kept = calloc(1, sizeof *kept);
    if (!kept)
        return tool_failed("out of memory to read the trace %s: end other programs", operand);
    work->kept[work->count] = kept;
    const int code = report_run_open(operand, kept);
    work->facts[work->count++] = &kept->facts;
    return code;
}

static int open_one(report_work *run, const char *path) {
    if (report_run_named(path)) return open_run(run, path);
    tool_progress progress;
    const mnem_report_options o = {
        .device_given = tool_given(&run->asked->args, "device"),
        .device = (uint32_t)run->asked->device,
        .rank = tool_given(&run->asked->args, "rank") ? 1 + (uint32_t)run->asked->rank : 0,
        .progress = {on_progress, &progress}};
    tool_progress_begin(&progress, "reading");
    const mnem_status status = mnem_report_create(path, &o, &run->report[run->count]);
    tool_progress_end(&progress);
    if (status != MNEM_OK) return tool_fail(status);
    run->facts[run->count] = mnem_report_facts_get(run->report[run->count]);
    run->count++;
    return TOOL_OK;
}

/* Of a trace of several ranks each is read by itself. */
static int open_ranks(report_work *run, const char *path) {
    const int ranks = (int)run->facts[0]->ranks;
    if (run->count != 1 || ranks < 2 || tool_given(&run->asked->args, "rank")) return TOOL_OK;
    run->rank = calloc((size_t)ranks, sizeof *run->rank);
    if (!run->rank)
        return tool_failed("out of memory to read the trace %s: end other programs", path);
    for (int i = 0; i < ranks; i++, run->ranks++) {
        const mnem_report_options o = {.rank = 1 + (uint32_t)i};
        const mnem_status status = mnem_report_create(path, &o, &run->rank[i]);
        if (status != MNEM_OK) return tool_fail(status);
    }
    return TOOL_OK;
}

static void print_all(const report_work *run) {
    if (run->ranks) report_ranks(run->rank, run->ranks);
    for (int i = 0; i < run->count; i++) {
        if (i) tool_outf("\n");
        report_print(run->facts[i]);
    }
    if (run->count == 2) report_compare(run->facts);
}

static json_t *one_json(const report_work *run, int i) {
    json_t *one = report_json(run->facts[i]);
    json_object_set_new(one, "fail_on", report_conditions_json(&run->conditions, run->facts[i]));
    return one;
}

/* One object on one line: of several traces, "reports" has each. */
static void print_json(const report_work *run) {
    if (run->count == 1) {
        json_t *one = one_json(run, 0);
        if (run->ranks)
            json_object_set_new(one, "by_rank", report_ranks_json(run->rank, run->ranks));
        tool_out_json("report", one);
        return;
    }
    json_t *list = json_array();
    for (int i = 0; i < run->count; i++) json_array_append_new(list, one_json(run, i));
    tool_out_json("report",
                  json_pack("{s:o, s:o}", "reports", list, "compared",
                            run->count == 2 ? report_compare_json(run->facts) : json_null()));
}

static int report_all(report_work *run) {
    const tool_args *args = &run->asked->args;
    int code = TOOL_OK;
    for (int i = 0; i < args->operands && code == TOOL_OK; i++)
        code = open_one(run, args->operand[i]);
    if (code == TOOL_OK) code = open_ranks(run, args->operand[0]);
    if (code != TOOL_OK) return code;
    if (run->asked->html && !run->report[0])
        return tool_usage("report", "--html needs a trace file, which the option --trace FILE of "
                                    "mnem run or train records; the history has totals only");
    if (args->json)
        print_json(run);
    else
        print_all(run);
    tool_out_flush(); /* what fails is told behind it */
    if (run->asked->html)
        code = report_html(run->report[0], run->rank, run->ranks, run->asked->html);
    for (int i = 0; i < run->count; i++)
        if (report_conditions_check(&run->conditions, run->facts[i]) != TOOL_OK) code = TOOL_FAILED;
    return code;
}

static int verb_report(const tool_args *args) {
    static report_work run;
    run.asked = (const report_options *)args;
    if (run.asked->html && args->operands > 1)
        return tool_usage("report", "--html shows one trace, but %d are given: name one",
                          args->operands);
    int code = report_conditions_parse(run.asked->fail_on, &run.conditions);
    if (code != TOOL_OK) return code;
    tool_interrupt_watch(NULL);
    code = report_all(&run);
    const int end = tool_out_end();
    for (int i = 0; i < run.ranks; i++) mnem_report_destroy(run.rank[i]);
    free(run.rank);
    for (int i = 0; i < run.count; i++) {
        mnem_report_destroy(run.report[i]);
        free(run.kept[i]);
    }
    return code == TOOL_OK ? end : code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(report_options, field)
static const tool_option options[] = {
    {"html", 0, "FILE", TOOL_VALUE_TEXT, AT(html), .path = TOOL_PATH_WRITE,
     .help = "write an HTML page to FILE as well: bytes over time, what is live at any moment, "
             "addresses, spans; one file that needs no network"},
    {"fail-on", 0, "LIST", TOOL_VALUE_TEXT, AT(fail_on),
     .help = "exit with 1 if one of these conditions holds, such as "
             "peak>600M,leaks>0,fragmentation>10; names are those of \"metrics\" in --json; a "
             "condition also holds if the trace doesn't record its number"},
    {"device", 0, "N", TOOL_VALUE_COUNT, AT(device), .least = 0, .most = 4095,
     .help = "the device to report in a snapshot of several devices (default: the one with most "
             "events)"},
    {"rank", 0, "N", TOOL_VALUE_COUNT, AT(rank), .least = 0, .most = MNEM_COMM_RANKS_MAX - 1,
     .help =
         "the rank to report in a trace of several ranks (default: a line for each, then rank 0)"},
    TOOL_JSON_OPTION("one object"),
    {0},
};

static report_options asked;
TOOL_VERB(
    report, "TRACE|RUN...", 1, TOOL_OPERANDS_MAX, "show where every byte of a trace went",
    "Shows when the peak of a trace was and what was live then, how much was reserved beyond\n"
    "that (and why it couldn't be used), which requests were refused and why, which tags (what\n"
    "memory is for, such as \"weights matrices\") and lines of code hold the most, and what was\n"
    "never freed, with ages. Two traces are compared.\n"
    "\n"
    "A trace is what --trace writes for Perfetto (.pftrace, .perfetto) or Chrome (.json), a "
    "PyTorch\n"
    "memory snapshot (the file of torch.cuda.memory._dump_snapshot; it is read without\n"
    "running any code in it), or text with one event on each line:\n"
    "\n"
    "  a ID BYTES [STREAM]   allocates block ID, each ID once (STREAM: default 0)\n"
    "  f ID [STREAM]         frees block ID\n"
    "\n"
    "What a trace doesn't record is shown as -, and never guessed.\n"
    "\n"
    "A RUN is the number of a finished run in the history, or the folder of a training run\n"
    "(or its log.jsonl): its totals by kind and phase, without events.\n"
    "\n"
    "docs/report.md defines every number.\n",
    "mnem run -p Hello --trace run.pftrace && mnem report run.pftrace  # report on a run of mnem\n"
    "mnem report snapshot.pickle  # when was the peak, and what was live?\n"
    "mnem report snapshot.pickle --html page.html  # see it in a browser\n"
    "mnem report before.pickle after.pickle  # what changed?\n"
    "mnem report snapshot.pickle --fail-on 'peak>600M,leaks>0'  # fail a CI job above these "
    "limits\n"
    "mnem report snapshot.pickle --json | jq .metrics  # print the numbers\n");
