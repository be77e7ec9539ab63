/* example_plan.c: what a model would take under several budgets, without reading a weight.
 *
 *     example_plan model.gguf 64M 256M 1G
 */
#include <stdio.h>

#include "mnem/mnem.h"

/* One line about one budget. */
static mnem_status print_plan(const mnem_model *model, uint64_t budget) {
    mnem_ledger *ledger;
    mnem_status status =
        mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger);
    if (status != MNEM_OK) return status;
    mnem_engine_options options = {.ledger = ledger, .context = 256};
    mnem_engine_plan plan;
    status = mnem_engine_plan_make(model, &options, &plan);
    char of[24], bytes[24];
    if (status == MNEM_OK)
        printf("%10s: takes %s, %d of %d layers resident, chunk %d\n",
               mnem_size_format(budget, of, 24), mnem_size_format(plan.peak_bytes, bytes, 24),
               plan.layers_resident, plan.layers, plan.chunk);
    else if (status == MNEM_OVER_BUDGET) // an answer, not a failure
        printf("%10s: refused, needs %s\n", mnem_size_format(budget, of, 24),
               mnem_size_format(plan.needed_bytes, bytes, 24));
    mnem_ledger_destroy(ledger);
    return status == MNEM_OVER_BUDGET ? MNEM_OK : status;
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "example_plan MODEL BUDGET...\n"), 2;
    mnem_model *model = NULL;
    mnem_status status = mnem_model_open(argv[1], &model);
    for (int i = 2; i < argc && status == MNEM_OK; i++) {
        uint64_t budget;
        status = mnem_size_parse(argv[i], &budget);
        if (status == MNEM_OK) status = print_plan(model, budget);
    }
    if (status != MNEM_OK) fprintf(stderr, "example_plan: %s\n", mnem_last_error());
    mnem_model_close(model);
    return status == MNEM_OK ? 0 : 1;
}
