/* train_loop.c: the steps of a run, and what comes between them.
 *
 * After a step: its line, the number of steps of a run with --time once steps were timed, a look
 * (train_look.c) after each tenth of the run, a checkpoint about every minute. A signal is no
 * failure: the loop stops after the current step, with a checkpoint. A run whose loss has risen far
 * above its start is one, and keeps the last checkpoint from before. The time of steps excludes
 * that of looks and checkpoints. */
#include <unistd.h>

#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "sight/monitor_file.h"
#include "verbs/train/train_tool.h"

enum { TIMED_STEPS = 6 };
static const double line_seconds = 10;

typedef struct loop {
    tool_progress progress;
    char what[32];             /* "step 12" */
    double begun, saved, said; /* clock */
    double started;            /* clock, after the first step, which is slower */
    int64_t steps;             /* of this process after the first */
    double seconds_per_step;
    double between;   /* seconds of looks and checkpoints */
    int64_t diverged; /* steps in a row */
} loop;

/* ---- now and then ---- */

/* What is left after a failure, if anything is. */
static int fail_run(const train_run *run, mnem_status status) {
    const int code = tool_fail(status);
    const char *path = train_path(run, "checkpoint");
    if (access(path, F_OK) == 0)
        tool_message(
            "the last checkpoint, %s, is complete: mnem train --out %s --resume continues from it",
            path, run->out);
    else if (status != MNEM_CANCELLED && !train_follows())
        tool_message("the run in %s has no checkpoint yet: what it has learned is lost", run->out);
    return code;
}

static int save(train_run *run) {
    const mnem_status status = train_result_save(run);
    return status == MNEM_OK ? TOOL_OK : fail_run(run, status);
}

static mnem_status feed_training(train_run *run) {
    const uint64_t first = mnem_trainer_steps(run->trainer) * (uint64_t)run->config.batch;
    return train_feed_start(run, &run->training, first, 0);
}

/* ---- after a step ---- */

static void say_step(train_run *run, loop *l, const mnem_train_report *r, double tokens_per_s) {
    char note[100], peak[TOOL_TEXT], budget[TOOL_TEXT];
    snprintf(note, sizeof note, "loss %.4f, %.0f tokens/s, %s of %s", r->loss, tokens_per_s,
             tool_size(tool_peak_bytes(), peak), tool_size(run->plan.budget_bytes, budget));
    snprintf(l->what, sizeof l->what, "step %llu", (unsigned long long)r->step);
    tool_progress_step(&l->progress, r->step, (uint64_t)run->config.steps, note);
    const double now = tool_clock();
    if (run->args->quiet || l->progress.terminal || now - l->said < line_seconds) return;
    l->said = now;
    fprintf(stderr, "%s, %s\n", l->what, note);
}

static void tell_monitor(const train_run *run, const mnem_train_report *r, double each,
                         double tokens_per_s) {
    if (!tool_monitor_due()) return;
    mnem_monitor_numbers *n = tool_monitor_numbers("training");
    n->steps = r->step;
    n->steps_planned = (uint64_t)run->config.steps;
    n->tokens = r->step * (uint64_t)run->config.batch * (uint64_t)run->config.context;
    n->tokens_per_s = tokens_per_s;
    n->step_seconds = each;
    n->loss = r->loss;
    tool_monitor_tell(true);
}

/* The length of a run of --time, once steps were timed; kept, so that --resume has it. */
static int set_length(train_run *run, loop *l) {
    if (run->config.steps || l->steps < TIMED_STEPS) return TOOL_OK;
    const double limit = run->config.time;
    run->config.steps = (int64_t)(limit / l->seconds_per_step);
    const mnem_status said = train_ranks_say(&run->config.steps, sizeof run->config.steps);
    if (said != MNEM_OK) return tool_fail(said);
    const int64_t least = (int64_t)mnem_trainer_steps(run->trainer) + 1;
    if (run->config.steps < least) run->config.steps = least;
    const int64_t warmup =
        tool_given(run->args, "warmup") ? run->config.steps : run->config.steps / 10;
    if (run->config.warmup > warmup) run->config.warmup = warmup;
    const mnem_schedule schedule = train_schedule(&run->config);
    const mnem_status status = mnem_trainer_schedule_set(run->trainer, &schedule);
    if (status != MNEM_OK) return tool_fail(status);
    if (!run->args->quiet)
        fprintf(stderr, "%lld step%s fit%s in %.0f s\n", (long long)run->config.steps,
                tool_s((uint64_t)run->config.steps), run->config.steps == 1 ? "s" : "", limit);
    return train_follows() ? TOOL_OK
                           : train_config_save(train_path(run, "config.json"), &run->config);
}

static bool is_last(const train_run *run, uint64_t step) {
    return (run->config.steps && step >= (uint64_t)run->config.steps) ||
           (run->asked->stop_after && step >= run->asked->stop_after);
}

typedef struct decision {
    bool saves, diverged;
} decision;

