/* ledger_events.h: records a ledger's accounts at the start of a trace, and samples of its sums. */
#ifndef MNEM_SRC_ALLOC_LEDGER_LEDGER_EVENTS_H
#define MNEM_SRC_ALLOC_LEDGER_LEDGER_EVENTS_H

#include "mnem/ledger.h"

/* Emits an event for each account that has live bytes, and from then on, whenever VmRSS is sampled
 * and after so many charges, a counter for each kind ("ledger N KIND") and for all ("ledger N
 * total"), under the ledger's lock. Returns the budget; 0: none. */
uint64_t mnem__ledger_tell_begin(mnem_ledger *ledger);
/* The last sample. A ledger that was destroyed meanwhile has ended its samples itself. */
void mnem__ledger_tell_end(const mnem_ledger *ledger);

#endif
