/* train_diverged.c: has a run's loss risen far above its start?
 *
 * The means of as many first and last losses are compared, a tenth of the run each, at most
 * TRAIN_MEAN. With n losses in each mean a run has diverged where
 *
 *     last > 1.25 first + 4 / sqrt(n)
 *
 * since the loss of one step varies by about a nat between small batches, and that of a mean by
 * the root of n less. A new model's loss begins at the logarithm of its vocabulary, which only a
 * diverged one exceeds; a fine-tuned one's begins below that. */
#include <math.h>
#include <unistd.h>

#include "verbs/train/train_tool.h"

static int mean_steps(const train_run *run) {
    const int64_t tenth = run->config.steps / 10;
    return tenth < 1 ? 1 : tenth < TRAIN_MEAN ? (int)tenth : TRAIN_MEAN;
}

static train_means means_of(const train_losses *l, int n) {
    train_means m = {.steps = n};
    for (int i = 0; i < n; i++) {
        m.first += l->first[i] / n;
        m.last += l->last[(l->count - 1 - i) % TRAIN_MEAN] / n;
    }
    m.bound = 1.25 * m.first + 4 / sqrt(n);
    return m;
}

bool train_diverged(const train_run *run, train_means *means) {
    const int n = mean_steps(run);
    if (!run->config.steps || run->losses.count < 2 * n) return false;
    const train_means m = means_of(&run->losses, n);
    if (means) *means = m;
    return m.last > m.bound;
}

int train_diverged_say(const train_run *run) {
    const char *path = train_path(run, "checkpoint");
    uint64_t steps = 0;
    train_means m = {0};
    tool_progress_hide();
    if (train_follows()) return TOOL_FAILED;
    train_diverged(run, &m);
    const int code = tool_failed(
        "the training diverged: the loss of the last %d step%s is %.4g on average, that of the "
        "first %d was %.4g; no result is written. Start again with a --rate below %g",
        m.steps, tool_s((uint64_t)m.steps), m.last, m.steps, m.first, run->config.rate);
    if (access(path, F_OK) == 0 && mnem_trainer_steps_saved(path, &steps) == MNEM_OK)
        tool_message("the checkpoint of step %llu, before the training diverged, is kept; to write "
                     "its %s:\n    mnem "
                     "train --out %s --resume --export FILE",
                     (unsigned long long)steps, run->config.lora ? "adapter" : "model", run->out);
    else
        tool_message("the run had written no checkpoint; --save-every N writes one every N steps");
    return code;
}

int train_finite_check(const train_run *run) {
    const int64_t steps = (int64_t)mnem_trainer_steps(run->trainer);
    if (train_follows() || run->validated != steps || isfinite(run->loss_validation))
        return TOOL_OK;
    const char *what = run->config.lora ? "adapter" : "model";
    return tool_failed(
        "the held-out loss of the finished %s is not finite, so the %s is unlikely to "
        "generate text: start again with a lower --rate than %g, or with "
        "--precision f32",
        what, what, run->config.rate);
}
