/* monitor_file.h: the command's own status file: its path, and the numbers that verbs write.
 *
 * $XDG_RUNTIME_DIR/mnem/PID.status, or /tmp/mnem-UID/PID.status; none with MNEM_STATUS=off. If it
 * can't be created, the run continues without one. Its memory is static, so that every plan has
 * it. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_MONITOR_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_MONITOR_FILE_H

#include "stage.h"

/* The folder of status files; false: its path is too long. */
bool tool_monitor_folder(char *path, size_t n);

/* Creates the file of this run. */
void tool_monitor_begin(const tool_args *args, const char *model);
void tool_monitor_watch(const mnem_ledger *ledger); /* NULL: no longer */
/* Whether 100 ms have passed since the last write; false without a file. */
bool tool_monitor_due(void);
/* The numbers that the next tell writes; for one thread only. */
mnem_monitor_numbers *tool_monitor_numbers(const char *phase);
/* Counts a step; whether the next write is due. */
bool tool_monitor_step(void);
/* Writes an engine's steps, tokens and pages, and their rates since the last write. */
void tool_monitor_engine(const mnem_engine_stats *stats, const char *phase);
void tool_monitor_scheduler(const mnem_scheduler_stats *stats);
/* The models of a server, for the next tell: at once, if one changed. */
void tool_monitor_models(const mnem_monitor_model *models, uint32_t count);
void tool_monitor_tell(bool now);
void tool_monitor_end(void);

#endif
