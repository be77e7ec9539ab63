/* train_instead.c: which options would fit a budget that is too small for a run.
 *
 * Each is planned as the run would be: a smaller batch, shorter sequences, both, 8-bit moments, and
 * adapters instead of all weights, of which the least budget is named. A run that goes on can't
 * change them.
 * Cost: some plans, well under a second each. */
#include <string.h>

#include "stage.h"
#include "verbs/train/train_tool.h"

enum { CONTEXT_LEAST = 32, RANK = 8, LORA_BATCH = 8, LORA_CONTEXT = 512, WORDS = 400 };

typedef struct search {
    train_run *run;
    train_config config; /* as it was; files are borrowed */
    mnem_type compute;
    uint64_t text; /* bytes of io for the text, which isn't read yet */
    char words[WORDS];
} search;

static bool take_first(void *context, const mnem_train_way *way) {
    *(uint64_t *)context = way->peak_bytes;
    return false;
}

/* Of what run->config says now: does it fit? *least: the bytes of the smallest way, or 0. */
static bool fits(search *s, uint64_t *least) {
    mnem_train_plan plan;
    mnem_train_options *o = &s->run->options;
    train_plan_options(s->run);
    o->compute = s->compute;
    o->io_bytes += s->text;
    const mnem_status status = mnem_train_plan_make(o, &plan);
    *least = status == MNEM_OVER_BUDGET ? plan.needed_bytes : 0;
    if (status == MNEM_OK) (void)mnem_train_frontier(o, &plan, take_first, least);
    s->run->config = s->config;
    return status == MNEM_OK;
}

static void add(search *s, const char *words) {
    const size_t n = strlen(s->words);
    snprintf(s->words + n, WORDS - n, "%s%s", n ? ", or " : "", words);
}

static void try_batch(search *s) {
    uint64_t least;
    if (s->config.batch == 1) return;
    s->run->config.batch = 1;
    if (fits(s, &least)) add(s, "--batch 1");
}

/* The longest of the halves. */
static bool try_context(search *s, int32_t batch) {
    char words[64];
    uint64_t least;
    for (int32_t c = s->config.context / 2; c >= CONTEXT_LEAST; c /= 2) {
        s->run->config.context = c;
        s->run->config.batch = batch;
        if (!fits(s, &least)) continue;
        snprintf(words, sizeof words, batch == s->config.batch ? "--ctx %d" : "--batch 1 --ctx %d",
                 c);
        add(s, words);
        return true;
    }
    return false;
}

static void try_moments(search *s) {
    uint64_t least;
    if (strcmp(s->config.moments, "f32") != 0) return;
    snprintf(s->run->config.moments, sizeof s->run->config.moments, "8bit");
    if (fits(s, &least)) add(s, "--moments 8bit");
}

/* Adapters: as a run of them is when nothing else is said. */
static void try_lora(search *s, uint64_t *least) {
    train_config *c = &s->run->config;
    const train_run *run = s->run;
    mnem_transformer t;
    *least = 0;
    if (c->lora || c->masked || !run->base || mnem_model_transformer(run->base, &t) != MNEM_OK ||
        mnem_transformer_supports(&t, MNEM_FEATURE_TRAIN_ADAPTERS) != MNEM_OK)
        return;
    c->lora = RANK;
    c->lora_alpha = 2.0 * RANK;
    if (!tool_given(run->args, "ctx") && !train_config_given(c, "context") &&
        c->context > LORA_CONTEXT)
        c->context = LORA_CONTEXT;
    if (!tool_given(run->args, "batch") && !train_config_given(c, "batch")) c->batch = LORA_BATCH;
    fits(s, least);
}

/* After the refusal itself. */
void train_instead_say(train_run *run, uint64_t text_bytes) {
    search s = {
        .run = run, .config = run->config, .compute = run->options.compute, .text = text_bytes};
    uint64_t lora;
    char size[TOOL_TEXT];
    if (run->asked->resume) return;
    try_batch(&s);
    if (!try_context(&s, s.config.batch)) (void)try_context(&s, 1);
    try_moments(&s);
    if (*s.words)
        tool_message("the training fits in %s with %s",
                     tool_size(tool_budget_bytes(run->ledger), size), s.words);
    try_lora(&s, &lora);
    if (lora)
        tool_message("--lora %d trains adapters instead of all weights; the smallest budget for "
                     "that is --memory %s",
                     RANK, tool_budget_of_other(lora, size));
}
