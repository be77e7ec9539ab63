/* train_choice.c: what a training run is, chosen by a name or a file, and by options over that.
 *
 * Rule: no option is ignored: two lengths, an adapter's options without its rank, and a model that
 * doesn't exist are refused. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/train/train_tool.h"

/* ---- names ---- */

typedef struct named {
    const char *name;
    train_config config;
} named;

#define SHARED                                                                                     \
    .epsilon = 1e-5, .rope_base = 10000, .clip = 1, .heldout = 0.03, .seed = 1,                    \
    .precision = "auto", .moments = "f32", .pre = "gpt-2"
static const named names[] = {
    {"tiny",
     {"llama", 4, 128, 4, 2, 384, 512, 128, .batch = 16, .steps = 500, .rate = 3e-3,
      .rate_floor = 3e-4, .weight_decay = 0.1, .warmup = 50, SHARED}},
    {"5m",
     {"llama", 6, 256, 8, 4, 768, 2048, 256, .batch = 12, .steps = 2000, .rate = 2e-3,
      .rate_floor = 2e-4, .weight_decay = 0.2, .dropout = 0.1, .warmup = 100, SHARED}},
    {"gpt2-10m",
     {"gpt2", 6, 384, 6, 6, 1536, 256, 256, .batch = 8, .steps = 5000, .rate = 1e-3,
      .rate_floor = 1e-4, .weight_decay = 0.1, .dropout = 0.2, .warmup = 100, SHARED}},
    {"gpt2-124m",
     {"gpt2", 12, 768, 12, 12, 3072, 50257, 1024, .batch = 32, .steps = 20000, .rate = 6e-4,
      .rate_floor = 6e-5, .weight_decay = 0.1, .warmup = 700, SHARED}},
};
enum { NAMES = sizeof names / sizeof names[0], NAME_DEFAULT = 1 };

const char *train_config_names(void) {
    static char text[160];
    text[0] = 0;
    for (int i = 0; i < NAMES; i++) {
        if (i) strcat(text, ", ");
        strcat(text, names[i].name);
    }
    return text;
}

/* ---- options ---- */

/* Adapters learn with little: what a run of them is when --config doesn't say. */
static const train_config for_adapters = {
    "llama",      6,     256, 8, 4, 768, 2048, 256, .batch = 8, .rate = 1e-3, .rate_floor = 1e-4,
    .warmup = 20, SHARED};

static void set_base(const char *name, train_config *c) {
    snprintf(c->base, sizeof c->base, "%.*s", (int)sizeof c->base - 1, tool_file_name(name));
}

static int choose(const train_options *asked, train_config *config) {
    const char *name = asked->config;
    *config = asked->lora ? for_adapters : names[NAME_DEFAULT].config;
    if (!name) return TOOL_OK;
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i].name) != 0) continue;
        *config = names[i].config;
        config->given = UINT64_MAX;
        return TOOL_OK;
    }
    if (asked->init) snprintf(config->init, sizeof config->init, "%s", asked->init);
    if (strchr(name, '.') || strchr(name, '/')) return train_config_load(name, config);
    return tool_usage("train", "--config %s is neither a file nor one of the built-in configs: %s",
                      name, train_config_names());
}

static void set_texts(const train_options *asked, train_config *c) {
    static const char *const precisions[] = {"auto", "f32", "bf16", "f16"};
    static const char *const moments[] = {"f32", "8bit"};
    if (tool_given(&asked->args, "precision"))
        snprintf(c->precision, sizeof c->precision, "%s", precisions[asked->training.precision]);
    if (tool_given(&asked->args, "moments"))
        snprintf(c->moments, sizeof c->moments, "%s", moments[asked->training.moments]);
}

