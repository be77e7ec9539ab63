/* train_advise.h: a finished training, planned again for `mnem advise`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_ADVISE_H
#define MNEM_TOOLS_MNEM_VERBS_TRAIN_TRAIN_ADVISE_H

#include "mnem/advice.h"
#include "options.h"

/* Adds facts of the plan of the run's folder, and of its neighbours, in the run's own budget; *peak
 * is the plan's. false: the folder has no run any more, or none that can be planned. */
bool train_facts(const tool_args *args, const mnem_history_run *run, mnem_facts *facts,
                 uint64_t *peak);

#endif
