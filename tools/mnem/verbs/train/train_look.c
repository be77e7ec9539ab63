/* train_look.c: looks at what was learned, the loss of held-out text and a sample, and how long a
 * run takes with them.
 *
 * A look runs the model forward only; a run has one after each tenth of its steps and one at its
 * end, when the result is written already. A sample runs the text again for each of its tokens, so
 * looks may take longer than a short run's steps: they are part of the predicted time, and their
 * progress is shown. */
#include <math.h>

#include "verbs/train/train_tool.h"

enum { VALIDATIONS = 10 };
static const double line_seconds = 10;

/* ---- work whose end isn't near ---- */

void train_slow_begin(const train_run *run, train_slow *slow, const char *what) {
    *slow = (train_slow){.what = what, .said = tool_clock(), .quiet = run->args->quiet};
    tool_progress_begin(&slow->progress, what);
}

/* A line on a terminal; elsewhere one now and then. */
void train_slow_step(train_slow *slow, uint64_t done, uint64_t all, const char *unit) {
    char note[80];
    const double now = tool_clock();
    snprintf(note, sizeof note, "%llu of %llu %s", (unsigned long long)done,
             (unsigned long long)all, unit);
    tool_progress_step(&slow->progress, done, all, note);
    if (slow->quiet || slow->progress.terminal || now - slow->said < line_seconds) return;
    slow->said = now;
    fprintf(stderr, "%s: %s\n", slow->what, note);
}

void train_slow_end(train_slow *slow) {
    tool_progress_end(&slow->progress);
}

/* ---- when ---- */

/* Steps between two looks; 0: only the end has one. */
static int64_t look_every(const train_run *run) {
    const int64_t steps = run->config.steps;
    return steps < VALIDATIONS ? 0 : (steps + VALIDATIONS - 1) / VALIDATIONS;
}

bool train_wants_look(const train_run *run, uint64_t step) {
    const int64_t every = look_every(run);
    return every > 0 && step % (uint64_t)every == 0 && step < (uint64_t)run->config.steps;
}

/* Half-way and at the end; at every look where --sample or -v was given. */
static bool wants_sample(const train_run *run, int64_t step) {
    if (!train_sample_wanted(run)) return false;
    return run->asked->sample || run->args->verbose || step >= run->config.steps ||
           step == look_every(run) * (VALIDATIONS / 2);
}

/* ---- a look ---- */

typedef struct held_out {
    train_run *run;
    train_slow slow;
    uint64_t done, all; /* windows of this rank */
} held_out;

static mnem_status next_held_out(void *context, mnem_train_batch *batch) {
    held_out *h = context;
    if (h->done) train_slow_step(&h->slow, h->done, h->all, "sequences");
    const mnem_status status = train_feed_next(h->run, batch);
    if (status == MNEM_OK) h->done += (uint64_t)batch->sequences;
    return status;
}

/* Each rank's part of the held-out windows; it may be none. */
static mnem_status start_held_out(train_run *run, uint64_t *windows) {
    const uint64_t count = run->validation.count, ranks = (uint64_t)run->plan.ranks;
    const uint64_t rank = (uint64_t)(run->options.comm ? mnem_comm_rank(run->options.comm) : 0);
    const uint64_t first = count * rank / ranks, end = count * (rank + 1) / ranks;
    train_feed_stop(run);
    *windows = end - first;
    return first < end ? train_feed_start(run, &run->validation, first, end) : MNEM_OK;
}

static mnem_status measure_held_out(train_run *run, double *loss) {
    held_out h = {.run = run};
    int64_t tokens;
    const mnem_status status = train_ranks_all(start_held_out(run, &h.all));
    if (status != MNEM_OK) return status;
    train_slow_begin(run, &h.slow, "held-out loss");
    h.slow.quiet = h.slow.quiet || train_follows();
    const mnem_status measured =
        mnem_trainer_evaluate(run->trainer, &(mnem_train_source){next_held_out, &h}, loss, &tokens);
    train_slow_end(&h.slow);
    return measured;
}

static void say_held_out(const train_run *run, int64_t step, double loss, double bits) {
    tool_progress_hide();
    if (run->args->quiet) return;
    fprintf(stderr, "step %lld: held-out loss %.4f, perplexity %.4g", (long long)step, loss,
            exp(loss));
    if (train_is_chat(run))
        fputs(" of answers\n", stderr);
    else
        fprintf(stderr, ", %.4f bits per byte\n", bits);
}

/* The record comes last, so that a step that has one has had both: one that a signal cut off is
 * looked at again when the run goes on. At the end nothing goes on. */
static mnem_status sample_and_log(train_run *run, int64_t step, double loss) {
    const double bytes_per_token =
        (double)run->corpus_info.text_bytes / (double)run->corpus_info.tokens;
    /* Files of conversations have more than what is learned. */
    const double bits = train_is_chat(run) ? NAN : loss / log(2) / bytes_per_token;
    say_held_out(run, step, loss, bits);
    const mnem_status status = wants_sample(run, step) ? train_sample(run) : MNEM_OK;
    const bool cut = status == MNEM_CANCELLED && step >= run->config.steps;
    if (status == MNEM_OK || cut) train_log_validation(run, step, loss, bits);
    return status;
}

