/* history_line.h: a run as a line of JSON, and back. */
#ifndef MNEM_SRC_SIGHT_HISTORY_HISTORY_LINE_H
#define MNEM_SRC_SIGHT_HISTORY_HISTORY_LINE_H

#include <stddef.h>

#include "mnem/history.h"

/* Every line begins so, then the number: the newest is found without reading the line. */
#define MNEM__HISTORY_BEGIN "{\"run\":"

/* Into out, with a line's end and a zero; its length, 0: it needs more than n bytes. */
size_t mnem__history_write(const mnem_history_run *run, char *out, size_t n);
/* false: it isn't a run. Keys that aren't known are passed over, those that lack are zero. */
bool mnem__history_parse(const char *line, size_t n, mnem_history_run *run);

#endif
