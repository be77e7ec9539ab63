/* block.h: a block of bytes as viewers show memory: an address with a lifetime. */
#ifndef MNEM_SRC_TRACE_EXPORT_BLOCK_H
#define MNEM_SRC_TRACE_EXPORT_BLOCK_H

#include <stdint.h>

#include "base/error.h"

typedef struct mnem__block {
    uint64_t address, bytes;
    uint64_t born_ns, total_born; /* total_born: the device's live bytes with it, if it was asked */
    uint32_t account, site, stream;
} mnem__block;

/* Told of each block when it begins and when it ends. begin may set total_born. */
typedef struct mnem__block_listener {
    void (*begin)(void *context, mnem__block *b);
    void (*end)(void *context, const mnem__block *b, uint64_t ns);
    void *context;
} mnem__block_listener;

#endif
