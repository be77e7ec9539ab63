/* heap.h: the only allocator of host memory inside the library.
 *
 * Small and medium objects (metadata, tables, names) come from mnem__alloc with a tag: they are
 * counted, the watcher (the ledger) may refuse them, and tests can make them fail. Planned memory
 * (weights, KV pages, activations, rings) comes from pages.h through a device.
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

/* The tag of tokenizers, vocabularies and their tables, in all layers. */
#define MNEM__TOKENIZER_TAG "tokenizer"

/* NULL if the machine or the watcher refuses; the last error is set then, and mnem__heap_status()
 * says which one refused. n = 0 gives a valid block. 16-byte aligned. */
void *mnem__alloc(const char *tag, size_t n);
void *mnem__calloc(const char *tag, size_t count, size_t size); /* zeroed; overflow is refused */
/* Like realloc; a p that isn't NULL keeps its tag. After a failure p is unchanged. */
void *mnem__realloc(const char *tag, void *p, size_t n);
void mnem__free(void *p); /* accepts NULL */
char *mnem__strndup(const char *tag, const char *text, size_t n);

/* Why the last allocation on this thread returned NULL: MNEM_NO_MEMORY or MNEM_OVER_BUDGET. */
mnem_status mnem__heap_status(void);

/* The live bytes of one tag, as requested. index from 0; false: past the last tag in use. */
typedef struct mnem__heap_tag {
    const char *tag;
    uint64_t bytes_live, bytes_peak;
} mnem__heap_tag;
bool mnem__heap_tag_get(unsigned index, mnem__heap_tag *out);

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

/* Configures the C heap to return freed memory to the machine (mnem_process_settle). */
void mnem__heap_settle(void);

#endif
