/* train_loop.c: the steps of a run, and what comes between them.
 *
 * After a step: its line, the number of steps of a run with --time once steps were timed, an
 * evaluation of held-out text after each tenth of the run, a checkpoint about every minute. A
 * signal is no failure: the loop stops after the current step, with a checkpoint. The time of steps
 * excludes that of evaluations and checkpoints. */
#include <math.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "sight/monitor_file.h"
#include "verbs/train/train_tool.h"

enum { VALIDATIONS = 10, TIMED_STEPS = 6 };
static const double save_seconds = 60, line_seconds = 10;

typedef struct loop {
    tool_progress progress;
    char what[32];             /* "step 12" */
    double begun, saved, said; /* clock */
    double started;            /* clock, after the first step, which is slower */
    int64_t steps;             /* of this process after the first */
    double seconds_per_step;
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

/* Half-way and at the end; at every evaluation where --sample or -v was given. */
static bool wants_sample(const train_run *run, int64_t step) {
    const int64_t every = run->config.steps / VALIDATIONS;
    return run->asked->sample || run->args->verbose || step >= run->config.steps ||
           step == every * (VALIDATIONS / 2);
}

static mnem_status sample_and_log(train_run *run, int64_t step, double loss) {
    const double bytes_per_token =
        (double)run->corpus_info.text_bytes / (double)run->corpus_info.tokens;
    const bool chat = train_is_chat(run); /* whose files have more than what is learned */
    const double bits = chat ? NAN : loss / log(2) / bytes_per_token;
    tool_progress_hide();
    if (!run->args->quiet)
        fprintf(stderr, "step %lld: held-out loss %.4f, perplexity %.4g", (long long)step, loss,
                exp(loss));
    if (!run->args->quiet && chat) fputs(" of answers\n", stderr);
    if (!run->args->quiet && !chat) fprintf(stderr, ", %.4f bits per byte\n", bits);
    const mnem_status status = wants_sample(run, step) ? train_sample(run) : MNEM_OK;
    if (status == MNEM_OK) train_log_validation(run, step, loss, bits);
    return status;
}

/* What was learned: the loss of held-out text, and a sample. The record comes last, so that a step
 * that has one has had both; one that a signal cut off is looked at again when the run goes on. */
static mnem_status look_alone(train_run *run, int64_t step, double loss) {
    if (train_follows()) return MNEM_OK;
    if (run->validation.count) return sample_and_log(run, step, loss);
    return wants_sample(run, step) ? train_sample(run) : MNEM_OK;
}

/* Each rank's part of the held-out windows; it may be none. */
static mnem_status start_held_out(train_run *run) {
    const uint64_t count = run->validation.count, ranks = (uint64_t)run->plan.ranks;
    const uint64_t rank = (uint64_t)(run->options.comm ? mnem_comm_rank(run->options.comm) : 0);
    const uint64_t first = count * rank / ranks, end = count * (rank + 1) / ranks;
    train_feed_stop(run);
    return first < end ? train_feed_start(run, &run->validation, first, end) : MNEM_OK;
}

static mnem_status look(train_run *run) {
    double loss = 0;
    int64_t tokens;
    const int64_t step = (int64_t)mnem_trainer_steps(run->trainer);
    bool looked = run->validated == step;
    mnem_status status = train_ranks_say(&looked, sizeof looked);
    if (status != MNEM_OK || looked) return status;
    if (run->validation.count > 0) status = train_ranks_all(start_held_out(run));
    if (status == MNEM_OK && run->validation.count > 0)
        status = mnem_trainer_evaluate(run->trainer, &(mnem_train_source){train_feed_next, run},
                                       &loss, &tokens);
    if (status == MNEM_OK) status = train_ranks_all(look_alone(run, step, loss));
    return status;
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
    if (run->config.warmup > run->config.steps / 10) run->config.warmup = run->config.steps / 10;
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

/* The end validates for itself; a stop doesn't. */
static bool wants_look(const train_run *run, uint64_t step) {
    const int64_t every = run->config.steps / VALIDATIONS;
    return every > 0 && step % (uint64_t)every == 0 && step < (uint64_t)run->config.steps;
}

/* By the clock of rank 0. */
static int wants_save(const train_run *run, const loop *l, uint64_t step, bool *wants) {
    *wants = run->asked->save_every ? step % run->asked->save_every == 0
                                    : tool_clock() - l->saved > save_seconds;
    const mnem_status status = train_ranks_say(wants, sizeof *wants);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
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
    mnem_status status = look(run);
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
    run->seconds_all = now - l->begun;
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
    if (code == TOOL_OK && wants_look(run, r->step)) {
        code = look_between(run);
        l->started += tool_clock() - now; /* that wasn't a step's time */
    }
    bool saves = false;
    if (code == TOOL_OK) code = wants_save(run, l, r->step, &saves);
    if (code == TOOL_OK && saves) {
        const double begin = tool_clock();
        code = save(run);
        l->saved = tool_clock();
        l->started += l->saved - begin;
    }
    return code;
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
    const int code = save(run);
    if (code != TOOL_OK) return code;
    if (!run->undrawn && !train_follows()) train_draw(run);
    if (!run->args->quiet) {
        train_report_end(stderr, run);
        fprintf(stderr,
                "the run was stopped after step %lld; to continue it, or to write the %s so far:\n "
                "   mnem train --out %s --resume\n    mnem train --out %s --resume --export FILE\n",
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
    if (step > 0 && wants_look(run, step)) return look_between(run);
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

static int finish(train_run *run) {
    const uint64_t steps = mnem_trainer_steps(run->trainer);
    if (!run->config.steps || steps < (uint64_t)run->config.steps)
        return stop(run, tool_interrupted() ? TOOL_INTERRUPTED : TOOL_OK);
    int code = save(run);
    if (code != TOOL_OK) return code;
    mnem_status status = look(run);
    train_feed_give(run);
    if (status == MNEM_OK)
        status = train_ranks_all(train_follows() ? MNEM_OK : train_result_write(run));
    if (status != MNEM_OK) return fail_step(run, status);
    run->finished = true;
    if (train_follows()) return TOOL_OK;
    code = train_draw(run);
    train_report_end(stderr, run);
    train_result_say(run, (int64_t)steps);
    train_result_say_use(run);
    const int said = tool_out_end();
    return code == TOOL_OK ? said : code;
}

int train_loop(train_run *run) {
    const int code = run_steps(run);
    return code == TOOL_OK ? finish(run) : code;
}
