/* top.h: shared by the files of `mnem top`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_TOP_TOP_H
#define MNEM_TOOLS_MNEM_VERBS_TOP_TOP_H

#include "tool.h"

typedef struct top_options {
    tool_args args;
    bool once, openmetrics;
    double interval;
} top_options;

/* The status file of an operand: a number is a process; "": the only one. Returns an exit code;
 * if the operand is ambiguous, prints the choices. */
int top_find(const char *operand, char *path, size_t n);

/* Prints text of so many columns and at most so many rows (0: all), each with a line end. */
void top_text(const mnem_monitor_view *view, int columns, int rows, bool colours);
void top_json(const mnem_monitor_view *view);
void top_open_metrics(const mnem_monitor_view *view);

/* Shows the file in the terminal until q, a signal, or the program's end. Returns an exit code. */
int top_live(const char *path, double interval);

#endif
