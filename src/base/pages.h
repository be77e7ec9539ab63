/* pages.h: pages of host memory, for what is planned (through a device), and addresses without any.
 * A refusal's status is mnem__heap_status(); mnem__heap_fail_at makes refusals here too. */
#ifndef MNEM_SRC_BASE_PAGES_H
#define MNEM_SRC_BASE_PAGES_H

#include "base/error.h"

/* Anonymous pages, zero, each touched when touch is set, so that what is resident is known. bytes
 * is rounded up to whole pages. With touch, whole 2 MiB units may become huge pages (fewer misses
 * in the translation cache; nothing more resident), otherwise none. NULL when refused:
 * MNEM_NO_MEMORY, unless who is told
 * of it stopped it. */
void *mnem__pages_map(size_t bytes, bool touch);
/* The same at a multiple of alignment, a power of two. */
void *mnem__pages_map_aligned(size_t bytes, size_t alignment, bool touch);
void mnem__pages_unmap(void *p, size_t bytes);
/* Tells progress ("taking memory", bytes of total) of the maps that this thread touches from now
 * on; the one in which it returns false is refused: MNEM_CANCELLED. NULL: nobody is told. */
void mnem__pages_tell(const mnem_progress *progress, uint64_t total);
/* Makes pages that were mapped untouched resident; false when the machine has none. */
bool mnem__pages_touch(void *p, size_t bytes);
size_t mnem__page_size(void);
/* Keeps pages from being swapped out; false where the process may not. Unmapping ends it. */
bool mnem__pages_lock(void *p, size_t bytes);

/* Addresses at a multiple of alignment without memory, given back by mnem__pages_unmap; access
 * faults. NULL when refused. */
void *mnem__pages_reserve(size_t bytes, size_t alignment);

#endif
