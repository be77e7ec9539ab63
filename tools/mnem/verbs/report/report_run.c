/* report_run.c: a run of the history (mnem/history.h) as a report's facts: its number, or the
 * folder of a training.
 *
 * The idea: a line has no events, only sums: who held what by kind, the process's peak beside the
 * plan's, how long each phase took. What it doesn't have is not known, as in any trace. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sight/history_file.h"
#include "verbs/report/report_tool.h"

static bool is_number(const char *text) {
    return *text && text[strspn(text, "0123456789")] == 0 && strlen(text) < 16;
}

/* The log of a training stands for its folder. */
static bool is_log(const char *operand) {
    const char *slash = strrchr(operand, '/');
    return strcmp(slash ? slash + 1 : operand, "log.jsonl") == 0;
}

bool report_run_named(const char *operand) {
    struct stat about;
    if (stat(operand, &about) == 0) return S_ISDIR(about.st_mode) || is_log(operand);
    return is_number(operand);
}

/* What has a log, and what is a folder itself. */
static void put_folder(const char *operand, char folder[PATH_MAX]) {
    snprintf(folder, PATH_MAX, "%s", operand);
    if (!is_log(operand)) return;
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        folder[1] = 0;
    else if (slash)
        *slash = 0;
    else
        snprintf(folder, PATH_MAX, ".");
}

/* The newest run of a folder. */
typedef struct folder_search {
    char real[PATH_MAX];
    const char *folder;
    mnem_history_run *run;
    bool found;
} folder_search;

static bool same_folder(void *context, const mnem_history_run *run) {
    folder_search *s = context;
    char real[PATH_MAX];
    if (!*run->folder || !realpath(run->folder, real) || strcmp(real, s->real) != 0) return true;
    *s->run = *run;
    s->found = true;
    return true;
}

static int find_folder(const char *history, const char *folder, mnem_history_run *run) {
    folder_search s = {.folder = folder, .run = run};
    if (!realpath(folder, s.real))
        return tool_failed("the folder %s can't be opened (%s): give the folder of a run that can "
                           "be read",
                           folder, strerror(errno));
    const mnem_status status = mnem_history_read(history, same_folder, &s);
    if (status != MNEM_OK) return tool_fail(status);
    if (s.found) return TOOL_OK;
    char tables[PATH_MAX + 32];
    snprintf(tables, sizeof tables, "%s/ASCEND_PROFILER_OUTPUT", s.real);
    if (access(tables, F_OK) == 0)
        return tool_failed("%s is a folder of tables for MindStudio Insight, which mnem report "
                           "can't read: record the trace as .pftrace, .json or .pickle instead",
                           folder);
    return tool_failed("the history has no run of the folder %s: mnem train adds a run when it "
                       "ends, and its option --trace FILE writes a trace for mnem report",
                       folder);
}

static int find_run(const char *operand, mnem_history_run *run) {
    char history[PATH_MAX], folder[PATH_MAX];
    struct stat about;
    if (!tool_history_path(history, sizeof history))
        return tool_failed("can't find the run %s: there is no history, because neither "
                           "XDG_STATE_HOME nor HOME is set",
                           operand);
    put_folder(operand, folder);
    if (stat(operand, &about) == 0) return find_folder(history, folder, run);
    const mnem_status status = mnem_history_get(history, strtoull(operand, NULL, 10), run);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* ---- as facts ---- */

static void add_kind(report_run *r, const char *kind, uint64_t bytes) {
    if (!bytes) return;
    r->owner[r->facts.accounts++] = (mnem_report_owner){
        .kind = kind, .tag = "", .site = "", .bytes_at_peak = bytes, .bytes_most = bytes};
}

static int more_bytes(const void *a, const void *b) {
    const uint64_t x = ((const mnem_report_owner *)a)->bytes_at_peak;
    const uint64_t y = ((const mnem_report_owner *)b)->bytes_at_peak;
    return (x < y) - (x > y);
}

static void add_kinds(report_run *r) {
    const mnem_history_run *run = &r->run;
    add_kind(r, "weights", run->weight_bytes);
    add_kind(r, "kv", run->kv_bytes);
    add_kind(r, "optimizer", run->optimizer_bytes);
    add_kind(r, "gradient", run->gradient_bytes);
    add_kind(r, "activation", run->activation_bytes);
    uint64_t sum = 0;
    for (size_t i = 0; i < r->facts.accounts; i++) sum += r->owner[i].bytes_at_peak;
    if (r->facts.bytes_peak > sum) add_kind(r, "other kinds", r->facts.bytes_peak - sum);
    qsort(r->owner, r->facts.accounts, sizeof *r->owner, more_bytes);
    r->facts.account = r->owner;
}

/* How often: tokens of a prompt and of an answer, steps of training. */
static uint64_t times_of(const mnem_history_run *run, mnem_phase phase) {
    const uint64_t tokens = run->phase[phase].tokens;
    const uint64_t each =
        run->batch > 0 && run->context > 0 ? (uint64_t)run->batch * (uint64_t)run->context : 1;
    return phase == MNEM_PHASE_STEPS && tokens >= each ? tokens / each : tokens;
}

/* The history has no single times, so the longest of several isn't known. */
static void add_phases(report_run *r) {
    for (int i = 0; i < MNEM_PHASE_COUNT; i++) {
        const mnem_history_phase *p = &r->run.phase[i];
        if (!p->tokens) continue;
        const uint64_t times = times_of(&r->run, (mnem_phase)i);
        const uint64_t ns = (uint64_t)(p->seconds * 1e9);
        r->phase[r->facts.ops++] = (mnem_report_operator){.name = mnem_phase_text((mnem_phase)i),
                                                          .sort = "phase",
                                                          .count = times,
                                                          .ns_total = ns,
                                                          .ns_longest = times == 1 ? ns : 0};
    }
    r->facts.op = r->phase;
}

int report_run_open(const char *operand, report_run *r) {
    memset(r, 0, sizeof *r);
    const int code = find_run(operand, &r->run);
    if (code != TOOL_OK) return code;
    const mnem_history_run *run = &r->run;
    snprintf(r->path, sizeof r->path, "run %llu (%s%s%s)", (unsigned long long)run->run, run->verb,
             *run->model ? " " : "", run->model);
    snprintf(r->program, sizeof r->program, "mnem %s", run->version);
    r->facts =
        (mnem_report_facts){.path = r->path,
                            .format = "line of the history",
                            .program = r->program,
                            .clocked = true,
                            .duration = (uint64_t)(run->seconds * 1e9),
                            .peak_at = (uint64_t)(run->seconds * 1e9),
                            .budget_bytes = run->budget_bytes,
                            .bytes_peak = run->ledger_bytes,
                            .resident_most = run->peak_bytes,
                            .resident_at_peak = run->peak_bytes,
                            .unaccounted_known = run->peak_bytes && run->ledger_bytes,
                            .unaccounted_bytes = (int64_t)(run->peak_bytes - run->ledger_bytes),
                            .predicted_bytes = run->predicted_bytes,
                            .live = {true, run->ledger_bytes, run->ledger_bytes, 0},
                            .disk_bytes = run->streamed_bytes,
                            .disk_ns = (uint64_t)(run->seconds_waiting * 1e9),
                            .disk_reads = run->streamed_bytes > 0};
    r->facts.refused[MNEM_REPORT_CAPACITY].count = run->refusals;
    add_kinds(r);
    add_phases(r);
    return TOOL_OK;
}
