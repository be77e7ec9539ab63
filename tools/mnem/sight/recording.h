/* recording.h: --trace FILE, of verbs that compute. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_RECORDING_H
#define MNEM_TOOLS_MNEM_SIGHT_RECORDING_H

#include <limits.h>

#include "options.h"

extern const tool_option tool_trace_options[]; /* for a const char * */

typedef struct tool_recording {
    mnem_trace *trace; /* NULL: not requested */
    const char *path;
    char part[PATH_MAX]; /* with several ranks: this rank's file */
    bool quiet;
} tool_recording;

/* Call it before any work: checks that path's suffix is one of a format. NULL is allowed. */
int tool_recording_check(const tool_args *args, const char *path);
/* Begins a requested recording, once the ledger exists. All ranks call begin and end: each
 * records its own file beside path, and rank 0 merges them (recording_ranks.c). */
int tool_recording_begin(const tool_args *args, const char *path, const char *model,
                         mnem_ledger *ledger, tool_recording *recording);
/* Records the planned peak, for the report; 0, or no recording, is allowed. */
void tool_recording_predicted(tool_recording *recording, uint64_t bytes);
/* Writes the file, before the ledger is destroyed, and prints what the file lacks. code: that of
 * the run, which is returned unless it is TOOL_OK. */
int tool_recording_end(tool_recording *recording, int code);

/* ---- of several ranks (recording_ranks.c) ---- */

/* The path of this rank's file. */
void tool_recording_part(const char *path, char part[PATH_MAX]);
/* Measures how far each rank's clock is ahead of rank 0's; rank 0 gets the results. */
mnem_status tool_recording_clocks(void);
/* Rank 0 merges the files of all ranks into one and removes them, if the format supports several
 * ranks. dropped: in: this rank's lost events; out, on rank 0: those of all. */
mnem_status tool_recording_merge(const tool_recording *recording, uint64_t began_ns,
                                 uint64_t *dropped);

#endif