/* What a config's file may say wrongly; options were checked before. */
int train_config_lora(train_config *c) {
    uint32_t targets;
    if (c->masked && !*c->init)
        return tool_failed("the config's \"masked\" needs \"init\", the path of the pruned model "
                           "whose zeros are kept");
    if (c->masked && c->lora)
        return tool_failed("the config has both \"masked\" and \"lora\", but adapters never change "
                           "the model's zeros: remove \"masked\"");
    if (c->lora && c->lora_alpha == 0) c->lora_alpha = 2.0 * c->lora;
    if (c->lora && !*c->init)
        return tool_failed(
            "the config's \"lora\" needs \"init\", the path of the model that the adapter is for");
    if (!*c->lora_targets || mnem_lora_targets_parse(c->lora_targets, &targets) == MNEM_OK)
        return TOOL_OK;
    return tool_failed("the config's \"lora_targets\" is wrong: %s", mnem_last_error());
}

/* "q,v" of "q_proj,v_proj"; false: it is too long. */
static bool copy_targets(const char *from, char *to, size_t room) {
    static const char more[] = "_proj";
    size_t n = 0;
    while (*from && n + 1 < room) {
        if (!strncmp(from, more, sizeof more - 1))
            from += sizeof more - 1;
        else
            to[n++] = *from++;
    }
    to[n] = 0;
    return !*from;
}

static int set_lora(const train_options *asked, train_config *c) {
    if (!asked->lora) {
        if (tool_given(&asked->args, "lora-alpha") || asked->lora_targets)
            return tool_usage("train", "--lora-targets and --lora-alpha need --lora RANK, which is "
                                       "missing: add it, or leave them out");
        return TOOL_OK;
    }
    if (!asked->init && !*c->init)
        return tool_usage("train", "--lora needs --init MODEL, the model that the adapter is for");
    c->lora = asked->lora;
    c->lora_alpha = asked->lora_alpha;
    const char *targets = asked->lora_targets ? asked->lora_targets : "";
    uint32_t set;
    if (!strcmp(targets, "all-linear") || !strcmp(targets, "all")) targets = "";
    if (*targets && mnem_lora_targets_parse(targets, &set) != MNEM_OK)
        return tool_usage("train", "--lora-targets is wrong: %s", mnem_last_error());
    if (!copy_targets(targets, c->lora_targets, sizeof c->lora_targets))
        return tool_usage("train", "--lora-targets lists a target twice; list each once");
    return TOOL_OK;
}

static int set_masked(const train_options *asked, train_config *c) {
    if (!asked->masked) return TOOL_OK;
    if (!asked->init && !*c->init)
        return tool_usage("train",
                          "--masked needs --init MODEL, the pruned model whose zeros are kept");
    if (asked->lora)
        return tool_usage("train",
                          "--masked trains the model's own weights, but --lora trains an adapter "
                          "instead: give one of them (`mnem merge` of an adapter keeps zeros too)");
    c->masked = 1;
    return TOOL_OK;
}

/* The whole path, as for data. */
static int set_init(const train_options *asked, train_config *c) {
    const int code = asked->init ? tool_check_model("train", asked->init) : TOOL_OK;
    if (code != TOOL_OK || !asked->init || realpath(asked->init, c->init)) return code;
    return tool_failed("can't read the model of --init %s: %s", asked->init, strerror(errno));
}

/* ---- the length ---- */

/* What a model learns that has learned before: a small text by heart in a few passes, and little in
 * a few steps. */
enum { USUAL_EPOCHS = 3, USUAL_STEPS_LEAST = 50, USUAL_STEPS_MOST = 500 };

static const char *const lengths[] = {"steps", "tokens", "time", "epochs"};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static bool is_length_asked(const train_options *asked) {
    for (int i = 0; i < LENGTHS; i++)
        if (tool_given(&asked->args, lengths[i])) return true;
    return false;
}

bool train_config_length_usual(const train_options *asked, const train_config *c) {
    return *c->init && !asked->resume && !is_length_asked(asked) &&
           !train_config_given(c, "steps") && !train_config_given(c, "time") &&
           !train_config_given(c, "epochs");
}

bool train_config_length_fixed(const train_options *asked, const train_config *c) {
    return !*c->init && !asked->resume && !is_length_asked(asked) && !c->epochs && !c->time &&
           (c->given == UINT64_MAX || !train_config_given(c, "steps"));
}

