/* fuzz_history.c: any bytes as a line of the history: what was read is written, and read again. */
#include <stdlib.h>
#include <string.h>

#include "sight/history/history_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static char line[MNEM_HISTORY_LINE], other[MNEM_HISTORY_LINE];
    mnem_history_run run, again;
    if (!mnem__history_parse((const char *)data, n, &run)) return 0;
    const size_t length = mnem__history_write(&run, line, sizeof line);
    if (!length) return 0;
    if (!mnem__history_parse(line, length - 1, &again)) abort();
    if (mnem__history_write(&again, other, sizeof other) != length) abort();
    if (memcmp(line, other, length) != 0) abort();
    return 0;
}
