/* team.h: teams that give way on a busy machine. */
#ifndef MNEM_SRC_BASE_TEAM_TEAM_H
#define MNEM_SRC_BASE_TEAM_TEAM_H

#include "mnem/base.h"

/* From now on a run may have fewer members than the team (worker->count says how many), and never
 * more than this process may use processors: as many as do the most. Who runs must not matter. */
void mnem__team_adapt(mnem_team *team);

/* Worker 0, where all are about to meet in a long run: true if it should end here, so that the rest
 * is run by another number of members. */
bool mnem__team_regroup(const mnem_worker *worker);

/* The worker has waited so long for something else than a processor, such as a disk. */
void mnem__team_waited(const mnem_worker *worker, uint64_t nanoseconds);

/* For tests: each run of a team that adapts has size(limit) members, 1 to limit (all), and it is
 * asked again where they meet. NULL: as measured. */
void mnem__team_force(int (*size)(int limit));

#endif
