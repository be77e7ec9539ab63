/* train_result.c: writes the result of a run, a model or an adapter, and reports it.
 *
 * It is written from the trainer's weights when all steps are done, and has its name when it is
 * whole; a run that has the last checkpoint and the result has nothing left to do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output_file.h"
#include "ranks/ranks.h"
#include "verbs/train/train_tool.h"

const char *train_result_path(const train_run *run) {
    if (run->asked->export) return run->asked->export;
    return train_path(run, run->config.lora ? "adapter.gguf" : "model.gguf");
}

/* general.name and general.license. */
static mnem_status write_names(const train_run *run, mnem_gguf_writer *writer) {
    const train_config *c = &run->config;
    char whole[PATH_MAX];
    const char *name = c->name;
    if (!*name) name = realpath(run->out, whole) ? strrchr(whole, '/') + 1 : run->out;
    const mnem_status status = mnem_gguf_key_text(writer, "general.name", name);
    if (status != MNEM_OK || !*c->license) return status;
    return mnem_gguf_key_text(writer, "general.license", c->license);
}

mnem_status train_result_save(train_run *run) {
    char note[TRAIN_NOTE], path[PATH_MAX + 64];
    train_text_note(run, note);
    snprintf(path, sizeof path, "%s", train_path(run, "checkpoint"));
    tool_new_writes(path);
    const mnem_status status = mnem_trainer_save(run->trainer, path, note);
    tool_new_writes(NULL);
    return status;
}

static mnem_status write_model(train_run *run, const char *path) {
    mnem_gguf_writer *writer;
    mnem_status status = mnem_gguf_create(path, &writer);
    if (status != MNEM_OK) return status;
    status = write_names(run, writer);
    const bool lora = run->config.lora != 0;
    if (status == MNEM_OK && !lora) status = mnem_tokenizer_write(run->tokenizer, writer);
    if (status == MNEM_OK)
        status = mnem_trainer_write(run->trainer, lora ? MNEM_TYPE_F32 : MNEM_TYPE_F16, writer);
    if (status == MNEM_OK) return mnem_gguf_finish(writer);
    mnem_gguf_abort(writer);
    return status;
}

mnem_status train_result_write(train_run *run) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s", train_result_path(run));
    tool_new_writes(path);
    const mnem_status status = write_model(run, path);
    tool_new_writes(NULL);
    return status;
}

/* ---- what is said at the end ---- */

/* The object that ends a stream of --json. */
json_t *train_result_json(const train_run *run, const char *what, const char *path, int64_t step) {
    json_t *object =
        json_pack("{s:b, s:o?, s:I, s:f, s:o}", "finished", run->finished, what, json_string(path),
                  "step", (json_int_t)step, "loss", run->loss_last, "validation_loss",
                  run->validated ? tool_json_real(run->loss_validation) : json_null());
    const uint64_t beyond = run->ledger ? tool_bytes_unaccounted(run->ledger) : 0;
    json_t *bytes = json_pack("{s:I, s:I, s:I, s:I}", "bytes_peak", (json_int_t)tool_peak_bytes(),
                              "bytes_unaccounted", (json_int_t)beyond, "predicted_bytes",
                              (json_int_t)train_report_peak(run), "budget_bytes",
                              (json_int_t)run->plan.budget_bytes);
    if (bytes && run->ledger) json_object_set_new(bytes, "ledger", tool_ledger_json(run->ledger));
    if (object && bytes && run->trainer) json_object_update(object, bytes); /* else nothing ran */
    json_decref(bytes);
    return object;
}

void train_result_say(const train_run *run, int64_t step) {
    const char *path = train_result_path(run);
    if (run->args->json) {
        const char *what = run->config.lora ? "adapter" : "model";
        tool_out_json("result", train_result_json(run, what, path, step));
        return;
    }
    char text[160];
    const int n = snprintf(text, sizeof text, "%lld step%s, loss %.4f", (long long)step,
                           tool_s((uint64_t)step), run->loss_last);
    if (run->validation_curve.count)
        snprintf(text + n, sizeof text - (size_t)n, ", held-out perplexity %.4g",
                 exp(run->loss_validation));
    tool_out_result(path, text);
}

