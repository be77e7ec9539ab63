/* recording.h: --trace FILE of the verbs that compute. */
#ifndef MNEM_TOOL_SIGHT_RECORDING_H
#define MNEM_TOOL_SIGHT_RECORDING_H

#include "options.h"

extern const tool_option tool_trace_options[]; /* of a const char * */

typedef struct tool_recording {
    mnem_trace *trace; /* NULL: none was asked for */
    const char *path;
    bool quiet;
} tool_recording;

/* Before any work: whether path's ending says a format. path NULL is fine. */
int tool_recording_check(const tool_args *args, const char *path);
/* Begins, when the ledger is there, if there is one. */
int tool_recording_begin(const tool_args *args, const char *path, const char *model,
                         mnem_ledger *ledger, tool_recording *recording);
/* What the plan says of the peak, for the report; 0, and no recording, are fine. */
void tool_recording_predicted(tool_recording *recording, uint64_t bytes);
/* Writes the file, before the ledger goes, and says what isn't in it. code: of the run, which
 * stays when it isn't TOOL_OK. */
int tool_recording_end(tool_recording *recording, int code);

#endif
