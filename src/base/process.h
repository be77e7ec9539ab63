/* process.h: the kernel's figures about memory, from files under a root that tests can replace. */
#ifndef MNEM_SRC_BASE_PROCESS_H
#define MNEM_SRC_BASE_PROCESS_H

#include "base/error.h"

/* mnem_process_available with root before every path ("": the machine). */
mnem_status mnem__process_available_at(const char *root, uint64_t *bytes);

/* Reads a small file into out (n bytes with the terminating zero), without the heap. */
mnem_status mnem__file_read_small(const char *path, char *out, size_t n);

/* Makes the library's pages of code and constants resident, and changes nothing else in the
 * process. Best effort. */
void mnem__library_read(void);

#endif
