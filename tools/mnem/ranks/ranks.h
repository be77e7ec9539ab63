/* ranks.h: one command line that a launcher starts in several processes (ranks).
 *
 * `mnem` is linked statically, and MPI can't be: a process that a launcher started as one of
 * several executes `mnem-mpi` beside it (ranks_alone.c), which consists of the same objects with
 * MPI (ranks_mpi.c). Rank 0 reads, prints and decides; the others print nothing and send their
 * errors to rank 0, which prints them. */
#ifndef MNEM_TOOLS_MNEM_RANKS_RANKS_H
#define MNEM_TOOLS_MNEM_RANKS_RANKS_H

#include "tool.h"

/* Call it before parsing the command line. TOOL_OK: continue. */
int tool_ranks_begin(int argc, char **argv);
/* Call it last: informs the other ranks of a failure. Returns the exit code. */
int tool_ranks_end(int code);
/* over_budget.c: the exit code of a process that ran. If its peak was above the given budget,
 * this is printed, and a code of 0 becomes 3 (except under sanitizers). With ranks, rank 0
 * prints it for each of them; code is then that of all ranks. */
int tool_over_budget_end(const tool_args *args, int code);
int tool_over_budget_rank(int32_t rank, uint64_t peak_bytes, uint64_t budget_bytes, int code);

/* NULL: a single process. */
mnem_comm *tool_ranks(void);
/* The measured bytes that MPI uses in this process. */
uint64_t tool_ranks_bytes(void);
/* Sets this rank's plan, for the table of all ranks that rank 0 prints at the end. */
void tool_ranks_planned(const mnem_engine_plan *plan, bool quiet);
/* Slows the link between ranks down to this one; all ranks call it. */
mnem_status tool_ranks_slow(const mnem_comm_link *link);
/* Sets this rank's plan of a training, with the peak of the whole run. */
void tool_ranks_trains(const mnem_train_plan *plan, uint64_t peak_bytes, bool quiet);
/* Adds seconds that this rank waited for others. */
void tool_ranks_waited(double seconds);
/* Whether this rank follows rank 0. */
bool tool_ranks_follows(void);
/* Refuses a verb that doesn't support ranks, if there are several. */
int tool_ranks_check(const tool_args *args);

/* ranks_file.c: a rank without the model file gets the parts that it needs from rank 0. All
 * ranks call this before the model is opened: on such a rank *path becomes the path of its local
 * copy. */
int tool_ranks_file_open(const char **path, mnem_ledger *ledger);
/* All ranks call this before they create an engine: it gets the parts that the engine reads. */
int tool_ranks_file_fill(const mnem_model *model, const mnem_engine_options *options,
                         const mnem_engine_plan *plan, bool quiet);

/* From here on all ranks follow rank 0, until it ends them in an orderly way. */
void tool_ranks_joined(void);

/* ---- with MPI only ---- */

/* Prints text on standard error, also on a rank that prints nothing else; only the first call
 * prints. */
void tool_ranks_say(const char *text);

/* ranks_watch.c: a thread that detects ends of ranks of which no message informs. */
typedef enum tool_watch_phase {
    WATCH_BEGINS,
    WATCH_RUNS,
    WATCH_ENDS,   /* MPI is ending */
    WATCH_LEAVES, /* MPI has ended */
    WATCH_OVER    /* a single process: nothing is watched */
} tool_watch_phase;
void tool_watch_begin(void);
/* Sets the phase. RUNS: tool_ranks stays valid until the next call. */
void tool_watch_turn(tool_watch_phase phase);
/* Call it last: returns when this rank may exit. */
void tool_watch_leave(void);

/* ---- launchers (launcher.c) ---- */

/* The number of processes that the launcher started; 1: a single process. *rank: this one's. */
int tool_launcher_size(int *rank);
/* The rank that an entry of the environment, NAME=VALUE, gives; -1: the entry is another
 * variable. */
int tool_launcher_rank(const char *entry);

#endif
