/* other_load.h: which part of the processors' time others took while something was measured: other
 * processes, the kernel for them, and other guests of the host (steal). */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_OTHER_LOAD_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_OTHER_LOAD_H

#include <stdbool.h>

/* Seconds since some moment, of all processors together. */
typedef struct tool_load_times {
    double all;  /* busy or idle */
    double busy; /* with anything, this process too */
    double own;  /* this process */
} tool_load_times;

/* all and busy of the text of /proc/stat, whose clock has so many ticks a second; false: it has no
 * line of all processors. */
bool tool_load_parse(const char *stat, double ticks_per_s, tool_load_times *times);
/* Now; false where the system does not say. */
bool tool_load_get(tool_load_times *now);
/* Of the processors' time between two moments: 0 to 1; below 0: no time is known between them. */
double tool_load_share(const tool_load_times *before, const tool_load_times *after);

#endif
