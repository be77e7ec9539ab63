/* probe_file.h: a probe of this machine as JSON, and kept: in $XDG_STATE_HOME/mnem (else in
 * ~/.local/state/mnem), probe-FINGERPRINT.json. */
#ifndef MNEM_TOOLS_MNEM_SIGHT_PROBE_FILE_H
#define MNEM_TOOLS_MNEM_SIGHT_PROBE_FILE_H

#include "tool.h"

/* The caller's; NULL: no room. */
json_t *tool_probe_json(const mnem_probe *probe);
/* What this machine's last probe measured; age: seconds since. False, and zeros, when there is
 * none, or none that is whole. */
bool tool_probe_load(mnem_probe *probe, double *age);
/* Written whole or not at all; prints why it can't. */
bool tool_probe_save(const mnem_probe *probe);

/* The figure that a plan goes by: loads of all threads from memory, bytes/s. 0: not measured. */
double tool_probe_memory_rate(const mnem_probe *probe);
/* "mnem probe, 3 h ago" */
char *tool_probe_when(double age, char text[TOOL_TEXT]);

#endif
