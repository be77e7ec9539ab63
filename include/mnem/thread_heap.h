/* mnem/thread_heap.h: bytes that the calling thread took from the library's heap.
 *
 * The ledger's live bytes (ledger.h) are those of all threads together. A caller that wants to know
 * how many bytes one call has kept, while other threads allocate and free, compares this number
 * before and after the call. */
#ifndef MNEM_THREAD_HEAP_H
#define MNEM_THREAD_HEAP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes that this thread charged to the heap's ledger, minus those that it released. Negative
 * if the thread has freed bytes that other threads took. */
int64_t mnem_thread_heap_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
