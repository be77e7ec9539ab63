/* ledger_events.h: a recording begins with what a ledger has now. */
#ifndef MNEM_SRC_ALLOC_LEDGER_LEDGER_EVENTS_H
#define MNEM_SRC_ALLOC_LEDGER_LEDGER_EVENTS_H

#include "mnem/ledger.h"

/* Emits an event for each account that has live bytes. Returns the budget; 0: none. */
uint64_t mnem__ledger_tell_all(mnem_ledger *ledger);

#endif
