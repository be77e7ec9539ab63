/* train_advise.h: plans a finished training again, for `mnem advise`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_ADVISE_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_ADVISE_H

#include "mnem/advice.h"
#include "options.h"

/* Adds facts of the plan of the run's folder, and of similar plans, under the run's budget;
 * *peak is the plan's. false: the folder no longer has a run, or it can't be planned. */
bool train_facts(const tool_args *args, const mnem_history_run *run, mnem_facts *facts,
                 uint64_t *peak);

#endif
