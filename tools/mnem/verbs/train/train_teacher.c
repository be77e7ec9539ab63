/* train_teacher.c: the teacher of --distill, whose logits or states a run learns from, besides the
 * text.
 *
 * Rule: logits can be compared where token i is the same word for both, so a teacher of another
 * vocabulary is refused with the first word that differs. The file is open until its weights are in
 * the trainer; where its layers are streamed, as long as that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/train/train_tool.h"

/* ---- what was said ---- */

/* In the order of the option's words. */
static const char *const ons[] = {"logits", "states", "both"};

static void set_on(const char *word, train_config *c) {
    snprintf(c->distill_on, sizeof c->distill_on, "%s", word);
}

/* The whole path, as for data. */
int train_teacher_say(const train_options *asked, train_config *c) {
    const bool weight = tool_given(&asked->args, "distill-weight");
    const bool temperature = tool_given(&asked->args, "distill-temperature");
    const bool on = tool_given(&asked->args, "distill-on");
    if (!asked->distill && !*c->distill) {
        if (weight || temperature || on)
            return tool_usage("train",
                              "--distill-weight, --distill-temperature and --distill-on need "
                              "--distill MODEL, the model to learn from, which is missing");
        return TOOL_OK;
    }
    if (!asked->init && !*c->init)
        return tool_usage("train", "--distill needs --init MODEL, the model that learns, with the "
                                   "same vocabulary as the model of --distill");
    if (asked->distill && !realpath(asked->distill, c->distill))
        return tool_failed("can't read the model of --distill %s: %s", asked->distill,
                           strerror(errno));
    if (weight) c->distill_weight = asked->distill_weight;
    if (temperature) c->distill_temperature = asked->distill_temperature;
    if (on) set_on(ons[asked->distill_on], c);
    return TOOL_OK;
}

/* What a config's file may say wrongly. */
int train_teacher_config(train_config *c) {
    if (!*c->distill_on) set_on(ons[0], c);
    if (!*c->distill) return TOOL_OK;
    if (c->distill_weight == 0) c->distill_weight = TRAIN_DISTILL_WEIGHT;
    if (c->distill_temperature == 0) c->distill_temperature = TRAIN_DISTILL_TEMPERATURE;
    if (*c->init) return TOOL_OK;
    return tool_failed(
        "the config's \"distill\" needs \"init\", the path of the model that learns");
}

/* ---- the model ---- */

static int differs(const train_run *run, int32_t id, mnem_text ours, mnem_text theirs) {
    return tool_failed("the vocabulary of %s differs from that of %s: token %d is \"%.*s\" instead "
                       "of \"%.*s\"; --distill needs two models with one vocabulary",
                       run->config.distill, run->config.init, id, (int)theirs.length, theirs.bytes,
                       (int)ours.length, ours.bytes);
}

static int compare(const train_run *run, const mnem_tokenizer *ours, const mnem_tokenizer *theirs) {
    mnem_tokenizer_info a, b;
    mnem_tokenizer_info_get(ours, &a);
    mnem_tokenizer_info_get(theirs, &b);
    if (a.vocab != b.vocab)
        return tool_failed("the vocabulary of %s has %d tokens, but that of %s has %d; --distill "
                           "needs two models with one vocabulary",
                           run->config.distill, b.vocab, run->config.init, a.vocab);
    for (int32_t i = 0; i < a.vocab; i++) {
        const mnem_text x = mnem_tokenizer_piece(ours, i, true);
        const mnem_text y = mnem_tokenizer_piece(theirs, i, true);
        if (x.length != y.length || memcmp(x.bytes, y.bytes, x.length) != 0)
            return differs(run, i, x, y);
    }
    return TOOL_OK;
}

/* With the model that learns; where a checkpoint has its weights, that was done before. */
static int check(const train_run *run) {
    mnem_tokenizer *ours = NULL, *theirs = NULL;
    mnem_status status = mnem_tokenizer_create(run->base, &ours);
    if (status == MNEM_OK) status = mnem_tokenizer_create(run->teacher, &theirs);
    const int code = status == MNEM_OK ? compare(run, ours, theirs) : tool_fail(status);
    mnem_tokenizer_destroy(ours);
    mnem_tokenizer_destroy(theirs);
    return code;
}

int train_teacher_open(train_run *run) {
    if (!*run->config.distill) return TOOL_OK;
    const mnem_status status = mnem_model_open(run->config.distill, &run->teacher);
    if (status != MNEM_OK) return tool_fail(status);
    return run->base ? check(run) : TOOL_OK;
}

void train_teacher_close(train_run *run) {
    mnem_model_close(run->teacher);
    run->teacher = NULL;
}

mnem_status train_teacher_load(train_run *run) {
    if (!run->teacher) return MNEM_OK;
    const mnem_status status = mnem_trainer_load_teacher(run->trainer, run->teacher);
    if (!run->plan.teacher_streamed) train_teacher_close(run);
    return status;
}

void train_teacher_options(train_run *run) {
    const train_config *c = &run->config;
    const mnem_distill_on on = !strcmp(c->distill_on, "both")     ? MNEM_DISTILL_BOTH
                               : !strcmp(c->distill_on, "states") ? MNEM_DISTILL_STATES
                                                                  : MNEM_DISTILL_LOGITS;
    run->options.distill = (mnem_distill){.teacher = run->teacher,
                                          .weight = (float)c->distill_weight,
                                          .temperature = (float)c->distill_temperature,
                                          .on = on};
}
