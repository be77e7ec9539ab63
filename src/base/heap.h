/* heap.h: the only way to host memory inside the library.
 *
 * Small and medium things (metadata, tables, names) come from mnem__alloc, with a tag; they are
 * counted, may be refused by the watcher (the ledger), and can be made to fail by tests. Planned
 * memory (weights, pages of KV, activations, rings) comes from mnem__pages_map through a device.
 *
 * A tag is a string with static storage ("tokenizer", "metadata", "graph", "session"); one of at
 * most MNEM__HEAP_TAGS_MAX distinct texts. */
#ifndef MNEM_SRC_BASE_HEAP_H
#define MNEM_SRC_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MNEM__HEAP_TAGS_MAX = 32 };

/* NULL when the machine or the watcher refuses; the last error is then set, and
 * mnem__heap_status() says which. n = 0 gives a valid block. 16-byte aligned. */
void *mnem__alloc(const char *tag, size_t n);
void *mnem__calloc(const char *tag, size_t count, size_t size); /* zeroed; overflow is refused */
/* Like realloc; p keeps its tag when not NULL. On NULL, p is untouched. */
void *mnem__realloc(const char *tag, void *p, size_t n);
void mnem__free(void *p); /* NULL is fine */
char *mnem__strndup(const char *tag, const char *text, size_t n);

/* Why the last allocation on this thread returned NULL: MNEM_NO_MEMORY or MNEM_OVER_BUDGET. */
mnem_status mnem__heap_status(void);

/* Bytes live under one tag, as asked for. index from 0; false past the last tag in use. */
typedef struct mnem__heap_tag {
    const char *tag;
    uint64_t bytes_live, bytes_peak;
} mnem__heap_tag;
bool mnem__heap_tag_get(unsigned index, mnem__heap_tag *out);
/* What this thread took under a tag less what it gave back, since it began; may be below 0. The
 * difference of two answers is what the calls between took, whatever other threads do meanwhile. */
int64_t mnem__heap_thread_bytes(const char *tag);

/* One watcher for the process (the ledger that the whole process is charged to). charge may refuse
 * by returning a status other than MNEM_OK. Called with no lock held, from any thread. Borrowed
 * until it is replaced; NULL removes it. */
typedef struct mnem__heap_watcher {
    mnem_status (*charge)(void *context, const char *tag, uint64_t bytes);
    void (*release)(void *context, const char *tag, uint64_t bytes);
    void *context;
} mnem__heap_watcher;
void mnem__heap_watch(const mnem__heap_watcher *watcher);

/* Tests: the n-th following allocation (1 = the next), and all after it when sticky, fails.
 * n = 0 turns that off. Counts mnem__alloc, calloc, realloc, and what maps, reserves and commits
 * pages. */
void mnem__heap_fail_at(uint64_t n, bool sticky);

/* Anonymous pages, zero, each touched when touch is set, so that what is resident is known. bytes
 * is rounded up to whole pages. With touch, whole 2 MiB units may become huge pages (fewer misses
 * in the translation cache; nothing more resident), otherwise none. NULL when refused (status as
 * above, always MNEM_NO_MEMORY). */
void *mnem__pages_map(size_t bytes, bool touch);
/* The same at a multiple of alignment, a power of two. */
void *mnem__pages_map_aligned(size_t bytes, size_t alignment, bool touch);
void mnem__pages_unmap(void *p, size_t bytes);
/* Makes pages that were mapped untouched resident; false when the machine has none. */
bool mnem__pages_touch(void *p, size_t bytes);
size_t mnem__page_size(void);
/* Keeps pages from being swapped out; false where the process may not. Unmapping ends it. */
bool mnem__pages_lock(void *p, size_t bytes);

/* Addresses at a multiple of alignment without memory, given back by mnem__pages_unmap; access
 * faults. NULL when refused. */
void *mnem__pages_reserve(size_t bytes, size_t alignment);

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
 * change nothing when refused (the machine has a limit of mappings). */
bool mnem__pages_map_file(void *p, int fd, uint64_t offset, size_t bytes);
bool mnem__pages_map_nothing(void *p, size_t bytes);

/* Sets the C heap so that what is freed goes back to the machine (mnem_process_settle). */
void mnem__heap_settle(void);

#endif
