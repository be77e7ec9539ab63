/* page_boxes.h: the largest of many boxes, each with a beginning, an end and a height. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_BOXES_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_BOXES_H

#include "sight/report/page_code.h"

enum { MNEM__BOXES_MOST = 20000 };

typedef struct mnem__box {
    uint64_t from, to, low, bytes; /* times; lanes or addresses; bytes or depth */
    uint32_t owner;
} mnem__box;

typedef struct mnem__boxes {
    mnem__box *of; /* [count]: a heap, the smallest first */
    uint32_t count;
    uint64_t all; /* that were told */
} mnem__boxes;

mnem_status mnem__boxes_init(mnem__boxes *b);
void mnem__boxes_fini(mnem__boxes *b);
/* Kept if it is among the largest by area; one of bytes 0 counts by its time alone. */
void mnem__boxes_tell(mnem__boxes *b, const mnem__box *box);
/* From, length, low, bytes and owner: an array of five texts, by beginning. MNEM_NO_MEMORY. */
mnem_status mnem__boxes_write(mnem__boxes *b, mnem__code *code);

#endif
