/* pages.h: pages of host memory, for planned memory (through a device), and reserved addresses.
 * mnem__heap_status() is the status of a refusal; mnem__heap_fail_at works here too. */
#ifndef MNEM_SRC_BASE_PAGES_H
#define MNEM_SRC_BASE_PAGES_H

#include "base/error.h"

/* Maps zeroed anonymous pages; touch: makes each resident. bytes is rounded up to whole pages. With
 * touch, whole units of 2 MiB may become huge pages (fewer TLB misses, the same resident bytes);
 * otherwise none. NULL: refused with MNEM_NO_MEMORY, or MNEM_CANCELLED by the progress function. */
void *mnem__pages_map(size_t bytes, bool touch);
/* The same at a multiple of alignment, a power of two. */
void *mnem__pages_map_aligned(size_t bytes, size_t alignment, bool touch);
void mnem__pages_unmap(void *p, size_t bytes);
/* Reports the progress ("taking memory", bytes of total) of maps that this thread touches from now
 * on; if the function returns false, the map is refused with MNEM_CANCELLED. NULL: none. */
void mnem__pages_tell(const mnem_progress *progress, uint64_t total);
/* Makes untouched pages resident; false: the machine has no memory. */
bool mnem__pages_touch(void *p, size_t bytes);
size_t mnem__page_size(void);
/* Locks pages in memory until they are unmapped; false: the process has no permission. */
bool mnem__pages_lock(void *p, size_t bytes);

/* Reserves addresses at a multiple of alignment without memory; mnem__pages_unmap frees them;
 * access faults. NULL: refused. */
void *mnem__pages_reserve(size_t bytes, size_t alignment);

#endif
