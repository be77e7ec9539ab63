/* train_resume.c: options of a resumed run.
 *
 * The rule: all options of the first command may be repeated. Equal values are accepted, the length
 * may grow, and other differences are refused with both values. Budget, threads and output aren't
 * properties of a run: they may change. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "verbs/train/train_tool.h"

/* ---- the folder ---- */

/* `--resume FOLDER` is what people try; it isn't text, nor is what isn't there. */
bool train_resume_is_folder(const char *path) {
    struct stat about;
    return strcmp(path, "-") != 0 && (stat(path, &about) != 0 || S_ISDIR(about.st_mode));
}

const char *train_resume_folder(const train_options *asked) {
    for (int i = 0; asked->resume && i < asked->args.operands; i++)
        if (train_resume_is_folder(asked->args.operand[i])) return asked->args.operand[i];
    return asked->out ? asked->out : "mnem-train";
}

static int check_folder(const train_run *run) {
    const train_options *asked = run->asked;
    int folders = 0;
    for (int i = 0; i < asked->args.operands; i++)
        folders += train_resume_is_folder(asked->args.operand[i]);
    if (folders + (asked->out != NULL) < 2) return TOOL_OK;
    return tool_usage(
        "train",
        "--resume continues the run of one folder, but several names (operands that are no "
        "files, and --out) count as folders: give one, and check the spelling of the others");
}

/* ---- values ---- */

static int differs(const train_run *run, const char *option, const char *asked, const char *has) {
    return tool_usage("train",
                      "--%s is %s, but the run in %s has %s: leave out --%s to continue with the "
                      "run's value, or start a run in another --out",
                      option, asked, run->out, has, option);
}

/* Options, and the keys of what they say. */
static const struct {
    const char *option, *key;
} same[] = {{"batch", "batch"},
            {"ctx", "context"},
            {"batch-per-rank", "batch"},
            {"rate", "rate"},
            {"warmup", "warmup"},
            {"weight-decay", "weight_decay"},
            {"clip", "clip"},
            {"dropout", "dropout"},
            {"heldout", "heldout"},
            {"seed", "seed"},
            {"moments", "moments"},
            {"time", "time"},
            {"init", "init"},
            {"lora", "lora"},
            {"lora-alpha", "lora_alpha"},
            {"lora-targets", "lora_targets"},
            {"masked", "masked"},
            {"distill", "distill"},
            {"distill-weight", "distill_weight"},
            {"distill-temperature", "distill_temperature"},
            {"distill-on", "distill_on"},
            {"config", "base"},
            {"template-args", "template_args"}};

static int check_values(const train_run *run, const train_config *asked) {
    char ours[TRAIN_VALUE], theirs[TRAIN_VALUE];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (!tool_given(run->args, same[i].option)) continue;
        if (train_config_same(asked, &run->config, same[i].key, ours, theirs)) continue;
        return differs(run, same[i].option, ours, theirs);
    }
    return TOOL_OK;
}

/* What a run settled for itself: auto became a type, a small text gave a smaller vocabulary. */
static int check_settled(const train_run *run, const train_config *asked) {
    const train_config *c = &run->config;
    char ours[TRAIN_VALUE], theirs[TRAIN_VALUE];
    const bool vocab = tool_given(run->args, "vocab") && asked->vocab != c->vocab_asked;
    if (vocab && !train_config_same(asked, c, "vocab", ours, theirs))
        return differs(run, "vocab", ours, theirs);
    const bool precision = tool_given(run->args, "precision") && strcmp(asked->precision, "auto");
    if (precision && !train_config_same(asked, c, "precision", ours, theirs))
        return differs(run, "precision", ours, theirs);
    return TOOL_OK;
}

/* ---- text and template ---- */

/* Standard input was kept in the folder, and is the run's text. */
static bool same_file(const train_run *run, const char *asked, const char *has) {
    char kept[PATH_MAX];
    if (strcmp(asked, "-") != 0) return strcmp(asked, has) == 0;
    return realpath(train_path(run, TRAIN_SPOOL), kept) && !strcmp(kept, has);
}

static int check_files(const train_run *run, const train_config *asked) {
    const train_config *c = &run->config;
    char ours[TOOL_TEXT], theirs[TOOL_TEXT];
    if (asked->files == 0) return TOOL_OK;
    snprintf(ours, sizeof ours, "%d file%s", asked->files, tool_s((uint64_t)asked->files));
    snprintf(theirs, sizeof theirs, "%d", c->files);
    if (asked->files != c->files) return differs(run, "data", ours, theirs);
    for (int32_t i = 0; i < c->files; i++)
        if (!same_file(run, asked->file[i], c->file[i]))
            return differs(run, "data", asked->file[i], c->file[i]);
    return TOOL_OK;
}