/* By the clock and the losses of rank 0. */
static int decide(train_run *run, const loop *l, uint64_t step, decision *a) {
    *a = (decision){.saves = run->asked->save_every ? step % run->asked->save_every == 0
                                                    : tool_clock() - l->saved > TRAIN_SAVE_SECONDS,
                    .diverged = train_diverged(run, NULL)};
    const mnem_status status = train_ranks_say(a, sizeof *a);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* A checkpoint; never of a diverged model, in the place of one that isn't. A peak of the loss may
 * pass; what lasts doesn't come back. */
static int save_or_end(train_run *run, loop *l, uint64_t step) {
    decision a;
    const int code = decide(run, l, step, &a);
    if (code != TOOL_OK) return code;
    l->diverged = a.diverged ? l->diverged + 1 : 0;
    const int64_t tenth = run->config.steps / 10, most = tenth > 50 ? tenth : 50;
    if (l->diverged >= most) return train_diverged_say(run);
    if (!a.saves || a.diverged) return TOOL_OK;
    const double begin = tool_clock();
    const int saved = save(run);
    l->saved = tool_clock();
    l->started += l->saved - begin;
    l->between += l->saved - begin;
    return saved;
}

/* mpirun kills what doesn't end soon: no checkpoint is begun, the last one stands. */
static int stop_ranks(const train_run *run) {
    const char *path = train_path(run, "checkpoint");
    uint64_t steps = 0;
    tool_progress_hide();
    if (run->args->quiet || train_follows()) return TOOL_INTERRUPTED;
    if (access(path, F_OK) == 0 && mnem_trainer_steps_saved(path, &steps) == MNEM_OK)
        fprintf(stderr,
                "the run was stopped; its last checkpoint is of step %llu; to continue:\n    mnem "
                "train --out %s --resume\n",
                (unsigned long long)steps, run->out);
    else
        fprintf(stderr, "the run was stopped before its first checkpoint, so there is nothing to "
                        "resume; --save-every N writes checkpoints more often\n");
    return TOOL_INTERRUPTED;
}

/* A signal isn't a failure: the loop stops at it, and the next run looks at this step. */
static int look_between(train_run *run) {
    mnem_status status = train_look(run);
    if (status == MNEM_OK && !run->undrawn && !train_follows())
        run->undrawn = train_draw(run) != TOOL_OK;
    if (status == MNEM_OK) status = feed_training(run);
    if (status == MNEM_CANCELLED && train_ranks() > 1) return stop_ranks(run);
    return status == MNEM_OK || status == MNEM_CANCELLED ? TOOL_OK : tool_fail(status);
}

/* What follows a step; an exit code. */
static int after_step(train_run *run, loop *l, const mnem_train_report *r) {
    const double now = tool_clock();
    if (l->started == 0)
        l->started = now;
    else
        l->seconds_per_step = (now - l->started) / (double)++l->steps;
    run->steps_done = l->steps;
    run->seconds_done = (double)l->steps * l->seconds_per_step;
    run->seconds_all = now - l->begun - l->between;
    const double each = l->steps ? l->seconds_per_step : now - l->begun;
    const double tokens_per_s = (double)run->config.batch * run->config.context / each;
    train_log_step(run, r, tokens_per_s);
    tool_ranks_waited(r->waited);
    tell_monitor(run, r, each, tokens_per_s);
    say_step(run, l, r, tokens_per_s);
    if (!r->applied && !run->args->quiet)
        tool_message("step %llu: a value was too large for f16, so the step is skipped and the "
                     "loss scale is halved; the run goes on",
                     (unsigned long long)r->step);
    int code = set_length(run, l);
    if (code == TOOL_OK && train_wants_look(run, r->step)) {
        code = look_between(run);
        l->started += tool_clock() - now; /* that wasn't a step's time */
        l->between += tool_clock() - now;
    }
    return code == TOOL_OK ? save_or_end(run, l, r->step) : code;
}

/* Other sequences together; what that takes isn't a step's time. */
static int adapt(train_run *run, loop *l, double seconds, double cpu) {
    bool changed = false;
    const double begin = tool_clock();
    if (!run->asked->adapt) return TOOL_OK;
    mnem_status status = train_adapt_step(run, seconds, cpu, &changed);
    if (status == MNEM_OK && changed) status = feed_training(run);
    l->started += tool_clock() - begin;
    return status == MNEM_OK ? TOOL_OK : fail_run(run, status);
}

/* ---- the loop and its end ---- */

/* Ctrl-C and --stop-after: the work is kept. */
static int stop(train_run *run, int exit_code) {
    const int64_t step = (int64_t)mnem_trainer_steps(run->trainer);
    tool_progress_hide();
    bool keeps = train_diverged(run, NULL) && access(train_path(run, "checkpoint"), F_OK) == 0;
    const mnem_status status = train_ranks_say(&keeps, sizeof keeps);
    const int code = status != MNEM_OK ? tool_fail(status)
                     : keeps           ? train_diverged_say(run)
                                       : save(run);
    if (code != TOOL_OK) return keeps && exit_code != TOOL_OK ? exit_code : code;
    if (!run->undrawn && !train_follows()) train_draw(run);
    if (!run->args->quiet) {
        train_report_end(stderr, run);
        fprintf(
            stderr,
            "the run was stopped after step %lld; to continue, or to write the %s so far:\n"
            "    mnem train --out %s --resume\n    mnem train --out %s --resume --export FILE\n",
            (long long)step, run->config.lora ? "adapter" : "model", run->out, run->out);
    }
    if (run->args->json)
        tool_out_json("result",
                      train_result_json(run, "checkpoint", train_path(run, "checkpoint"), step));
    const int said = tool_out_end();
    return exit_code == TOOL_OK ? said : exit_code;
}

static int fail_step(train_run *run, mnem_status status) {
    if (status == MNEM_CANCELLED && train_ranks() > 1) return stop_ranks(run);
    if (status == MNEM_CANCELLED && tool_interrupted()) return stop(run, TOOL_INTERRUPTED);
    return fail_run(run, status);
}

/* At the place where the checkpoint stands, whose look a signal may have cut off. */
static int begin_loop(train_run *run) {
    const uint64_t step = mnem_trainer_steps(run->trainer);
    if (step > 0 && train_wants_look(run, step)) return look_between(run);
    const mnem_status status = feed_training(run);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int run_steps(train_run *run) {
    const int code = begin_loop(run);
    if (code != TOOL_OK) return code;
    loop l = {.saved = tool_clock(), .begun = tool_clock()};
    mnem_train_report report;
    const mnem_train_source source = {train_feed_next, run};
    mnem_status status;
    tool_load_get(&run->load);
    if (run->asked->adapt) train_adapt_begin(run);
    tool_progress_begin(&l.progress, l.what);
    if (run->config.steps)
        l.progress.before = (double)mnem_trainer_steps(run->trainer) / (double)run->config.steps;
    while (!is_last(run, mnem_trainer_steps(run->trainer))) {
        /* Of several ranks the step that a signal stops ends on all of them. */
        if (tool_interrupted() && train_ranks() == 1) return stop(run, TOOL_INTERRUPTED);
        const double begin = tool_clock(), cpu = tool_cpu_clock();
        status = mnem_trainer_step(run->trainer, &source, &report);
        const double seconds = tool_clock() - begin, used = tool_cpu_clock() - cpu;
        if (l.started > 0) run->cpu_done += used; /* as the steps that are timed */
        if (status != MNEM_OK) return fail_step(run, status);
        int after = after_step(run, &l, &report);
        if (after == TOOL_OK) after = adapt(run, &l, seconds, used);
        if (after != TOOL_OK) return after;
    }
    tool_progress_end(&l.progress);
    return TOOL_OK;
}

/* What is said of a finished run. cut: a signal ended its last look. */
static int say_finished(train_run *run, bool cut) {
    const int64_t steps = (int64_t)mnem_trainer_steps(run->trainer);
    if (train_follows()) return cut ? TOOL_INTERRUPTED : TOOL_OK;
    const int drawn = train_draw(run);
    if (cut && !run->args->quiet)
        tool_message(run->validated != steps && run->validation.count
                         ? "interrupted after the last step: the %s is complete, but its held-out "
                           "loss was not measured"
                         : "interrupted after the last step: the %s is complete, but the sample of "
                           "its text was not finished",
                     run->config.lora ? "adapter" : "model");
    train_report_end(stderr, run);
    train_result_say(run, steps);
    train_result_say_use(run);
    const int said = tool_out_end();
    return cut ? TOOL_INTERRUPTED : drawn == TOOL_OK ? said : drawn;
}

/* The feed's memory is room for the writer, and needed again to look. */
static mnem_status write_result(train_run *run) {
    train_feed_give(run);
    const mnem_status status = train_ranks_all(train_follows() ? MNEM_OK : train_result_write(run));
    return status == MNEM_OK ? train_ranks_all(train_feed_take(run)) : status;
}

/* What is trained is written before anything else takes time: a signal during the last look loses
 * that look only. */
static int finish(train_run *run) {
    const uint64_t steps = mnem_trainer_steps(run->trainer);
    if (!run->config.steps || steps < (uint64_t)run->config.steps)
        return stop(run, tool_interrupted() ? TOOL_INTERRUPTED : TOOL_OK);
    bool diverged = train_diverged(run, NULL);
    mnem_status status = train_ranks_say(&diverged, sizeof diverged);
    if (status == MNEM_OK && diverged) return train_diverged_say(run);
    int code = status == MNEM_OK ? save(run) : tool_fail(status);
    if (code != TOOL_OK) return code;
    status = write_result(run);
    if (status != MNEM_OK) return fail_run(run, status);
    run->finished = true;
    status = train_look(run);
    train_feed_give(run);
    if (status != MNEM_OK && status != MNEM_CANCELLED) return fail_run(run, status);
    code = say_finished(run, status == MNEM_CANCELLED);
    return code == TOOL_OK ? train_finite_check(run) : code;
}

int train_loop(train_run *run) {
    const int code = run_steps(run);
    return code == TOOL_OK ? finish(run) : code;
}
