/* open.c: from a file and a budget to a session.
 *
 * Invariant: what is charged before the plan is in the plan; after it only the session takes. */
#include "mnem/open.h"

mnem_status mnem_open_plan(const mnem_model *model, const mnem_session_options *options,
                           mnem_session_plan *plan) {
    *plan = (mnem_session_plan){0};
    mnem_status status = mnem_ledger_ease(options->ledger, options->budget_bytes);
    if (status == MNEM_OK) status = mnem_session_plan_make(model, options, plan);
    if (status == MNEM_OK) status = mnem_ledger_hold(options->ledger, options->budget_bytes);
    return status;
}

mnem_status mnem_open(const char *path, uint64_t budget_bytes, const mnem_session_options *options,
                      mnem_opened *opened) {
    mnem_session_options o = options ? *options : (mnem_session_options){0};
    *opened = (mnem_opened){0};
    mnem_status status = mnem_ledger_open(budget_bytes, &opened->ledger);
    o.ledger = opened->ledger;
    o.budget_bytes = budget_bytes;
    if (status == MNEM_OK) status = mnem_model_open(path, &opened->model);
    if (status == MNEM_OK) status = mnem_tokenizer_create(opened->model, &opened->tokenizer);
    if (status == MNEM_OK) status = mnem_open_plan(opened->model, &o, &opened->plan);
    if (status == MNEM_OK)
        status = mnem_session_create(opened->model, &o, &opened->plan, &opened->session);
    if (status != MNEM_OK) mnem_close(opened);
    return status;
}

void mnem_close(mnem_opened *opened) {
    const mnem_session_plan plan = opened->plan;
    mnem_session_destroy(opened->session);
    mnem_tokenizer_destroy(opened->tokenizer);
    mnem_model_close(opened->model);
    mnem_ledger_destroy(opened->ledger);
    *opened = (mnem_opened){.plan = plan};
}
