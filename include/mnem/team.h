/* mnem/team.h: a fixed team of threads that run one function together (SPMD), and their barrier.
 *
 * The caller of mnem_team_run is worker 0. Workers spin for a short while between runs and then
 * sleep, so that back-to-back runs cost about a microsecond and an idle team costs nothing.
 * Each thread's stack is MNEM_TEAM_STACK_BYTES, touched at the start, so that it can be planned;
 * nothing allocates after mnem_team_create. One run at a time. */
#ifndef MNEM_TEAM_H
#define MNEM_TEAM_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MNEM_TEAM_STACK_BYTES = 256 * 1024, MNEM_TEAM_MAX = 256 };

typedef struct mnem_team mnem_team;

/* One member during a run. */
typedef struct mnem_worker {
    mnem_team *team;
    int index, count;
} mnem_worker;

typedef void mnem_team_function(const mnem_worker *worker, void *context);

mnem_status mnem_team_create(int count, mnem_team **team);
void mnem_team_destroy(mnem_team *team); /* joins; NULL is fine */
int mnem_team_count(const mnem_team *team);
uint64_t mnem_team_bytes(int count); /* stacks and tables, for the plan */

/* Runs function on every member and returns when all are done. */
void mnem_team_run(mnem_team *team, mnem_team_function *function, void *context);

/* Inside a run: waits until every member has come here; orders memory among them. With one member
 * it does nothing. worker may be a lone {NULL, 0, 1}. */
void mnem_team_barrier(const mnem_worker *worker);

/* Splits [0, n) in units of grain; worker's part is [*begin, *end). */
void mnem_team_split(const mnem_worker *worker, int64_t n, int64_t grain, int64_t *begin,
                     int64_t *end);

#ifdef __cplusplus
}
#endif
#endif
