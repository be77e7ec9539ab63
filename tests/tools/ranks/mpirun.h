/* mpirun.h: the command as several ranks, for tests of it. */
#ifndef MNEM_TESTS_TOOLS_RANKS_MPIRUN_H
#define MNEM_TESTS_TOOLS_RANKS_MPIRUN_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/tool_run.h"

/* Of a shell's line; %d: how many ranks. Open MPI keeps some memory to the end; leaks of ours are
 * for the tests whose ranks are threads to find. MPIRUN_OF: of another program. */
#define MPIRUN_OF                                                                                  \
    "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 "                          \
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "                                                            \
    "OMPI_MCA_rmaps_base_oversubscribe=1 " MNEM_MPIRUN " -n %d "
#define MPIRUN MPIRUN_OF MNEM_COMMAND " "

/* What a shell's command left in out and err of the scratch folder. */
typedef struct said {
    int code;
    char out[64 * 1024], err[64 * 1024];
} said;
/* Runs it and keeps what it says, until the next one; a run that takes over five minutes is
 * killed. */
const said *shell(const char *format, ...);
/* The same beside others, which mostly wait: each has a number below AT_ONCE, and what it says is
 * kept until the next one of that number. All are in the scratch folder: files that they write need
 * names of their own. */
enum { AT_ONCE = 8 };
void shell_start(int number, const char *format, ...);
const said *shell_end(int number);
/* The bytes that a refusal names as enough: of a list the first. Fails where it names none. */
uint64_t least_named(const said *refusal);
/* The text of a file, cut at n - 1. */
void read_said(const char *path, char *text, size_t n);
/* Every rank's line of the table of an end: its peak is within its budget. peak, planned [8] */
void read_table(const char *err, int ranks, uint64_t *peak, uint64_t *planned);
void check_table(const char *err, int ranks);
/* A run that ended because this rank's process was lost: it failed, and the other ranks name the
 * process and say text of it. */
void check_named(const said *s, int rank, pid_t process, const char *text);

#endif
