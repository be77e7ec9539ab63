/* heap_private.h: shared by heap.c, pages.c and memory_file.c: the count of calls, the fail
 * point of tests, and the text of a refusal. */
#ifndef MNEM_SRC_BASE_HEAP_PRIVATE_H
#define MNEM_SRC_BASE_HEAP_PRIVATE_H

#include "base/heap.h"

void mnem__heap_count_call(void);
/* Counts one call; true if a test makes it fail. */
bool mnem__heap_fails_now(void);
/* Sets the last error and mnem__heap_status. Returns NULL. */
void *mnem__heap_refuse(const char *tag, uint64_t bytes);
/* The same for a caller's cancellation: MNEM_CANCELLED. */
void *mnem__heap_cancel(const char *tag);

/* Maps zeroed, untouched pages; mnem__pages_unmap frees them. NULL: the machine refuses. */
void *mnem__map(uint64_t bytes);
/* Resizes them, and moves them if needed. NULL: the machine refuses; they are unchanged. */
void *mnem__map_resize(void *p, uint64_t old, uint64_t bytes);
/* Maps pages at a multiple of alignment, with mmap's access and flags. NULL: refused. */
char *mnem__map_aligned(uint64_t size, uint64_t alignment, int access, int flags);

#endif
