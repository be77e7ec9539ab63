/* train_adapt.c: `--adapt`: changes the number of sequences in a micro-batch by measurements during
 * a run.
 *
 * After a few steps the live bytes over the budget and the time of a step beside what the machine's
 * products take go to the planner (mnem_adapt_next). A change is a checkpoint, another plan and
 * another trainer in the place of this one, which goes on from it: the batch and the text stay, so
 * what is learned is the same but for rounding. What doesn't fit is refused by the plan, and the
 * run goes on as it was. */
#include <string.h>

#include "verbs/train/train_tool.h"

enum { ADAPT_STEPS = 4 }; /* timed at each setting, after one that isn't */

void train_adapt_begin(train_run *run) {
    run->adapt.plan = (mnem_adapt){.now = run->plan.micro_batch,
                                   .least = 1,
                                   .most = run->config.batch,
                                   .divides = run->config.batch};
    run->adapt.macs = run->plan.macs_per_step;
    run->adapt.steps = -1;
}

static void cancel(void *context) {
    mnem_trainer_cancel(context);
}

/* The trainer of a plan, at the checkpoint. */
static mnem_status create(train_run *run, int32_t micro_batch) {
    char note[TRAIN_NOTE];
    run->options.micro_batch = micro_batch;
    mnem_status status = mnem_train_plan_make(&run->options, &run->plan);
    if (status == MNEM_OK) status = mnem_trainer_create(&run->options, &run->plan, &run->trainer);
    if (status == MNEM_OK) status = train_feed_take(run);
    if (status != MNEM_OK) return status;
    return mnem_trainer_resume(run->trainer, train_path(run, "checkpoint"), note, sizeof note);
}

static void destroy(train_run *run) {
    tool_interrupt_call(NULL, NULL);
    train_feed_give(run);
    mnem_trainer_destroy(run->trainer);
    run->trainer = NULL;
}

/* *refused: it doesn't fit, and the run is as it was. */
static mnem_status change(train_run *run, int32_t before, bool *refused) {
    mnem_status status = train_result_save(run);
    if (status != MNEM_OK) return status;
    destroy(run);
    status = create(run, run->adapt.plan.now);
    *refused = status == MNEM_OVER_BUDGET;
    if (*refused) {
        destroy(run);
        status = create(run, before);
    }
    if (status == MNEM_OK) tool_interrupt_call(cancel, run->trainer);
    return status;
}

static mnem_load measure(const train_run *run) {
    const train_adapting *a = &run->adapt;
    mnem_ledger_info info;
    mnem_ledger_info_get(run->ledger, &info);
    const double cpu = a->cpu / run->plan.threads, wall = a->seconds;
    const double step = (cpu < wall ? cpu : wall) / ADAPT_STEPS; /* as a quiet machine would */
    const double best = run->seconds * run->plan.macs_per_step / a->macs;
    mnem_load load = {.rate = step > 0 ? run->config.batch / step : 0};
    if (info.budget_bytes) load.pressure = (double)info.bytes_live / (double)info.budget_bytes;
    /* Products that were measured in a busy moment: a step can do more than they say. */
    if (step > 0) load.efficiency = best < step ? best / step : 1;
    return load;
}

static void say(train_run *run, mnem_adapt_step step, const mnem_load *load, int32_t before,
                bool refused) {
    static const char *const words[] = {"kept", "less", "more", "back"};
    const char *word = refused ? "refused" : words[step];
    train_log_adapt(run, word, load, before, run->plan.micro_batch);
    if (run->args->quiet) return;
    tool_progress_hide();
    fprintf(stderr,
            "adapt: the step processes %d of %d sequences at once (%s; %d before), memory pressure "
            "%.2f, ",
            run->plan.micro_batch, run->config.batch, word, before, load->pressure);
    fprintf(stderr, load->efficiency > 0 ? "efficiency %.2f\n" : "efficiency unknown\n",
            load->efficiency);
}

mnem_status train_adapt_step(train_run *run, double seconds, double cpu_seconds, bool *changed) {
    train_adapting *a = &run->adapt;
    bool refused = false;
    *changed = false;
    if (a->plan.settled) return MNEM_OK;
    if (a->steps++ >= 0) a->seconds += seconds, a->cpu += cpu_seconds;
    if (a->steps < ADAPT_STEPS) return MNEM_OK;
    const mnem_load load = measure(run);
    const int32_t before = a->plan.now;
    const mnem_adapt_step step = mnem_adapt_next(&a->plan, &load);
    a->steps = -1;
    a->seconds = a->cpu = 0;
    mnem_status status = MNEM_OK;
    if ((*changed = step != MNEM_ADAPT_KEEP)) status = change(run, before, &refused);
    if (refused) mnem_adapt_refused(&a->plan);
    if (status == MNEM_OK && (*changed || !a->said)) say(run, step, &load, before, refused);
    a->said = true;
    return status;
}
