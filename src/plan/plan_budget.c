/* plan_budget.c: what a plan may take, and what came before it, from the ledger; and what is said
 * where that is too little. */
#include "plan/plan_budget.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"

static mnem_ledger_info info_of(const mnem_ledger *ledger) {
    mnem_ledger_info info = {0};
    if (ledger) mnem_ledger_info_get(ledger, &info);
    return info;
}

uint64_t mnem__plan_budget(const mnem_ledger *ledger) {
    const uint64_t budget = info_of(ledger).budget_bytes;
    return budget ? budget : UINT64_MAX;
}

uint64_t mnem__plan_share(const mnem_ledger *ledger, uint64_t share) {
    const uint64_t budget = mnem__plan_budget(ledger);
    uint64_t most;
    if (!share || !mnem__add_u64(info_of(ledger).bytes_live, share, &most)) return budget;
    return mnem__min_u64(budget, most);
}

uint64_t mnem__plan_before(const mnem_ledger *ledger) {
    const mnem_ledger_info info = info_of(ledger);
    return info.preparing ? info.bytes_peak : 0;
}

uint64_t mnem__plan_live(const mnem_ledger *ledger) {
    return info_of(ledger).bytes_live;
}

mnem_status mnem__plan_refuse(const char *whose, uint64_t needed, uint64_t budget,
                              const char *more) {
    char a[24], b[24], c[24];
    return mnem__fail(MNEM_OVER_BUDGET, "%s: needs %llu bytes (%s), budget is %llu (%s), %s over%s",
                      whose, (unsigned long long)needed, mnem_size_format(needed, a, sizeof a),
                      (unsigned long long)budget, mnem_size_format(budget, b, sizeof b),
                      mnem_size_format(needed - budget, c, sizeof c), more);
}

mnem_status mnem__plan_refused(const char *whose, uint64_t before, uint64_t most, uint64_t *needed,
                               uint64_t *budget, mnem_knob *knob) {
    *needed = mnem__max_u64(*needed, before);
    *budget = most;
    if (before > most) *knob = (mnem_knob){MNEM_KNOB_NONE, 0};
    return mnem__plan_refuse(whose, *needed, *budget, "");
}