static mnem_status look_alone(train_run *run, int64_t step, double loss) {
    if (train_follows()) return MNEM_OK;
    if (run->validation.count) return sample_and_log(run, step, loss);
    return wants_sample(run, step) ? train_sample(run) : MNEM_OK;
}

mnem_status train_look(train_run *run) {
    double loss = 0;
    const int64_t step = (int64_t)mnem_trainer_steps(run->trainer);
    bool looked = run->validated == step;
    mnem_status status = train_ranks_say(&looked, sizeof looked);
    if (status != MNEM_OK || looked) return status;
    if (run->validation.count > 0) status = measure_held_out(run, &loss);
    if (status == MNEM_OK) status = train_ranks_all(look_alone(run, step, loss));
    return status;
}

/* ---- how long ---- */

bool train_stops_before(const train_run *run) {
    const uint64_t stop = run->asked->stop_after;
    return stop && stop < (uint64_t)run->config.steps;
}

/* Steps to come that have a look, or a sample. A run that --stop-after ends has none at its end. */
static int64_t looks_of(const train_run *run, bool with_sample) {
    const bool stops = train_stops_before(run);
    const int64_t every = look_every(run), before = run->steps_before, at_end = !stops;
    const int64_t last = stops ? (int64_t)run->asked->stop_after : run->config.steps - 1;
    const int64_t half = every * (VALIDATIONS / 2);
    const int64_t between = every > 0 && before < last ? last / every - before / every : 0;
    if (!with_sample) return run->validation.count ? between + at_end : 0;
    if (!train_sample_wanted(run)) return 0;
    if (run->asked->sample || run->args->verbose) return between + at_end;
    return (before < half && half <= last) + at_end;
}

/* A forward pass multiplies a third of what a step does, half where most weights are frozen. */
static double forward_seconds(const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    const double tokens = (double)(p->share ? p->share : run->config.batch) * run->config.context;
    const double once = p->macs_per_step > 0 ? 1 - p->recomputed / p->macs_per_step : 1;
    return run->seconds * once / (run->config.lora ? 2 : 3) / tokens;
}

/* What is written each time: weights and moments of what is trained. */
static double checkpoint_seconds(const train_run *run) {
    static const double bytes_per_s = 5e8; /* a plain disk */
    return (double)(run->plan.weight_bytes + run->plan.optimizer_bytes) / bytes_per_s;
}

int64_t train_steps_left(const train_run *run) {
    const int64_t end =
        train_stops_before(run) ? (int64_t)run->asked->stop_after : run->config.steps;
    const int64_t left = end - run->steps_before;
    return left > 0 ? left : 0;
}

train_times train_times_of(const train_run *run) {
    const mnem_train_plan *p = &run->plan;
    train_times t = {.looks = looks_of(run, false), .samples = looks_of(run, true)};
    if (run->seconds <= 0 || !run->config.steps) return t;
    const double forward = forward_seconds(run), ranks = p->ranks > 1 ? p->ranks : 1;
    const double windows = ceil((double)run->validation.count / ranks);
    const int64_t left = train_steps_left(run), every = (int64_t)run->asked->save_every;
    t.steps = (double)left * run->seconds;
    t.look = windows * run->config.context * forward;
    t.sample = (double)train_sample_tokens(run) * forward;
    t.all = t.steps + (double)t.looks * t.look + (double)t.samples * t.sample;
    t.saves = every ? left / every : (int64_t)(t.all / TRAIN_SAVE_SECONDS);
    if (t.saves > left) t.saves = left;
    t.saves++; /* at the end */
    t.save = checkpoint_seconds(run);
    t.all += (double)t.saves * t.save;
    return t;
}

/* ", 9 looks at held-out text 3.1 s": unless there is none. */
static int add_phase(char *text, size_t size, int64_t count, double each, const char *what) {
    char time[TOOL_TEXT];
    if (count <= 0 || each <= 0) return 0;
    return snprintf(text, size, ", %s (%lld) %s", what, (long long)count,
                    tool_seconds((double)count * each, time));
}

/* "steps 1.9 s, held-out loss (11) 12 s, samples (2) 20 s, checkpoints (1) 0.1 s" */
char *train_times_text(const train_times *t, char text[TRAIN_TIMES]) {
    char time[TOOL_TEXT];
    int n = snprintf(text, TRAIN_TIMES, "steps %s", tool_seconds(t->steps, time));
    n += add_phase(text + n, (size_t)(TRAIN_TIMES - n), t->looks, t->look, "held-out loss");
    n += add_phase(text + n, (size_t)(TRAIN_TIMES - n), t->samples, t->sample, "samples");
    add_phase(text + n, (size_t)(TRAIN_TIMES - n), t->saves, t->save, "checkpoints");
    return text;
}
