/* plan_budget.c: what a plan may take, and what came before it, from the ledger and the options. */
#include "plan/plan_budget.h"

uint64_t mnem__plan_budget(const mnem_ledger *ledger, uint64_t asked) {
    mnem_ledger_info info = {0};
    if (ledger) mnem_ledger_info_get(ledger, &info);
    const uint64_t budget = info.budget_bytes ? info.budget_bytes : UINT64_MAX;
    return asked && asked < budget ? asked : budget;
}

uint64_t mnem__plan_before(const mnem_ledger *ledger, uint64_t asked) {
    mnem_ledger_info info = {0};
    if (ledger && asked) mnem_ledger_info_get(ledger, &info);
    return info.bytes_peak;
}
