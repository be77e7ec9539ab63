/* monitor_file.c: see monitor_file.h.
 *
 * Invariant: nothing of a prompt or an answer is in it. Cost: a clock for each step, and 60 us ten
 * times a second. */
#include "sight/monitor_file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static mnem_monitor file;
static mnem_monitor_numbers numbers;
static uint64_t steps;
static double told;          /* clock */
static uint64_t told_tokens; /* then */
static const double every = 0.1;

bool tool_monitor_folder(char *path, size_t n) {
    const char *runtime = tool_env("XDG_RUNTIME_DIR");
    const int length = runtime ? snprintf(path, n, "%s/mnem", runtime)
                               : snprintf(path, n, "/tmp/mnem-%u", (unsigned)getuid());
    return length > 0 && (size_t)length < n;
}

/* In /tmp somebody else may have made it. */
static bool is_ours(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == getuid() &&
           !(info.st_mode & (S_IWGRP | S_IWOTH));
}

void tool_monitor_begin(const tool_args *args, const char *model) {
    char folder[PATH_MAX], path[PATH_MAX + 32];
    const char *wanted = tool_env("MNEM_STATUS");
    if ((wanted && strcasecmp(wanted, "off") == 0) || !tool_monitor_folder(folder, sizeof folder))
        return;
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) || !is_ours(folder)) return;
    snprintf(path, sizeof path, "%s/%d.status", folder, (int)getpid());
    char program[32];
    snprintf(program, sizeof program, "mnem %s", args->verb->name);
    if (mnem_monitor_init(&file, path, program, model ? tool_file_name(model) : NULL) == MNEM_OK)
        tool_monitor_numbers("starting");
}

void tool_monitor_watch(const mnem_ledger *ledger) {
    mnem_monitor_watch(&file, ledger);
}

bool tool_monitor_due(void) {
    return file.fd > 0 && tool_clock() - told >= every;
}

bool tool_monitor_step(void) {
    steps++;
    return tool_monitor_due();
}

mnem_monitor_numbers *tool_monitor_numbers(const char *phase) {
    snprintf(numbers.phase, sizeof numbers.phase, "%s", phase);
    return &numbers;
}

void tool_monitor_engine(const mnem_engine_stats *stats, const char *phase) {
    mnem_monitor_numbers *n = tool_monitor_numbers(phase);
    const double now = tool_clock();
    n->steps = steps;
    n->step_seconds = steps ? stats->seconds_eval / (double)steps : 0;
    n->tokens = stats->tokens;
    n->pages_used = stats->pages_used;
    n->pages_total = stats->pages;
    n->tokens_per_s = told > 0 ? (double)(n->tokens - told_tokens) / (now - told) : 0;
}

void tool_monitor_scheduler(const mnem_scheduler_stats *s) {
    if (file.fd <= 0) return;
    mnem_monitor_numbers *n = &numbers;
    const uint64_t running = (uint64_t)s->running, waiting = (uint64_t)s->waiting;
    uint64_t done = 0;
    for (int i = 0; i < MNEM_END_COUNT; i++) done += s->ended[i];
    const bool now = n->requests_running != running || n->requests_waiting != waiting ||
                     n->requests_done != done;
    if (!now && !tool_monitor_due()) return;
    tool_monitor_numbers(s->draining ? "draining" : running ? "serving" : "idle");
    n->steps = s->steps;
    n->tokens = s->prompt_tokens + s->tokens;
    n->tokens_per_s = s->tokens_per_s;
    n->step_seconds = s->step_seconds_last;
    n->pages_used = s->pages - s->pages_free;
    n->pages_total = s->pages;
    n->requests_running = running;
    n->requests_waiting = waiting;
    n->requests_preempted = (uint64_t)s->preempted;
    n->requests_done = done;
    n->requests_refused = s->refused_full + s->refused_budget;
    tool_monitor_tell(now);
}

void tool_monitor_models(const mnem_monitor_model *models, uint32_t count) {
    const mnem_monitor_view *v = &file.file.view;
    const uint32_t n = count < MNEM_MONITOR_MODELS ? count : MNEM_MONITOR_MODELS;
    if (file.fd <= 0 || (v->models == n && memcmp(v->served, models, n * sizeof *models) == 0))
        return;
    mnem_monitor_serve(&file, models, count);
    tool_monitor_tell(true);
}

void tool_monitor_tell(bool now) {
    if (file.fd <= 0 || (!now && !tool_monitor_due())) return;
    told = tool_clock();
    told_tokens = numbers.tokens;
    mnem_monitor_tell(&file, &numbers, true);
}

void tool_monitor_end(void) {
    mnem_monitor_fini(&file);
}
