/* memory_file.h: memory without addresses, and its mapping into addresses that were reserved. */
#ifndef MNEM_SRC_BASE_FILE_MEMORY_FILE_H
#define MNEM_SRC_BASE_FILE_MEMORY_FILE_H

#include "base/error.h"

/* Memory without addresses: a file that only this process sees, all holes at first, of bytes or as
 * large as the process may have one. Offsets and bytes are multiples of 2 MiB. huge: of the pages
 * that the machine's owner set aside for huge ones; refusals of those are common, and not among
 * those that mnem__heap_fail_at makes. */
int mnem__memory_file_open(uint64_t bytes, bool huge); /* below 0 when refused */
void mnem__memory_file_close(int fd);                  /* below 0 is fine */
/* What its pages will be: "huge", "transparent" (the kernel may make them huge), "plain". */
const char *mnem__memory_file_pages(bool huge);
/* Takes zeroed memory for a hole; nothing is taken when the answer is false. */
bool mnem__memory_file_commit(int fd, uint64_t offset, size_t bytes, bool huge);
/* Makes a hole again: the memory goes back to the machine, also where it is mapped. */
void mnem__memory_file_drop(int fd, uint64_t offset, size_t bytes);
/* Maps committed memory over a reserved place, present from then on; and back to reserved. Both
 * change nothing when refused (the machine has a limit of mappings). A forked child has no map
 * there: access faults. */
bool mnem__pages_map_file(void *p, int fd, uint64_t offset, size_t bytes);
bool mnem__pages_map_nothing(void *p, size_t bytes);

#endif
