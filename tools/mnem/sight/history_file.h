/* history_file.h: the command's history of finished runs: where it is, and what verbs put into it.
 *
 * $XDG_STATE_HOME/mnem/history.jsonl, or ~/.local/state/mnem/history.jsonl; nothing is kept with
 * --no-history or MNEM_HISTORY=off. What can't be kept is said with --verbose only: a run is no
 * failure for it. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_HISTORY_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_HISTORY_FILE_H

#include "stage.h"

/* Of all verbs that keep runs; a bool (run's own says what was typed in chats, too). */
extern const tool_option tool_history_options[];

/* false: no variable says where. */
bool tool_history_path(char *path, size_t n);
/* A short text that stands for this machine: processor, how many, memory. */
const char *tool_history_machine(void);
/* What a stage with its plan says of a run; engine NULL: the session's numbers. */
void tool_history_stage(const tool_stage *stage, const mnem_engine_stats *stats,
                        mnem_history_run *run);
void tool_history_phase(mnem_history_run *run, mnem_phase phase, uint64_t tokens, double seconds,
                        double cpu_seconds, double predicted_tokens_per_s);
/* What was done in a phase that has tokens, each of which saw so many positions in the mean. */
void tool_history_work(const tool_stage *stage, mnem_phase phase, double positions,
                       mnem_history_run *run);
/* Bytes by kind, of a plan's lines. */
void tool_history_lines(const mnem_plan_line *line, unsigned lines, mnem_history_run *run);
/* Adds the run, unless it isn't wanted. */
void tool_history_add(const tool_args *args, mnem_history_run *run);
/* Seconds of all threads of the process. */
double tool_cpu_clock(void);

#endif
