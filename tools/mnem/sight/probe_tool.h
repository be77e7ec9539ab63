/* probe_tool.h: what the parts of `mnem probe` share. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROBE_TOOL_H
#define MNEM_TOOLS_MNEM_SIGHT_PROBE_TOOL_H

#include "tool.h"

/* As tables; file: whose disk was to be read, or NULL. */
void probe_print(const mnem_probe *probe, const char *file);
/* On standard error: where the system lies, what is noisy, what is measured in part. */
void probe_doubts(const mnem_probe *probe);

#endif
