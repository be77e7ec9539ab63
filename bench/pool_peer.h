/* pool_peer.h: what a shared object must export so that bench_pool --peer NAME=FILE can measure it.
 *
 * An allocator of offsets in [0, bytes), one thread, 256-byte alignment (so many bytes are one unit
 * of its own, if it counts in units). Nobody touches the memory. The four functions are plain C. */
#ifndef MNEM_BENCH_POOL_PEER_H
#define MNEM_BENCH_POOL_PEER_H

#include <stdint.h>

/* blocks_max: more are never live. NULL when it can't. */
void *pool_peer_create(uint64_t bytes, uint32_t blocks_max);
/* 1: *offset and *handle are set; 0: no room. */
int pool_peer_alloc(void *peer, uint64_t bytes, uint64_t *offset, uint64_t *handle);
void pool_peer_free(void *peer, uint64_t handle);
void pool_peer_destroy(void *peer);

#endif
