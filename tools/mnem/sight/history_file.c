/* history_file.c: see history_file.h.
 *
 * Invariant: nothing of a prompt or an answer is in a run. Cost: one line is written when all else
 * is over, with buffers on the stack: no budget is passed by it. */
#include "sight/history_file.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "output_file.h"

const tool_option tool_history_options[] = {
    {"no-history", 0, NULL, TOOL_VALUE_FLAG, 0,
     .help = "don't add this run to the history (mnem advise, mnem plan)"},
    {0},
};

bool tool_history_path(char *path, size_t n) {
    const char *state = tool_env("XDG_STATE_HOME"), *home = tool_env("HOME");
    if (!state && !home) return false;
    const int length = state ? snprintf(path, n, "%s/mnem/history.jsonl", state)
                             : snprintf(path, n, "%s/.local/state/mnem/history.jsonl", home);
    return length > 0 && (size_t)length < n;
}

static bool is_wanted(const tool_args *args) {
    const char *wanted = tool_env("MNEM_HISTORY");
    return !(wanted && strcasecmp(wanted, "off") == 0) && !tool_given(args, "no-history");
}

/* ---- the machine ---- */

static uint64_t mix(uint64_t hash, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return hash;
}

/* FNV-1a over the processor's name, how many there are, and the memory in GiB. */
const char *tool_history_machine(void) {
    static char name[24];
    char text[4096], more[64];
    if (*name) return name;
    const int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *model = strstr(text, "model name");
    uint64_t hash = 0xcbf29ce484222325;
    if (model) hash = mix(hash, model, strcspn(model, "\n"));
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const int length = snprintf(more, sizeof more, " %ld %ld", sysconf(_SC_NPROCESSORS_ONLN),
                                pages / (1 + (1 << 30) / page));
    snprintf(name, sizeof name, "%016llx", (unsigned long long)mix(hash, more, (size_t)length));
    return name;
}

double tool_cpu_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is said of a run ---- */

void tool_history_lines(const mnem_plan_line *line, unsigned lines, mnem_history_run *run) {
    for (unsigned i = 0; i < lines; i++) switch (line[i].kind) {
        case MNEM_KIND_KV: run->kv_bytes += line[i].bytes; break;
        case MNEM_KIND_OPTIMIZER: run->optimizer_bytes += line[i].bytes; break;
        case MNEM_KIND_GRADIENT: run->gradient_bytes += line[i].bytes; break;
        case MNEM_KIND_ACTIVATION: run->activation_bytes += line[i].bytes; break;
        default: break;
        }
}

static void set_plan(const tool_stage *stage, mnem_history_run *run) {
    const mnem_engine_plan *p = &stage->plan;
    run->threads = p->threads;
    run->context = p->context;
    run->context_asked = stage->asked->context;
    run->chunk = p->chunk;
    run->sequences = p->sequences;
    run->streamed = p->streamed;
    run->page_cache = stage->asked->page_cache;
    run->budget_chosen = stage->budget_chosen;
    run->weight_bytes = p->weight_bytes;
    run->budget_bytes = p->budget_bytes;
    run->predicted_bytes = p->peak_bytes - stage->kept_bytes;
    snprintf(run->kv, sizeof run->kv, "%s", mnem_kv_text(p->kv));
    tool_history_lines(p->line, p->lines, run);
}

void tool_history_stage(const tool_stage *stage, const mnem_engine_stats *stats,
                        mnem_history_run *run) {
    mnem_model_info m;
    mnem_ledger_info ledger;
    mnem_model_info_get(stage->model, &m);
    mnem_ledger_info_get(stage->ledger, &ledger);
    snprintf(run->model, sizeof run->model, "%s", tool_file_name(m.path));
    snprintf(run->architecture, sizeof run->architecture, "%s", m.architecture);
    snprintf(run->type, sizeof run->type, "%s", tool_main_type(stage->model));
    run->parameters = m.parameters;
    set_plan(stage, run);
    run->ledger_bytes = ledger.bytes_peak;
    run->refusals = ledger.refusals;
    run->seconds_load = stage->seconds_load;
    run->streamed_bytes = stats->bytes_streamed;
    run->seconds_waiting = stats->seconds_waiting;
    run->expert_hits = stats->expert_hits;
    run->expert_misses = stats->expert_misses;
}

void tool_history_phase(mnem_history_run *run, mnem_phase phase, uint64_t tokens, double seconds,
                        double cpu_seconds, double predicted_tokens_per_s) {
    if (!tokens || seconds <= 0) return;
    mnem_history_phase *p = &run->phase[phase];
    p->tokens = tokens;
    p->seconds = seconds;
    p->cpu_seconds = cpu_seconds;
    if (predicted_tokens_per_s > 0) p->predicted_seconds = (double)tokens / predicted_tokens_per_s;
}

void tool_history_work(const tool_stage *stage, mnem_phase phase, double positions,
                       mnem_history_run *run) {
    mnem_history_phase *p = &run->phase[phase];
    if (p->tokens)
        p->works = mnem_work_of_tokens(stage->model, &stage->plan, phase, (double)p->tokens,
                                       positions, p->work);
}

static void set_machine(const tool_args *args, mnem_history_run *run) {
    struct rusage used;
    snprintf(run->verb, sizeof run->verb, "%s", args->verb->name);
    snprintf(run->version, sizeof run->version, "%s", mnem_version());
    snprintf(run->machine, sizeof run->machine, "%s", tool_history_machine());
    run->processors = tool_processors();
    run->peak_bytes = tool_peak_bytes();
    if (getrusage(RUSAGE_SELF, &used) == 0) run->faults = (uint64_t)used.ru_majflt;
}

void tool_history_add(const tool_args *args, mnem_history_run *run) {
    char path[PATH_MAX];
    if (!is_wanted(args) || !tool_history_path(path, sizeof path)) return;
    set_machine(args, run);
    tool_new_folders(path, 0700);
    const mnem_status status = mnem_history_append(path, run);
    if (!args->verbose || args->quiet || args->json) return;
    if (status == MNEM_OK)
        fprintf(stderr, "history\n  run %llu of your history: mnem advise %llu\n",
                (unsigned long long)run->run, (unsigned long long)run->run);
    else
        tool_message("warning: this run was not added to the history (mnem advise): %s",
                     mnem_last_error());
}
