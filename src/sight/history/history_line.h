/* history_line.h: writes a run as a line of JSON, and parses one. */
#ifndef MNEM_SRC_SIGHT_HISTORY_HISTORY_LINE_H
#define MNEM_SRC_SIGHT_HISTORY_HISTORY_LINE_H

#include <stddef.h>

#include "mnem/history.h"

/* Every line begins with this and the run's number, which is found without parsing the line. */
#define MNEM__HISTORY_BEGIN "{\"run\":"

/* Writes the line, with a line end and a zero, to out; returns its length, or 0: n bytes are too
 * few. */
size_t mnem__history_write(const mnem_history_run *run, char *out, size_t n);
/* false: the line isn't a run. Unknown keys are ignored, missing ones are zero. */
bool mnem__history_parse(const char *line, size_t n, mnem_history_run *run);

#endif
