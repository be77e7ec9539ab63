/* other_load.h: the part of the processors' time that others used during a measurement: other
 * processes, the kernel for them, and other guests of the host (steal). */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_OTHER_LOAD_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_OTHER_LOAD_H

#include <stdbool.h>

/* Seconds since a fixed time, summed over all processors. */
typedef struct tool_load_times {
    double all;  /* busy or idle */
    double busy; /* busy, this process included */
    double own;  /* this process */
} tool_load_times;

/* Parses all and busy from the text of /proc/stat, with so many ticks per second; false: the
 * line of all processors is missing. */
bool tool_load_parse(const char *stat, double ticks_per_s, tool_load_times *times);
/* Gets the present times; false: the system doesn't report them. */
bool tool_load_get(tool_load_times *now);
/* The part that others used between two times, 0 to 1; below 0: unknown. */
double tool_load_share(const tool_load_times *before, const tool_load_times *after);

#endif
