/* slowness.h: why a run was slower than planned. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_SLOWNESS_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_SLOWNESS_H

#include "verbs/run/generate.h"

/* What the machine and this process had done when the run began, in seconds. */
typedef struct tool_pace {
    double clock, machine, own;
} tool_pace;

void tool_pace_begin(tool_pace *pace);
/* A sentence with the reasons into out, at most n bytes. false, and "": it was as fast as planned,
 * too short to say, or nothing was planned (no profile) and nothing stood in the way. */
bool tool_slowness(const tool_generator *g, const tool_pace *pace, char *out, size_t n);

#endif