int64_t train_config_epochs(const train_config *c, double epochs) {
    const double steps = ceil(epochs * (double)c->windows / c->batch);
    return steps < 1 ? 1 : steps < TRAIN_STEPS_MAX ? (int64_t)steps : (int64_t)TRAIN_STEPS_MAX;
}

/* 0: not known before the text is. */
static int64_t usual_steps(const train_config *c) {
    if (!c->windows) return 0;
    const int64_t steps = train_config_epochs(c, USUAL_EPOCHS);
    return steps < USUAL_STEPS_LEAST  ? USUAL_STEPS_LEAST
           : steps > USUAL_STEPS_MOST ? USUAL_STEPS_MOST
                                      : steps;
}

double train_config_epochs_asked(const train_options *asked, const train_config *c) {
    const double epochs = train_config_length_usual(asked, c) ? USUAL_EPOCHS : c->epochs;
    return epochs > 0 && c->windows && train_config_epochs(c, epochs) == c->steps ? epochs : 0;
}

/* A length from the options, or of epochs, has a warm-up to match, as has one that is shorter than
 * the warm-up. */
static void set_length(const train_options *asked, train_config *c) {
    const bool usual = train_config_length_usual(asked, c), given = is_length_asked(asked);
    if (tool_given(&asked->args, "epochs"))
        c->epochs = asked->epochs;
    else if (given)
        c->epochs = 0;
    if (usual) c->steps = usual_steps(c);
    if (c->epochs > 0) c->steps = c->windows ? train_config_epochs(c, c->epochs) : 0;
    if (tool_given(&asked->args, "steps")) c->steps = (int64_t)asked->steps;
    if (tool_given(&asked->args, "tokens")) {
        const int64_t each = (int64_t)c->batch * c->context;
        c->steps = ((int64_t)asked->tokens + each - 1) / each;
    }
    if (tool_given(&asked->args, "time")) {
        c->steps = 0;
        c->time = asked->seconds;
    }
    const bool fitted = given || usual || c->epochs > 0;
    const bool said = tool_given(&asked->args, "warmup");
    const int64_t most = fitted && !said ? c->steps / 10 : c->steps;
    if (c->steps && c->warmup > most) c->warmup = said ? c->steps : c->steps / 10;
}

/* Two lengths would have to quietly be one. */
static int check_length(const train_options *asked) {
    const char *said = NULL;
    for (int i = 0; i < LENGTHS; i++) {
        if (!tool_given(&asked->args, lengths[i])) continue;
        if (said)
            return tool_usage("train",
                              "--%s and --%s both set the length of the run; give one of them",
                              said, lengths[i]);
        said = lengths[i];
    }
    return TOOL_OK;
}

static int set_template(const train_options *asked, train_config *c) {
    const char *arguments = asked->template.arguments;
    if (!arguments) return TOOL_OK;
    if (strlen(arguments) >= sizeof c->template_args)
        return tool_usage("train", "--template-args is too long; it may have at most %zu bytes",
                          sizeof c->template_args - 1);
    snprintf(c->template_args, sizeof c->template_args, "%s", arguments);
    return TOOL_OK;
}

static void set_rate(const train_options *asked, train_config *c) {
    if (!tool_given(&asked->args, "rate") || asked->rate == c->rate) return;
    c->rate_floor = asked->rate * (c->rate > 0 ? c->rate_floor / c->rate : 0.1);
    c->rate = asked->rate;
}

/* A resumed run has its batch, which --accumulate alone doesn't multiply again. */
static int set_batch(const train_options *asked, train_config *c) {
    const bool all = tool_given(&asked->args, "batch");
    const bool each = tool_given(&asked->args, "batch-per-rank");
    if (all && each)
        return tool_usage("train", "--batch and --batch-per-rank (--per-device-train-batch-size) "
                                   "both set the sequences of a step: give one of them");
    int64_t batch = all    ? asked->training.batch
                    : each ? (int64_t)asked->batch_each * train_ranks()
                           : c->batch;
    if (tool_given(&asked->args, "accumulate") && (all || each || !asked->resume))
        batch *= asked->accumulate;
    if (batch > 1 << 20)
        return tool_usage("train", "a step of %lld sequences is too large; at most %d are allowed",
                          (long long)batch, 1 << 20);
    c->batch = (int32_t)batch;
    return TOOL_OK;
}