static int check_template(const train_run *run) {
    const char *path = run->asked->template.file;
    mnem_model *model;
    mnem_value value = {0};
    char *text;
    if (!path) return TOOL_OK;
    int code = train_template_read(path, &text);
    if (code != TOOL_OK) return code;
    const mnem_status status = mnem_model_open(train_path(run, "vocabulary.gguf"), &model);
    if (status != MNEM_OK) code = tool_fail(status);
    if (status == MNEM_OK && (!mnem_model_key_find(model, "tokenizer.chat_template", &value) ||
                              value.text.length != strlen(text) ||
                              memcmp(value.text.bytes, text, value.text.length) != 0))
        code = differs(run, "template", path, "another template");
    if (status == MNEM_OK) mnem_model_close(model);
    free(text);
    return code;
}

/* ---- the length ---- */

static int grow(train_run *run, int64_t steps) {
    train_config *c = &run->config;
    if (steps == c->steps) return TOOL_OK;
    if (c->steps == 0)
        return tool_usage("train",
                          "the length of the run in %s comes from --time and is not known in steps "
                          "yet: leave out --steps, --tokens and --epochs, or use --stop-after %lld",
                          run->out, (long long)steps);
    if (steps < c->steps)
        return tool_usage(
            "train",
            "the run in %s has %lld steps, which can be raised but not lowered to "
            "%lld: --stop-after %lld ends the run there, if it has not passed that step",
            run->out, (long long)c->steps, (long long)steps, (long long)steps);
    if (!run->args->quiet)
        tool_message("the run now has %lld steps instead of %lld; from here on, the learning rate "
                     "follows the longer schedule",
                     (long long)steps, (long long)c->steps);
    c->steps = steps;
    c->epochs = 0; /* unless they say it */
    return TOOL_OK;
}

static int grow_epochs(train_run *run, double epochs) {
    train_config *c = &run->config;
    if (!c->windows)
        return tool_usage("train",
                          "the run in %s doesn't record how many steps an epoch has: give --steps",
                          run->out);
    const int code = grow(run, train_config_epochs(c, epochs));
    if (code == TOOL_OK) c->epochs = epochs;
    return code;
}

static int check_length(train_run *run) {
    const train_options *asked = run->asked;
    const int64_t each = (int64_t)run->config.batch * run->config.context;
    if (tool_given(run->args, "tokens"))
        return grow(run, ((int64_t)asked->tokens + each - 1) / each);
    if (tool_given(run->args, "epochs")) return grow_epochs(run, asked->epochs);
    return tool_given(run->args, "steps") ? grow(run, (int64_t)asked->steps) : TOOL_OK;
}

int train_resume_check(train_run *run) {
    train_config asked = run->config;
    asked.files = 0;
    int code = check_folder(run);
    if (code == TOOL_OK) code = train_config_say(run->asked, &asked);
    if (code == TOOL_OK) code = train_config_lora(&asked);
    if (code == TOOL_OK) code = train_teacher_config(&asked);
    if (code == TOOL_OK) code = check_values(run, &asked);
    if (code == TOOL_OK) code = check_settled(run, &asked);
    if (code == TOOL_OK) code = check_files(run, &asked);
    if (code == TOOL_OK) code = check_template(run);
    if (code == TOOL_OK) code = check_length(run);
    train_config_fini(&asked);
    return code;
}

/* ---- a folder that holds a run, without --resume ---- */

int train_resume_say(const train_run *run) {
    static train_config saved;
    uint64_t steps = 0;
    const char *result = train_path(run, "model.gguf"), *adapter = train_path(run, "adapter.gguf");
    saved = (train_config){0};
    if (mnem_trainer_steps_saved(train_path(run, "checkpoint"), &steps) != MNEM_OK ||
        train_config_load(train_path(run, "config.json"), &saved) != TOOL_OK)
        return tool_failed(
            "%s holds a run: add --resume to continue it, or choose another --out for a new run",
            run->out);
    if (saved.steps && steps >= (uint64_t)saved.steps)
        tool_message("%s holds a finished run of %llu step%s (%s). To continue: --resume --steps N "
                     "with N above %llu, or --resume --epochs N; a new run needs another --out",
                     run->out, (unsigned long long)steps, tool_s(steps),
                     saved.lora ? adapter : result, (unsigned long long)steps);
    else
        tool_message(saved.steps
                         ? "%s holds an unfinished run (%llu step%s done). Add --resume to the "
                           "same command to continue it, or choose another --out for a new run"
                         : "%s holds an unfinished run (%llu step%s done; its length is set by "
                           "--time). Add --resume to the same command to continue it, or choose "
                           "another --out for a new run",
                     run->out, (unsigned long long)steps, tool_s(steps));
    train_config_fini(&saved);
    return TOOL_FAILED;
}