/* The model of --init as it was given, which may be a link; of a run that goes on without it, from
 * the current folder where it is below that. */
static const char *given_model(const train_run *run) {
    static char folder[PATH_MAX];
    const char *whole = run->config.init;
    if (run->asked->init) return run->asked->init;
    const size_t n = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    return n > 1 && strncmp(whole, folder, n) == 0 && whole[n] == '/' ? whole + n + 1 : whole;
}

/* What the result is for. */
void train_result_say_use(const train_run *run) {
    const char *path = train_result_path(run), *model = given_model(run);
    if (run->args->quiet || run->args->json) return;
    tool_out_flush(); /* in the order in which they are said */
    if (run->config.lora)
        fprintf(stderr,
                "to generate text with it, or to write a model that includes it:\n"
                "    mnem run %s --lora %s -p TEXT\n"
                "    mnem merge %s %s -o OUT\n",
                model, path, model, path);
    else
        fprintf(stderr, "to generate text with it:\n    mnem run %s -p TEXT\n", path);
}

/* ---- a run that is finished already ---- */

/* The checkpoint has all steps, and the result was written after it. */
static bool is_whole(const train_run *run) {
    uint64_t steps = 0;
    if (!run->asked->resume || run->asked->export || !run->config.steps ||
        access(train_result_path(run), F_OK) != 0)
        return false;
    return mnem_trainer_steps_saved(train_path(run, "checkpoint"), &steps) == MNEM_OK &&
           steps >= (uint64_t)run->config.steps;
}

bool train_result_is_whole(const train_run *run) {
    bool whole = !train_follows() && is_whole(run);
    return train_ranks_say(&whole, sizeof whole) == MNEM_OK && whole;
}

int train_result_say_whole(train_run *run) {
    const bool lora = run->config.lora != 0;
    run->finished = true;
    train_log_read(run, run->config.steps);
    tool_message(
        lora ? "the run in %s is finished: all %lld steps are done. To train further, use --resume "
               "with a larger length (--steps N or --epochs N), or merge the adapter %s into its "
               "model (mnem merge) and start a new run: mnem train --init MERGED --data FILE --out "
               "NEW"
             : "the run in %s is finished: all %lld steps are done. To train further, use --resume "
               "with a larger length (--steps N or --epochs N), or start a new run from its model: "
               "mnem train --init %s --data FILE --out NEW",
        run->out, (long long)run->config.steps, train_result_path(run));
    train_result_say(run, run->config.steps);
    return tool_out_end();
}

/* ---- the model of a run that was stopped ---- */

int train_export_check(const train_run *run) {
    static const char *const idle[] = {"dry-run",    "steps",      "tokens", "time",  "epochs",
                                       "stop-after", "save-every", "adapt",  "sample"};
    if (!run->asked->export) return TOOL_OK;
    if (!run->asked->resume)
        return tool_usage("train", "--export writes the model of a run that was stopped, so it "
                                   "needs --resume and the folder of that run");
    if (tool_ranks())
        return tool_usage("train",
                          "--export is not supported with several ranks: run it without mpirun");
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (tool_given(run->args, idle[i]))
            return tool_usage(
                "train", "--export does no training, so --%s has no effect: leave it out", idle[i]);
    return TOOL_OK;
}

int train_export_find(const train_run *run) {
    if (!run->asked->export || access(train_path(run, "checkpoint"), F_OK) == 0) return TOOL_OK;
    return tool_failed("the run in %s has no checkpoint yet, so there is nothing to export: the "
                       "same command without --export starts the training",
                       run->out);
}

int train_export(train_run *run) {
    const int64_t steps = (int64_t)mnem_trainer_steps(run->trainer);
    const mnem_status status = train_result_write(run);
    if (status != MNEM_OK) return tool_fail(status);
    run->finished = run->config.steps && steps >= run->config.steps;
    train_log_read(run, steps);
    train_result_say(run, steps);
    train_result_say_use(run);
    return tool_out_end();
}