/* PEFT's names have spaces between. */
static bool is_target(const train_options *asked, const char *path) {
    uint32_t set;
    return asked->lora_targets && access(path, F_OK) != 0 &&
           mnem_lora_targets_parse(path, &set) == MNEM_OK;
}

static int set_data(const train_options *asked, train_config *c) {
    int code = asked->data ? train_config_add(asked->data, c) : TOOL_OK;
    for (int i = 0; i < asked->args.operands && code == TOOL_OK; i++) {
        const char *path = asked->args.operand[i];
        if (asked->resume && train_resume_is_folder(path)) continue;
        if (is_target(asked, path))
            return tool_usage("train",
                              "%s is not a file, but a matrix for --lora-targets, whose names are "
                              "separated by commas: --lora-targets %s,%s",
                              path, asked->lora_targets, path);
        code = train_config_add(path, c);
    }
    return code;
}

int train_config_say(const train_options *asked, train_config *c) {
    int code = check_length(asked);
    if (code == TOOL_OK) code = set_lora(asked, c);
    if (code == TOOL_OK) code = set_masked(asked, c);
    if (code == TOOL_OK) code = train_teacher_say(asked, c);
    if (code == TOOL_OK) code = set_init(asked, c);
    if (code == TOOL_OK) code = set_template(asked, c);
    if (code != TOOL_OK) return code;
    if (asked->config) set_base(asked->config, c);
    if (tool_given(&asked->args, "vocab")) c->vocab = asked->vocab;
    if (tool_given(&asked->args, "ctx")) c->context = asked->context;
    if (tool_given(&asked->args, "time")) c->time = asked->seconds;
    if (tool_given(&asked->args, "dropout")) c->dropout = asked->training.dropout;
    if (tool_given(&asked->args, "heldout")) c->heldout = asked->heldout;
    if (tool_given(&asked->args, "seed")) c->seed = asked->seed;
    if (tool_given(&asked->args, "warmup")) c->warmup = (int64_t)asked->warmup;
    if (tool_given(&asked->args, "weight-decay")) c->weight_decay = asked->weight_decay;
    if (tool_given(&asked->args, "clip")) c->clip = asked->clip;
    set_rate(asked, c);
    set_texts(asked, c);
    code = set_batch(asked, c);
    return code == TOOL_OK ? set_data(asked, c) : code;
}

/* Who learns from a teacher, or makes up for what was pruned, is to say what whole models say:
 * noise is in the way there, unless it is asked for. */
static void set_dropout(const train_options *asked, train_config *c) {
    const bool asked_for = asked->config || tool_given(&asked->args, "dropout");
    if (!asked_for && (c->masked || *c->distill)) c->dropout = 0;
}

int train_config_make(const train_options *asked, train_config *c) {
    int code = choose(asked, c);
    if (code != TOOL_OK) return code;
    if (!*c->base) set_base(asked->lora ? "lora" : names[NAME_DEFAULT].name, c);
    code = train_config_say(asked, c);
    set_dropout(asked, c);
    c->memory =
        asked->memory < (uint64_t)TRAIN_NUMBER_MAX ? asked->memory : (uint64_t)TRAIN_NUMBER_MAX;
    if (code == TOOL_OK && c->files == 0)
        return tool_usage("train", "--data FILE is missing; it names the text files to train on");
    return code;
}

int train_config_length(const train_options *asked, train_config *c) {
    set_length(asked, c);
    const bool later = !c->windows && (c->epochs > 0 || train_config_length_usual(asked, c));
    if (c->steps > 0 || c->time > 0 || later) return TOOL_OK;
    return tool_usage("train", "the length of the run is missing: add --epochs N, --steps N, "
                               "--tokens N or --time DURATION");
}
