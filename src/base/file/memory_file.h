/* memory_file.h: memory without addresses, and its mapping into reserved addresses. */
#ifndef MNEM_SRC_BASE_FILE_MEMORY_FILE_H
#define MNEM_SRC_BASE_FILE_MEMORY_FILE_H

#include "base/error.h"

/* Opens memory without addresses: a file of this process only, all holes at first, of `bytes` or of
 * the process's limit. Offsets and bytes are multiples of 2 MiB. huge: from the machine's reserved
 * huge pages; these are often refused, and mnem__heap_fail_at doesn't count them. */
int mnem__memory_file_open(uint64_t bytes, bool huge); /* below 0: refused */
void mnem__memory_file_close(int fd);                  /* accepts values below 0 */
/* The type of its pages: "huge", "transparent" (the kernel may make them huge), "plain". */
const char *mnem__memory_file_pages(bool huge);
/* Takes zeroed memory for a hole; false: nothing was taken. */
bool mnem__memory_file_commit(int fd, uint64_t offset, size_t bytes, bool huge);
/* Makes a hole again: frees the memory, even where it is mapped. */
void mnem__memory_file_drop(int fd, uint64_t offset, size_t bytes);
/* Maps committed memory over reserved addresses, present at once; and makes the addresses
 * reserved again. Both change nothing when refused (the machine limits the number of mappings).
 * A forked child has no mapping there: access faults. */
bool mnem__pages_map_file(void *p, int fd, uint64_t offset, size_t bytes);
bool mnem__pages_map_nothing(void *p, size_t bytes);

#endif
