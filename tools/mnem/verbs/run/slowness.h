/* slowness.h: the reasons why a run was slower than planned. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SLOWNESS_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SLOWNESS_H

#include "verbs/run/generate.h"

/* Times of the machine and this process at the beginning of the run, in seconds. */
typedef struct tool_pace {
    double clock, machine, own;
} tool_pace;

void tool_pace_begin(tool_pace *pace);
/* Writes a sentence with the reasons to out, at most n bytes. false, and "": the run was as fast as
 * planned or too short, or it had no prediction (no profile) and nothing slowed it down. */
bool tool_slowness(const tool_generator *g, const tool_pace *pace, char *out, size_t n);

#endif
