/* ledger_prepare.c: the budget while a run is prepared.
 *
 * The idea: a refusal should name the least that would do, and that is known when all is measured:
 * the program, the model's tables, the tokenizer, the prompt. So the ledger is roomier than the
 * budget until the plan is made; the plan, which is told the budget, refuses where what was live
 * before it passed the budget, too.
 * Invariant: a run that isn't refused was never beyond its budget. */
#include "mnem/ledger.h"

enum { ROOM_MOST = 64 << 20 }; /* tables, tokenizers and vocabularies take less; a prompt may not */

/* What isn't ours isn't touched for an answer: at most half of what is available. */
static uint64_t roomy(uint64_t budget_bytes) {
    uint64_t room;
    if (!budget_bytes || mnem_process_available(&room) != MNEM_OK) return budget_bytes;
    return budget_bytes + (room / 2 < ROOM_MOST ? room / 2 : ROOM_MOST);
}

mnem_status mnem_ledger_open(uint64_t budget_bytes, mnem_ledger **ledger) {
    const mnem_ledger_options options = {.budget_bytes = roomy(budget_bytes)};
    return mnem_ledger_create_process(&options, ledger);
}

mnem_status mnem_ledger_ease(mnem_ledger *ledger, uint64_t budget_bytes) {
    return budget_bytes ? mnem_ledger_budget_set(ledger, roomy(budget_bytes)) : MNEM_OK;
}

mnem_status mnem_ledger_hold(mnem_ledger *ledger, uint64_t budget_bytes) {
    return budget_bytes ? mnem_ledger_budget_set(ledger, budget_bytes) : MNEM_OK;
}
