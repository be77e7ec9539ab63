/* open.c: from a file and a budget to a session.
 *
 * Invariant: what is charged before the plan is in the plan; after it only the session takes. */
#include "mnem/session.h"

mnem_status mnem_open(const char *path, uint64_t budget_bytes, const mnem_engine_options *options,
                      mnem_opened *opened) {
    mnem_engine_options o = options ? *options : (mnem_engine_options){0};
    *opened = (mnem_opened){0};
    const mnem_ledger_options budget = {.budget_bytes = budget_bytes, .preparing = true};
    mnem_status status = mnem_ledger_create_process(&budget, &opened->ledger);
    o.ledger = opened->ledger;
    if (status == MNEM_OK) status = mnem_model_open(path, &opened->model);
    if (status == MNEM_OK) status = mnem_tokenizer_create(opened->model, &opened->tokenizer);
    if (status == MNEM_OK) status = mnem_engine_plan_make(opened->model, &o, &opened->plan);
    if (status == MNEM_OK)
        status = mnem_session_create(opened->model, &o, &opened->plan, &opened->session);
    if (status != MNEM_OK) mnem_close(opened);
    return status;
}

void mnem_close(mnem_opened *opened) {
    const mnem_engine_plan plan = opened->plan;
    mnem_session_destroy(opened->session);
    mnem_tokenizer_destroy(opened->tokenizer);
    mnem_model_close(opened->model);
    mnem_ledger_destroy(opened->ledger);
    *opened = (mnem_opened){.plan = plan};
}
