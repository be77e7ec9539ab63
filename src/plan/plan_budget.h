/* plan_budget.h: the bytes that a plan may take, and those charged before it. */
#ifndef MNEM_SRC_PLAN_PLAN_BUDGET_H
#define MNEM_SRC_PLAN_PLAN_BUDGET_H

#include "mnem/ledger.h"
#include "mnem/plan.h"

/* The ledger's budget. UINT64_MAX: no limit. */
uint64_t mnem__plan_budget(const mnem_ledger *ledger);
/* The smaller of the budget and the charged bytes plus `share` (0: no share). */
uint64_t mnem__plan_share(const mnem_ledger *ledger, uint64_t share);
/* The peak so far, including the tables of planning, if the ledger is preparing and so allowed
 * it to exceed the budget; else 0. The same run reaches that peak again, so it needs at least
 * that much; if that exceeds the budget, no option helps. */
uint64_t mnem__plan_before(const mnem_ledger *ledger);
/* The bytes that are charged to the ledger. */
uint64_t mnem__plan_live(const mnem_ledger *ledger);

/* Sets the error text of every refusal, "WHOSE: needs ... over", followed by `more`. Returns
 * MNEM_OVER_BUDGET. */
mnem_status mnem__plan_refuse(const char *whose, uint64_t needed, uint64_t budget,
                              const char *more);
/* The same for a plan, whose fields it sets. *needed is what the plan's least way takes, and
 * becomes at least `before`; if that exceeds `most`, the budget, no option helps. */
mnem_status mnem__plan_refused(const char *whose, uint64_t before, uint64_t most, uint64_t *needed,
                               uint64_t *budget, mnem_knob *knob);

#endif
