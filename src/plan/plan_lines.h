/* plan_lines.h: the lines of a plan's bytes, by kind and tag, that sum to its peak. */
#ifndef MNEM_SRC_PLAN_PLAN_LINES_H
#define MNEM_SRC_PLAN_PLAN_LINES_H

#include "mnem/ledger.h"

/* Borrowed from the plan that it writes. */
typedef struct mnem__plan_lines {
    mnem_plan_line *line;
    unsigned *lines, most;
    uint64_t *total;
} mnem__plan_lines;

/* To the line of this kind and tag; a new one when there is none, the last when all are taken. */
void mnem__plan_lines_add(const mnem__plan_lines *lines, mnem_kind kind, const char *tag,
                          uint64_t bytes);
/* What is charged to the ledger now. */
void mnem__plan_lines_add_live(const mnem__plan_lines *lines, mnem_ledger *ledger);
/* By kind; lines of one kind stay as they came. */
void mnem__plan_lines_sort(const mnem__plan_lines *lines);

#endif
