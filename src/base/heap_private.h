/* heap_private.h: what pages.c and memory_file.c share with heap.c: one count of calls, one point
 * of failure for tests, one text of a refusal. */
#ifndef MNEM_SRC_BASE_HEAP_PRIVATE_H
#define MNEM_SRC_BASE_HEAP_PRIVATE_H

#include "base/heap.h"

void mnem__heap_count_call(void);
/* Counts one try: true when a test wants it to fail. */
bool mnem__heap_fails_now(void);
/* Sets the last error and mnem__heap_status; NULL. */
void *mnem__heap_refuse(const char *tag, uint64_t bytes);
/* The same of what a caller stopped: MNEM_CANCELLED. */
void *mnem__heap_cancel(const char *tag);

/* Zeroed pages for so many bytes, untouched; given back by mnem__pages_unmap. NULL: the machine has
 * none. */
void *mnem__map(uint64_t bytes);
/* Moves them where they have no room. NULL: the machine has none, and they stay as they are. */
void *mnem__map_resize(void *p, uint64_t old, uint64_t bytes);
/* Pages at a multiple of alignment, with mmap's access and flags. NULL: the machine has none. */
char *mnem__map_aligned(uint64_t size, uint64_t alignment, int access, int flags);

#endif
