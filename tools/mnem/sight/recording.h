/* recording.h: --trace FILE of the verbs that compute. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_RECORDING_H
#define MNEM_TOOLS_MNEM_SIGHT_RECORDING_H

#include <limits.h>

#include "options.h"

extern const tool_option tool_trace_options[]; /* of a const char * */

typedef struct tool_recording {
    mnem_trace *trace; /* NULL: none was asked for */
    const char *path;
    char part[PATH_MAX]; /* of several ranks: this one's own file */
    bool quiet;
} tool_recording;

/* Before any work: whether path's ending says a format. path NULL is fine. */
int tool_recording_check(const tool_args *args, const char *path);
/* Begins, when the ledger is there, if there is one. Of several ranks all call it, and the end:
 * each records its own, beside path, and rank 0 makes one file of them (recording_ranks.c). */
int tool_recording_begin(const tool_args *args, const char *path, const char *model,
                         mnem_ledger *ledger, tool_recording *recording);
/* What the plan says of the peak, for the report; 0, and no recording, are fine. */
void tool_recording_predicted(tool_recording *recording, uint64_t bytes);
/* Writes the file, before the ledger goes, and says what isn't in it. code: of the run, which
 * stays when it isn't TOOL_OK. */
int tool_recording_end(tool_recording *recording, int code);

/* ---- of several ranks (recording_ranks.c) ---- */

/* This rank's own file. */
void tool_recording_part(const char *path, char part[PATH_MAX]);
/* How far each rank's clock is before rank 0's, which learns it. */
mnem_status tool_recording_clocks(void);
/* Rank 0 makes one file of all, where its format holds several: the parts are gone then. dropped:
 * of this rank; of all, on rank 0, when it returns. */
mnem_status tool_recording_merge(const tool_recording *recording, uint64_t began_ns,
                                 uint64_t *dropped);

#endif
