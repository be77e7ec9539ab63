/* page_code.h: numbers as text for a page: few bytes where neighbours are alike.
 *
 * The idea: differences between neighbours, signed ones folded (0, -1, 1, -2, ... become 0, 1, 2,
 * 3, ...), 7 bits a byte, the lowest first, the eighth bit says that more follow. A 0 is followed
 * by how many more zeros there are. The bytes are base64. Cost: no memory but 3 bytes. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_CODE_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_CODE_H

#include "mnem/report.h"

typedef struct mnem__code {
    const mnem_report_sink *sink;
    uint64_t zeros; /* not written yet */
    uint32_t bits;  /* bytes that wait for a third one */
    int waiting;
    bool failed; /* the sink doesn't take more */
    char text[256];
    size_t texts;
} mnem__code;

/* Text as it is. */
void mnem__code_text(mnem__code *code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A text in quotes, as JSON has it, with nothing that ends a script in HTML. */
void mnem__code_quoted(mnem__code *code, const char *text);
/* Numbers between a pair of quotes: begin, numbers, end. */
void mnem__code_begin(mnem__code *code);
void mnem__code_number(mnem__code *code, int64_t number);
void mnem__code_end(mnem__code *code);
/* What waits goes to the sink; false when it didn't take all. */
bool mnem__code_flush(mnem__code *code);

#endif
