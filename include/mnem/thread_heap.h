/* mnem/thread_heap.h: what the calling thread took from the library's heap.
 *
 * The ledger's live bytes (ledger.h) say what all threads took together. A caller that wants to
 * know what one call left behind, while other threads take and give back, compares this number
 * before and after. */
#ifndef MNEM_THREAD_HEAP_H
#define MNEM_THREAD_HEAP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes that the ledger which watches the heap was charged on this thread, less those that it
 * was given back here. May be below 0: another thread took what this one frees. */
int64_t mnem_thread_heap_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
