/* session_text.h: the sentences of a plan. */
#ifndef MNEM_SRC_ENGINE_SESSION_TEXT_H
#define MNEM_SRC_ENGINE_SESSION_TEXT_H

#include "engine/session_search.h"

/* Why the plan is as it is: plan->why, from the filled plan. */
void mnem__session_why(mnem_session_plan *plan);
/* What another way would change: "at 96 MiB: context 512, 12 fewer matrices resident". */
void mnem__session_change(const mnem__way *from, const mnem__way *to, char *out, size_t n);
/* Sets the last error to needed bytes, budget and bytes over; returns MNEM_OVER_BUDGET. */
mnem_status mnem__session_refuse(uint64_t needed, uint64_t budget);

#endif
