/* plan_budget.h: what a plan may take, and what came before it. */
#ifndef MNEM_SRC_PLAN_PLAN_BUDGET_H
#define MNEM_SRC_PLAN_PLAN_BUDGET_H

#include "mnem/ledger.h"
#include "mnem/plan.h"

/* The ledger's budget. UINT64_MAX: there is no limit. */
uint64_t mnem__plan_budget(const mnem_ledger *ledger);
/* The least of that and of what is live with `share` more bytes (0: no share). */
uint64_t mnem__plan_share(const mnem_ledger *ledger, uint64_t share);
/* The most that was live until now, planning with its tables too, where the ledger is preparing and
 * so let it pass the budget; else 0. The same run has that peak again, so it needs at least so
 * much, and where that passes the budget no option helps. */
uint64_t mnem__plan_before(const mnem_ledger *ledger);
/* What is charged to the ledger now. */
uint64_t mnem__plan_live(const mnem_ledger *ledger);

/* The sentence of every refusal, "WHOSE: needs ... over", and `more` behind it. Returns
 * MNEM_OVER_BUDGET. */
mnem_status mnem__plan_refuse(const char *whose, uint64_t needed, uint64_t budget,
                              const char *more);
/* The same of a plan with what it says of it: needed holds what its least way takes, and becomes at
 * least what came before; where that is over `most`, the budget, no option helps. */
mnem_status mnem__plan_refused(const char *whose, uint64_t before, uint64_t most, uint64_t *needed,
                               uint64_t *budget, mnem_knob *knob);

#endif
