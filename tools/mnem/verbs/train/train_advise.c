/* train_advise.c: a finished training, planned again from its folder's config.json.
 *
 * The text isn't read: its tokens aren't in the plan, on either side of what is compared. A deleted
 * folder is no failure; then only the history's data is known. */
#include "verbs/train/train_advise.h"

#include <stdlib.h>
#include <unistd.h>

#include "verbs/train/train_tool.h"

static bool plan(train_run *run, mnem_facts *facts, uint64_t *peak) {
    const mnem_ledger_options budget = {.budget_bytes = run->asked->memory};
    if (mnem_ledger_create(&budget, &run->ledger) != MNEM_OK) return false;
    if (*run->config.init && mnem_model_open(run->config.init, &run->base) != MNEM_OK) return false;
    train_plan_options(run);
    if (!run->options.lora.base) run->options.lora.base = run->base; /* adapters of it are tried */
    if (mnem_train_plan_make(&run->options, &run->plan) != MNEM_OK) return false;
    *peak = run->plan.peak_bytes;
    return mnem_facts_training(&run->options, &run->plan, facts) == MNEM_OK;
}

bool train_facts(const tool_args *args, const mnem_history_run *run, mnem_facts *facts,
                 uint64_t *peak) {
    train_options *asked = calloc(1, sizeof *asked);
    train_run *again = calloc(1, sizeof *again);
    bool planned = false;
    if (asked && again) {
        *asked = (train_options){.args = *args,
                                 .resume = true,
                                 .out = run->folder,
                                 .memory = run->budget_bytes,
                                 .threads = run->threads,
                                 .training.micro_batch = run->micro_batch};
        again->args = &asked->args;
        again->asked = asked;
        again->out = run->folder;
        const char *config = train_path(again, "config.json");
        planned = access(config, R_OK) == 0 &&
                  train_config_load(config, &again->config) == TOOL_OK && plan(again, facts, peak);
        mnem_model_close(again->base);
        mnem_ledger_destroy(again->ledger);
        train_config_fini(&again->config);
    }
    free(again);
    free(asked);
    return planned;
}
