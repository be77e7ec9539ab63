/* history_file.h: the command's history of finished runs: its path, and the data that verbs add.
 *
 * $XDG_STATE_HOME/mnem/history.jsonl, or ~/.local/state/mnem/history.jsonl; nothing is stored with
 * --no-history or MNEM_HISTORY=off. A failure to store is printed with --verbose only, and doesn't
 * fail the run. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_HISTORY_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_HISTORY_FILE_H

#include "stage.h"

/* The option of all verbs that store runs; a bool (run's own help also mentions chat input). */
extern const tool_option tool_history_options[];

/* false: the environment gives no folder. */
bool tool_history_path(char *path, size_t n);
/* A short text that identifies this machine: processor, their number, memory. */
const char *tool_history_machine(void);
/* Fills in a run from a stage and its plan; stats NULL: the session's numbers. */
void tool_history_stage(const tool_stage *stage, const mnem_engine_stats *stats,
                        mnem_history_run *run);
void tool_history_phase(mnem_history_run *run, mnem_phase phase, uint64_t tokens, double seconds,
                        double cpu_seconds, double predicted_tokens_per_s);
/* Fills in the work of a phase with tokens; positions: the mean number that a token attended to. */
void tool_history_work(const tool_stage *stage, mnem_phase phase, double positions,
                       mnem_history_run *run);
/* Fills in the bytes by kind, from a plan's lines. */
void tool_history_lines(const mnem_plan_line *line, unsigned lines, mnem_history_run *run);
/* Adds the run to the history, unless that is turned off. */
void tool_history_add(const tool_args *args, mnem_history_run *run);
/* Processor time of all threads of the process, in seconds. */
double tool_cpu_clock(void);

#endif
