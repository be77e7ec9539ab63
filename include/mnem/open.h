/* mnem/open.h: from a file and a budget to a session: the obvious way to begin.
 *
 * The order is fixed, because each step's bytes are part of the next one's plan: settle the process
 * and make its ledger, open the model, make the tokenizer, plan, create. What doesn't fit is
 * refused before a weight is read; the plan then says the least that would do.
 * Threads: call it first, with no other thread running.
 *
 *     mnem_opened o;
 *     mnem_session_options options = {.context = 256};
 *     if (mnem_open("model.gguf", 64 << 20, &options, &o) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 *     mnem_close(&o);
 */
#ifndef MNEM_OPEN_H
#define MNEM_OPEN_H

#include "mnem/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a session stands on, in the order in which it is opened. What isn't there is NULL. */
typedef struct mnem_opened {
    mnem_ledger *ledger; /* of the process; it holds the budget once there is a session */
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_session_plan plan; /* on MNEM_OVER_BUDGET needed_bytes says what would do, if not 0 */
    mnem_session *session;
} mnem_opened;

/* Opens all of it within budget_bytes (0: 85 % of what the process has and could still take).
 * options: ledger and budget_bytes are set here; NULL: defaults. On failure nothing is open, and
 * the plan is what there is of it. Statuses are those of mnem_ledger_open, mnem_model_open,
 * mnem_tokenizer_create, mnem_session_plan_make and mnem_session_create. */
mnem_status mnem_open(const char *path, uint64_t budget_bytes, const mnem_session_options *options,
                      mnem_opened *opened);
/* In reverse; the plan stays. */
void mnem_close(mnem_opened *opened);

/* The step in the middle, for who takes the others one by one: plans with the room of
 * mnem_ledger_ease, and has the ledger hold options->budget_bytes where the plan fits. */
mnem_status mnem_open_plan(const mnem_model *model, const mnem_session_options *options,
                           mnem_session_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
