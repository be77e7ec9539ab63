/* plan_lines.h: the lines of a plan: bytes by kind and tag, whose sum is the peak. */
#ifndef MNEM_SRC_PLAN_PLAN_LINES_H
#define MNEM_SRC_PLAN_PLAN_LINES_H

#include "mnem/ledger.h"

/* Borrows the plan that it writes. */
typedef struct mnem__plan_lines {
    mnem_plan_line *line;
    unsigned *lines, most;
    uint64_t *total;
} mnem__plan_lines;

/* Adds to the line of this kind and tag; to a new line if there is none, to the last if all are
 * used. */
void mnem__plan_lines_add(const mnem__plan_lines *lines, mnem_kind kind, const char *tag,
                          uint64_t bytes);
/* Adds what is charged to the ledger. */
void mnem__plan_lines_add_live(const mnem__plan_lines *lines, mnem_ledger *ledger);
/* Sorts by kind; lines of one kind keep their order. */
void mnem__plan_lines_sort(const mnem__plan_lines *lines);

#endif
