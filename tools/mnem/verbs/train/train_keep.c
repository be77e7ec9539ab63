/* train_keep.c: writes a training run to the history. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sight/history_file.h"
#include "verbs/train/train_tool.h"

static void set_shape(const train_run *run, mnem_history_run *kept) {
    const train_config *c = &run->config;
    const mnem_train_plan *p = &run->plan;
    snprintf(kept->architecture, sizeof kept->architecture, "%s", c->architecture);
    snprintf(kept->precision, sizeof kept->precision, "%s", c->precision);
    snprintf(kept->moments, sizeof kept->moments, "%s", c->moments);
    snprintf(kept->type, sizeof kept->type, "F32");
    kept->context = c->context;
    kept->batch = c->batch;
    kept->lora = c->lora;
    kept->micro_batch = p->micro_batch;
    kept->threads = p->threads;
    kept->parameters = p->parameters;
    kept->weight_bytes = p->weight_bytes + p->frozen_bytes;
}

static void set_bytes(const train_run *run, mnem_history_run *kept) {
    mnem_ledger_info ledger;
    mnem_ledger_info_get(run->ledger, &ledger);
    kept->budget_chosen = run->budget_chosen;
    kept->budget_bytes = run->plan.budget_bytes;
    kept->predicted_bytes = train_report_peak(run);
    kept->ledger_bytes = ledger.bytes_peak;
    kept->refusals = ledger.refusals;
    tool_history_lines(run->plan.line, run->plan.lines, kept);
}

/* The first step of a process is slower than those behind it: it isn't counted. */
void train_keep(const train_run *run) {
    mnem_history_run kept = {.seconds = run->seconds_done};
    char whole[PATH_MAX];
    const uint64_t tokens =
        (uint64_t)run->steps_done * (uint64_t)run->config.batch * (uint64_t)run->config.context;
    const double each = (double)run->config.batch * run->config.context;
    set_shape(run, &kept);
    set_bytes(run, &kept);
    if (realpath(run->out, whole) && strlen(whole) < sizeof kept.folder)
        memcpy(kept.folder, whole, strlen(whole) + 1);
    tool_history_phase(&kept, MNEM_PHASE_STEPS, tokens, run->seconds_done, run->cpu_done,
                       run->seconds > 0 ? each / run->seconds : 0);
    mnem_history_phase *p = &kept.phase[MNEM_PHASE_STEPS];
    if (p->tokens)
        p->works = mnem_work_of_steps(&run->options, &run->plan, (double)run->steps_done, p->work);
    tool_history_add(run->args, &kept);
}
