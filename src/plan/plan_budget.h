/* plan_budget.h: what a plan may take, and what came before it. */
#ifndef MNEM_SRC_PLAN_PLAN_BUDGET_H
#define MNEM_SRC_PLAN_PLAN_BUDGET_H

#include "mnem/ledger.h"

/* The ledger's budget, or what the options ask for (0: nothing) where that is smaller: what is
 * planned is taken from the ledger, so no plan goes beyond it. UINT64_MAX: there is no limit. */
uint64_t mnem__plan_budget(const mnem_ledger *ledger, uint64_t asked);
/* The most that was live until now, planning with its tables too, where the ledger let it pass what
 * the options ask for; else 0. The same run has that peak again, so it needs at least so much, and
 * where that passes the budget no option helps. */
uint64_t mnem__plan_before(const mnem_ledger *ledger, uint64_t asked);

#endif
