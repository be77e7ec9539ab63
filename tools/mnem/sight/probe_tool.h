/* probe_tool.h: shared by the parts of `mnem probe`. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROBE_TOOL_H
#define MNEM_TOOLS_MNEM_SIGHT_PROBE_TOOL_H

#include "tool.h"

/* Prints tables; file: the file whose disk was measured, or NULL. */
void probe_print(const mnem_probe *probe, const char *file);
/* Prints doubts on standard error: wrong data of the system, noise, incomplete measurements. */
void probe_doubts(const mnem_probe *probe);

#endif
