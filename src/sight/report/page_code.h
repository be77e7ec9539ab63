/* page_code.h: encodes numbers as text for a page, in few bytes if neighbours are similar.
 *
 * The code: differences between neighbours; signed ones are folded (0, -1, 1, -2, ... become 0,
 * 1, 2, 3, ...). Each has 7 bits per byte, lowest first; the eighth bit says that more follow. A
 * 0 is followed by the number of further zeros. The bytes are written as base64. Needs no
 * memory. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_CODE_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_CODE_H

#include "mnem/report.h"

typedef struct mnem__code {
    const mnem_report_sink *sink;
    uint64_t zeros; /* pending zeros */
    uint32_t bits;  /* pending bytes of a group of three */
    int waiting;
    bool failed; /* the sink has failed */
    char text[256];
    size_t texts;
} mnem__code;

/* Writes text unchanged. */
void mnem__code_text(mnem__code *code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes a JSON string, escaped so that it can't end a script element of HTML. */
void mnem__code_quoted(mnem__code *code, const char *text);
/* Numbers are written between begin and end, which write the quotes. */
void mnem__code_begin(mnem__code *code);
void mnem__code_number(mnem__code *code, int64_t number);
void mnem__code_end(mnem__code *code);
/* Passes pending text to the sink; false: the sink failed. */
bool mnem__code_flush(mnem__code *code);

#endif
