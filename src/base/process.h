/* process.h: what the kernel says about memory, from files under a root that tests may replace. */
#ifndef MNEM_SRC_BASE_PROCESS_H
#define MNEM_SRC_BASE_PROCESS_H

#include "base/error.h"

/* mnem_process_available with root before every path ("" is the machine). */
mnem_status mnem__process_available_at(const char *root, uint64_t *bytes);

/* Reads a small file into out (n bytes with the zero), without the heap. */
mnem_status mnem__file_read_small(const char *path, char *out, size_t n);

/* Makes the library's own pages of code and constants resident; changes nothing else of the
 * process. Best effort. */
void mnem__library_read(void);

#endif
