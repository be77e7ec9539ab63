/* team.h: teams that use fewer threads on a busy machine. */
#ifndef MNEM_SRC_BASE_TEAM_TEAM_H
#define MNEM_SRC_BASE_TEAM_TEAM_H

#include "mnem/base.h"

/* From now on a run may have fewer members than the team (worker->count), at most the processors
 * that this process may use: the number with the highest throughput. Results must not depend on
 * it. A second call changes nothing: what the team has measured stays. */
void mnem__team_adapt(mnem_team *team);

/* Called by worker 0 before all members synchronize in a long run: true: the run should end
 * here, so that another number of members continues it. */
bool mnem__team_regroup(const mnem_worker *worker);

/* Reports that the worker waited this long for something other than a processor, such as a disk. */
void mnem__team_waited(const mnem_worker *worker, uint64_t nanoseconds);

/* For tests: each run of an adapting team has size(limit) members, 1 to limit (all); it is called
 * again where members synchronize. NULL: as measured. */
void mnem__team_force(int (*size)(int limit));

#endif
