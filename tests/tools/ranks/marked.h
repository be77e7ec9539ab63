/* marked.h: processes that have a mark in their environment: all that a launcher has started. */
#ifndef MNEM_TESTS_TOOLS_RANKS_MARKED_H
#define MNEM_TESTS_TOOLS_RANKS_MARKED_H

#include <stdbool.h>

#include <sys/types.h>

enum { MARKED_MAX = 16 };

/* Those that run; of one rank, where an entry of the environment says so. pids [MARKED_MAX] */
int marked_find(const char *mark, const char *entry, int *pids);
/* The process of this rank, with Open MPI or MPICH; 0: it isn't there. */
pid_t find_rank(const char *mark, int rank);
bool marked_are_there(const char *mark);
/* Until none is there. */
void marked_kill(const char *mark);

#endif
