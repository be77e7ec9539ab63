/* ranks.h: one command line that a launcher started several times.
 *
 * `mnem` is linked statically, and MPI isn't to be had so: started by a launcher as one of several
 * it executes `mnem-mpi` beside it (ranks_alone.c), the same objects with MPI (ranks_mpi.c). Rank 0
 * reads, prints and decides; the others are silent, and what goes wrong on one of them is told to
 * rank 0, which says it. */
#ifndef MNEM_TOOLS_MNEM_RANKS_RANKS_H
#define MNEM_TOOLS_MNEM_RANKS_RANKS_H

#include "tool.h"

/* Before anything else of the command line is looked at. TOOL_OK: go on. */
int tool_ranks_begin(int argc, char **argv);
/* The last thing: the others learn of a failure. Returns the code. */
int tool_ranks_end(int code);
/* over_budget.c: what a process that ran ends with: where its peak was above the budget that was
 * given, it says so, and a code of 0 becomes 3 (but under sanitizers). Ranks say it of each, on
 * rank 0, where code is theirs so far. */
int tool_over_budget_end(const tool_args *args, int code);
int tool_over_budget_rank(int32_t rank, uint64_t peak_bytes, uint64_t budget_bytes, int code);

/* NULL: this process is alone. */
mnem_comm *tool_ranks(void);
/* What MPI takes of this process, measured. */
uint64_t tool_ranks_bytes(void);
/* What this rank planned, for the table of all ranks that rank 0 shows at the end. */
void tool_ranks_planned(const mnem_engine_plan *plan, bool quiet);
/* Makes what is between ranks as slow as this, on all of them. */
mnem_status tool_ranks_slow(const mnem_comm_link *link);
/* The same of a training, with the peak of all of it. */
void tool_ranks_trains(const mnem_train_plan *plan, uint64_t peak_bytes, bool quiet);
/* Seconds more that this rank has waited for others. */
void tool_ranks_waited(double seconds);
/* Is this one of the ranks that do what rank 0 says? */
bool tool_ranks_follows(void);
/* Where there are ranks and the verb is none that runs on several: says so. */
int tool_ranks_check(const tool_args *args);

/* ranks_file.c: a rank without the model's file gets what it needs of it from rank 0. Before the
 * model is opened, by all: *path becomes that of what such a rank keeps of it. */
int tool_ranks_file_open(const char **path, mnem_ledger *ledger);
/* Before an engine is made of the plan, by all: what it reads is there then. */
int tool_ranks_file_fill(const mnem_model *model, const mnem_engine_options *options,
                         const mnem_engine_plan *plan, bool quiet);

/* All ranks do what rank 0 says from now on, until it ends them in order. */
void tool_ranks_joined(void);

/* ---- with MPI only ---- */

/* Once, by whichever thread comes first, on standard error also where this rank is silent. */
void tool_ranks_say(const char *text);

/* ranks_watch.c: a thread that sees what no message tells. */
typedef enum tool_watch_phase {
    WATCH_BEGINS,
    WATCH_RUNS,
    WATCH_ENDS,   /* MPI does */
    WATCH_LEAVES, /* it has */
    WATCH_OVER    /* this process is alone: nothing is watched */
} tool_watch_phase;
void tool_watch_begin(void);
/* RUNS: tool_ranks is there until the next turn. */
void tool_watch_turn(tool_watch_phase phase);
/* The last thing: returns when this rank may leave the others. */
void tool_watch_leave(void);

/* ---- launchers (launcher.c) ---- */

/* How many were started with this one; 1: it is alone. *rank: which it is. */
int tool_launcher_size(int *rank);
/* Of a process whose environment has this entry, NAME=VALUE; -1: it says nothing of a rank. */
int tool_launcher_rank(const char *entry);

#endif
