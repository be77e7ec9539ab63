/* monitor_file.h: the command's own status file: where it is, and what verbs put into it.
 *
 * $XDG_RUNTIME_DIR/mnem/PID.status, or /tmp/mnem-UID/PID.status; none with MNEM_STATUS=off. Where
 * it can't be made there is none, and the run is no failure for it. Its bytes are static, so that
 * they are in every plan. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_MONITOR_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_MONITOR_FILE_H

#include "stage.h"

/* The folder; false: no path of that length. */
bool tool_monitor_folder(char *path, size_t n);

/* Begins the file of this run. */
void tool_monitor_begin(const tool_args *args, const char *model);
void tool_monitor_watch(const mnem_ledger *ledger); /* NULL: none any more */
/* Is it 100 ms since the last time? false, too, where there is no file. */
bool tool_monitor_due(void);
/* What the next tell says; of one thread. */
mnem_monitor_numbers *tool_monitor_numbers(const char *phase);
/* Counts a step; is it time to tell? */
bool tool_monitor_step(void);
/* Those steps, tokens and pages of an engine, and how fast they are since the last time. */
void tool_monitor_engine(const mnem_engine_stats *stats, const char *phase);
void tool_monitor_scheduler(const mnem_scheduler_stats *stats);
/* The models of a server, for the next tell: at once, if one changed. */
void tool_monitor_models(const mnem_monitor_model *models, uint32_t count);
void tool_monitor_tell(bool now);
void tool_monitor_end(void);

#endif
