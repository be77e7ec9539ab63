/* plan_budget.c: what a plan may take, and what came before it, from the ledger. */
#include "plan/plan_budget.h"

static mnem_ledger_info info_of(const mnem_ledger *ledger) {
    mnem_ledger_info info = {0};
    if (ledger) mnem_ledger_info_get(ledger, &info);
    return info;
}

uint64_t mnem__plan_budget(const mnem_ledger *ledger) {
    const uint64_t budget = info_of(ledger).budget_bytes;
    return budget ? budget : UINT64_MAX;
}

uint64_t mnem__plan_before(const mnem_ledger *ledger) {
    const mnem_ledger_info info = info_of(ledger);
    return info.preparing ? info.bytes_peak : 0;
}
