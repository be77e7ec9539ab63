/* page_boxes.h: keeps the largest of many boxes, each with a beginning, an end and a height. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_BOXES_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_BOXES_H

#include "sight/report/page_code.h"

enum { MNEM__BOXES_MOST = 20000 };

typedef struct mnem__box {
    uint64_t from, to, low,
        bytes; /* from, to: times; low: lane or address; bytes: bytes or depth */
    uint32_t owner;
} mnem__box;

typedef struct mnem__boxes {
    mnem__box *of; /* [count]: a heap with the smallest box at the top */
    uint32_t count;
    uint64_t all; /* number of boxes added, kept or not */
} mnem__boxes;

mnem_status mnem__boxes_init(mnem__boxes *b);
void mnem__boxes_fini(mnem__boxes *b);
/* Adds a box; it is kept if it is among the largest by area (by duration if bytes is 0). */
void mnem__boxes_tell(mnem__boxes *b, const mnem__box *box);
/* Writes an array of five texts: from, length, low, bytes and owner of each box, sorted by from.
 * MNEM_NO_MEMORY. */
mnem_status mnem__boxes_write(mnem__boxes *b, mnem__code *code);

#endif
