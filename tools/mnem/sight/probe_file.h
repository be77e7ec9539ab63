/* probe_file.h: a probe of this machine as JSON, and its file: probe-FINGERPRINT.json in
 * $XDG_STATE_HOME/mnem, or ~/.local/state/mnem. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROBE_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_PROBE_FILE_H

#include "tool.h"

/* A new reference; NULL: out of memory. */
json_t *tool_probe_json(const mnem_probe *probe);
/* Loads this machine's last probe; age: seconds since then. False, and zeros: there is none, or its
 * file is damaged. */
bool tool_probe_load(mnem_probe *probe, double *age);
/* Writes the file completely or not at all; prints errors. */
bool tool_probe_save(const mnem_probe *probe);

/* The figure that plans use: bytes/s that all threads load from memory; 0: not measured. */
double tool_probe_memory_rate(const mnem_probe *probe);
/* "mnem probe, 3 h ago" */
char *tool_probe_when(double age, char text[TOOL_TEXT]);

#endif
